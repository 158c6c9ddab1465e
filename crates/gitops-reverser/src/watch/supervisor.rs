use std::collections::{HashMap, HashSet};
use std::future::pending;
use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, Id, JoinSet};

use super::list_watch::{Assignment, drive};
use super::source::Source;
use super::{Observed, Scope, WatchSettings};

/// Keeps one driver running for each scope.
///
/// Tasks belong to the supervisor: they end when it is dropped.
#[derive(Debug)]
pub struct WatchSupervisor {
    client: Client,
    settings: Arc<WatchSettings>,
    lists: Arc<Semaphore>,
    tx: mpsc::Sender<Observed>,
    tasks: JoinSet<()>,
    running: HashMap<Arc<Scope>, Running>,
    /// Of tasks that run or were just stopped.
    names: HashMap<Id, Arc<Scope>>,
    last_epoch: u64,
}

/// [`kube::Client`] does not say what it is.
struct Client(kube::Client);

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

#[derive(Debug)]
struct Running {
    epoch: u64,
    task: AbortHandle,
}

/// What a change of the scopes did.
#[must_use = "what is not watched any more is not known any more"]
#[derive(Debug, Default)]
pub struct Changes {
    /// Watched from now on, each with its epoch.
    pub started: Vec<(Arc<Scope>, u64)>,
    /// Not watched any more. Messages that are still on their way have the epoch given.
    pub stopped: Vec<(Arc<Scope>, u64)>,
}

/// Why watching came to an end.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// A fault in the driver; nothing is told of the scope any more.
    #[error("the watch of {scope} broke down")]
    Panicked {
        /// Of what.
        scope: Arc<Scope>,
        /// How.
        #[source]
        source: tokio::task::JoinError,
    },
    /// Whoever listened does not any more.
    #[error("nobody listens to what the watch of {scope} tells")]
    ConsumerGone {
        /// Of what.
        scope: Arc<Scope>,
    },
}

impl WatchSupervisor {
    /// Watches nothing yet. What is seen is sent to `tx`; while that is full, everything waits.
    #[must_use]
    pub fn new(client: kube::Client, settings: WatchSettings, tx: mpsc::Sender<Observed>) -> Self {
        Self {
            client: Client(client),
            lists: Arc::new(Semaphore::new(settings.concurrent_lists)),
            settings: Arc::new(settings),
            tx,
            tasks: JoinSet::new(),
            running: HashMap::new(),
            names: HashMap::new(),
            last_epoch: 0,
        }
    }

    /// Watches these scopes and no others. Those that are watched already are not disturbed.
    pub fn set_scopes(&mut self, scopes: &HashSet<Scope>) -> Changes {
        let mut changes = Changes::default();
        let superfluous = self
            .running
            .extract_if(|scope, _| !scopes.contains(&**scope));
        for (scope, Running { epoch, task }) in superfluous {
            task.abort();
            changes.stopped.push((scope, epoch));
        }
        for scope in scopes {
            if !self.running.contains_key(scope) {
                let scope = Arc::new(scope.clone());
                let epoch = self.start(scope.clone());
                changes.started.push((scope, epoch));
            }
        }
        changes
    }

    /// Lists a scope again now, for instance because its definition changed. Gives the new epoch,
    /// or nothing if the scope is not watched.
    pub fn restart(&mut self, scope: &Scope) -> Option<u64> {
        let (scope, Running { task, .. }) = self.running.remove_entry(scope)?;
        task.abort();
        Some(self.start(scope))
    }

    /// Asks whether a scope that is not watched may be, beside everything else.
    pub fn ask(&self, scope: &Scope) -> impl Future<Output = bool> + Send + use<> {
        let source = Source::new(self.client.0.clone(), scope, self.settings.clone());
        async move { source.is_allowed().await }
    }

    /// The epoch of a scope that is watched.
    #[must_use]
    pub fn epoch_of(&self, scope: &Scope) -> Option<u64> {
        self.running.get(scope).map(|running| running.epoch)
    }

    /// Waits until a driver ends that was not stopped, which must not happen.
    ///
    /// May be dropped and called again at any time, and must be: what was stopped is cleared away
    /// here.
    pub async fn broken(&mut self) -> SupervisorError {
        loop {
            let (id, source) = match self.tasks.join_next_with_id().await {
                None => pending().await,
                Some(Ok((id, ()))) => (id, None),
                Some(Err(error)) => (error.id(), Some(error)),
            };
            let Some(scope) = self.names.remove(&id) else {
                continue;
            };
            match source {
                // It was stopped.
                Some(error) if error.is_cancelled() => {}
                Some(source) => return SupervisorError::Panicked { scope, source },
                None => return SupervisorError::ConsumerGone { scope },
            }
        }
    }

    fn start(&mut self, scope: Arc<Scope>) -> u64 {
        self.last_epoch += 1;
        let epoch = self.last_epoch;
        let task = self.tasks.spawn(drive(Assignment {
            client: self.client.0.clone(),
            settings: self.settings.clone(),
            lists: self.lists.clone(),
            scope: scope.clone(),
            epoch,
            tx: self.tx.clone(),
        }));
        self.names.insert(task.id(), scope.clone());
        self.running.insert(scope, Running { epoch, task });
        epoch
    }
}

#[cfg(test)]
mod tests {
    use reverser_core::object_key::TypeKey;

    use super::*;

    #[tokio::test]
    async fn a_driver_that_breaks_down_is_named() {
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = kube::Client::try_from(nowhere).unwrap();
        let (tx, _rx) = mpsc::channel(1);
        let mut supervisor = WatchSupervisor::new(client, WatchSettings::default(), tx);
        let scope = Arc::new(Scope {
            type_key: TypeKey::new("", "v1", "pods").unwrap(),
            kind: "Pod".to_owned(),
            namespace: None,
        });
        let task = supervisor.tasks.spawn(async { panic!("a fault") });
        supervisor.names.insert(task.id(), scope);
        let error = supervisor.broken().await;
        assert!(matches!(error, SupervisorError::Panicked { .. }));
        assert_eq!(error.to_string(), "the watch of v1/pods broke down");
    }
}
