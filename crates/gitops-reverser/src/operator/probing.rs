//! Asks repositories that no writer uses, so that their status can be told: one that a platform team
//! has set up is Ready, or says why not, before anybody writes to it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use reverser_git::{CancelToken, Git};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::AbortHandle;

use super::OperatorSettings;
use super::ends::AccessTo;
use crate::identity::Id;
use crate::routing::{Configuration, Edition, Refusal, RepoState, Routing};
use crate::writer::{AccessSource, Reaching, RemoteAnswer, after_failures};

/// So many are asked at once, one of each namespace.
const AT_ONCE: usize = 4;

/// What a repository answered.
pub(super) type Answer = (Id, RemoteAnswer);

/// Those who ask, one for each repository.
pub(super) struct Probes {
    access: Option<AccessTo>,
    git: Git,
    folder: PathBuf,
    poll: Duration,
    turns: Turns,
    running: BTreeMap<Id, Probe>,
    /// How many were begun: what an earlier one heard says nothing.
    begun: u64,
    answers_tx: mpsc::UnboundedSender<(u64, Answer)>,
    answers: mpsc::UnboundedReceiver<(u64, Answer)>,
}

/// A repository that is asked again and again, until this is dropped.
struct Probe {
    of: RepoState,
    number: u64,
    cancel: CancelToken,
    task: AbortHandle,
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.cancel.cancel();
        self.task.abort();
    }
}

/// The repositories that can be asked and that no destination in effect writes to.
pub(super) fn unused(configuration: &Configuration, routing: &Routing) -> BTreeMap<Id, RepoState> {
    let destinations = routing.destinations.values().flatten();
    let used: BTreeSet<&Id> = destinations.map(|one| &one.target.repo).collect();
    let repos = configuration.repos.iter();
    let asked = repos.filter_map(|(id, repo)| {
        let url = routing.repos.get(id)?.as_ref().ok()?.clone();
        let edition = Edition::of(&**repo);
        (!used.contains(id)).then(|| (id.clone(), RepoState { url, edition }))
    });
    asked.collect()
}

impl Probes {
    pub(super) fn new(access: Option<AccessTo>, settings: &OperatorSettings) -> Self {
        let folder = format!(".gitops-reverser-probes-{}", std::process::id());
        let folder = settings.work_dir.join(folder);
        if access.is_some() {
            // What one of that number left behind that was killed.
            let _ = std::fs::remove_dir_all(&folder);
        }
        let (answers_tx, answers) = mpsc::unbounded_channel();
        Self {
            access,
            git: settings.git.clone(),
            folder,
            poll: settings.poll,
            turns: Turns::new(),
            running: BTreeMap::new(),
            begun: 0,
            answers_tx,
            answers,
        }
    }

    /// Asks these, and no others any more. Gives those of which nothing is known that counts.
    pub(super) fn ask(&mut self, wanted: BTreeMap<Id, RepoState>) -> Vec<Id> {
        let Some(access) = &self.access else {
            return Vec::new();
        };
        self.running
            .retain(|id, probe| wanted.get(id) == Some(&probe.of));
        self.turns.keep_those_of(&wanted);
        let mut anew = Vec::new();
        for (id, of) in wanted {
            if self.running.contains_key(&id) {
                continue;
            }
            self.begun += 1;
            let cancel = CancelToken::new();
            let asking = Asking {
                id: id.clone(),
                number: self.begun,
                of: of.clone(),
                access: access(&id, &of.url),
                git: self.git.clone(),
                folder: self.folder.join(self.begun.to_string()),
                poll: self.poll,
                queue: self.turns.queue_of(&id.namespace),
                cancel: cancel.clone(),
                answers: self.answers_tx.clone(),
            };
            let probe = Probe {
                of,
                number: self.begun,
                cancel,
                task: tokio::spawn(asking.run()).abort_handle(),
            };
            self.running.insert(id.clone(), probe);
            anew.push(id);
        }
        anew
    }

    /// The next answer of one that is still asked.
    pub(super) async fn next(&mut self) -> Answer {
        while let Some((number, answer)) = self.answers.recv().await {
            let probe = self.running.get(&answer.0);
            if probe.is_some_and(|probe| probe.number == number) {
                return answer;
            }
        }
        std::future::pending().await
    }
}

/// Whose turn it is to ask. Of each namespace only one waits with the others: whoever has many
/// repositories that do not answer delays their own, and others for no longer than one.
struct Turns {
    all: Arc<Semaphore>,
    of_namespaces: BTreeMap<String, Arc<Semaphore>>,
}

/// Where the repositories of a namespace wait for their turn.
struct Queue {
    own: Arc<Semaphore>,
    all: Arc<Semaphore>,
}

/// A turn, until it is dropped.
struct Turn {
    _own: Option<OwnedSemaphorePermit>,
    _all: Option<OwnedSemaphorePermit>,
}

impl Turns {
    fn new() -> Self {
        Self {
            all: Arc::new(Semaphore::new(AT_ONCE)),
            of_namespaces: BTreeMap::new(),
        }
    }

    fn queue_of(&mut self, namespace: &str) -> Queue {
        let own = self.of_namespaces.entry(namespace.to_owned());
        let own = own.or_insert_with(|| Arc::new(Semaphore::new(1)));
        Queue {
            own: own.clone(),
            all: self.all.clone(),
        }
    }

    /// Forgets namespaces of which nothing is asked any more.
    fn keep_those_of(&mut self, wanted: &BTreeMap<Id, RepoState>) {
        let namespaces: BTreeSet<&str> = wanted.keys().map(|id| &*id.namespace).collect();
        self.of_namespaces
            .retain(|namespace, _| namespaces.contains(namespace.as_str()));
    }
}

impl Queue {
    async fn turn(&self) -> Turn {
        // No semaphore is ever closed.
        Turn {
            _own: self.own.clone().acquire_owned().await.ok(),
            _all: self.all.clone().acquire_owned().await.ok(),
        }
    }
}

/// Asks one repository again and again.
struct Asking {
    id: Id,
    number: u64,
    of: RepoState,
    access: AccessSource,
    git: Git,
    folder: PathBuf,
    poll: Duration,
    queue: Queue,
    cancel: CancelToken,
    answers: mpsc::UnboundedSender<(u64, Answer)>,
}

impl Asking {
    async fn run(self) {
        let mut failures = 0;
        loop {
            let result = self.ask().await;
            let wait = if result.is_ok() {
                failures = 0;
                self.poll
            } else {
                failures += 1;
                after_failures(failures).min(self.poll)
            };
            let of = self.of.clone();
            let answer = (self.id.clone(), RemoteAnswer { of, result });
            if self.answers.send((self.number, answer)).is_err() {
                return;
            }
            tokio::time::sleep(wait).await;
        }
    }

    async fn ask(&self) -> Result<(), Refusal> {
        let turn = self.queue.turn().await;
        let access = (self.access)().await?;
        let (git, url, cancel) = (self.git.clone(), self.of.url.clone(), self.cancel.clone());
        let folder = self.folder.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let reaching = Reaching {
                git,
                url,
                credentials: access.credentials,
                cancel,
                folder: &folder,
            };
            reaching.ask()
        });
        asked.await.unwrap_or_else(|error| {
            Err(Refusal {
                reason: reverser_api::conditions::reason::PROGRESSING,
                message: format!("asking broke down: {error}"),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn repositories_that_do_not_answer_hold_up_only_those_of_their_namespace() {
        let mut turns = Turns::new();
        let (silent, other) = (turns.queue_of("silent"), turns.queue_of("other"));
        let first = silent.turn().now_or_never();
        assert!(first.is_some());
        let more: Vec<Queue> = (0..2 * AT_ONCE).map(|_| turns.queue_of("silent")).collect();
        let mut waiting: Vec<_> = more.iter().map(|queue| Box::pin(queue.turn())).collect();
        for turn in &mut waiting {
            let turn = turn.as_mut().now_or_never();
            assert!(turn.is_none(), "one of a namespace at a time");
        }
        let turn = other.turn().now_or_never();
        assert!(turn.is_some(), "others need not wait for them");
        drop(first);
        let next = waiting[0].as_mut().now_or_never();
        assert!(next.is_some(), "in the order in which they came");
    }

    #[test]
    fn no_more_are_asked_at_once_than_so_many() {
        let mut turns = Turns::new();
        let queues: Vec<Queue> = (0..=AT_ONCE)
            .map(|number| turns.queue_of(&number.to_string()))
            .collect();
        let mut held: Vec<_> = queues
            .iter()
            .map(|queue| queue.turn().now_or_never())
            .collect();
        assert!(held.pop().is_some_and(|last| last.is_none()));
        assert!(held.iter().all(Option::is_some));
        drop(held);
        assert!(queues[AT_ONCE].turn().now_or_never().is_some());
        turns.keep_those_of(&BTreeMap::new());
        assert!(turns.of_namespaces.is_empty());
    }
}
