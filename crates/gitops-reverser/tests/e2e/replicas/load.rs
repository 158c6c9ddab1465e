//! Several users who change objects of their own, one change after the other.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use reverser_testkit::control_plane::User;
use serde_json::json;
use tokio::time::MissedTickBehavior;

use super::pulse::Pulse;
use super::stage::Stage;

/// Who changes things.
pub(crate) const USERS: [User; 4] = [User::Alice, User::Bob, User::Robot, User::Admin];
/// So many objects each of them has.
const OBJECTS: usize = 3;
/// Every so manieth time that it is an object's turn it is deleted.
const DELETED: usize = 4;

/// What users do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// They change objects.
    Changes,
    /// They also delete them, and make them anew.
    Deletions,
}

/// The names of objects that were deleted, and the numbers of those changes.
pub(crate) type Deletions = Arc<Mutex<Vec<(String, usize)>>>;

/// Changes until it is dropped.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    changes: Arc<AtomicUsize>,
    deletions: Deletions,
    pulse: Option<Pulse>,
    thread: Option<JoinHandle<()>>,
}

/// What a load did.
pub(crate) struct Worked {
    /// What was deleted.
    pub(crate) deletions: Vec<(String, usize)>,
    /// The longest time in which nothing was committed.
    pub(crate) gap: Duration,
}

impl Load {
    /// One change after each such time, by the users in turn. Every object has a number that only
    /// grows, and belongs to one user, whose name it begins with.
    pub(crate) fn start(stage: &Stage, every: Duration, work: Work) -> Self {
        let (stop, changes) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicUsize::new(0)),
        );
        let (stopped, counted) = (stop.clone(), changes.clone());
        let deletions = Deletions::default();
        let deleted = deletions.clone();
        let configs = USERS.map(|user| stage.cluster.plane.kube_config(user));
        let namespace = stage.cluster.namespace.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(async {
                let apis = configs.map(|config| {
                    let client = kube::Client::try_from(config).unwrap();
                    Api::<ConfigMap>::namespaced(client, &namespace)
                });
                let mut ticks = tokio::time::interval(every);
                // Nobody works faster because they were held up.
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                for number in 0_usize.. {
                    ticks.tick().await;
                    if stopped.load(Ordering::Relaxed) {
                        return;
                    }
                    let user = number % USERS.len();
                    let name = format!(
                        "{}-{}",
                        USERS[user].short_name(),
                        number / USERS.len() % OBJECTS
                    );
                    let turn = number / USERS.len() / OBJECTS;
                    if work == Work::Deletions && turn % DELETED == DELETED - 1 {
                        // Told before it is done: what is seen is never ahead of this.
                        deleted.lock().unwrap().push((name.clone(), number));
                        let params = DeleteParams::default();
                        apis[user].delete(&name, &params).await.unwrap();
                        counted.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    let map = json!({
                        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
                        "data": {"number": number.to_string()},
                    });
                    let params = PatchParams::apply("load").force();
                    apis[user]
                        .patch(&name, &params, &Patch::Apply(map))
                        .await
                        .unwrap();
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            });
        });
        Self {
            stop,
            changes,
            deletions,
            pulse: Some(Pulse::start(stage.cluster.repository.path())),
            thread: Some(thread),
        }
    }

    /// How many changes the API server has accepted.
    pub(crate) fn changes(&self) -> usize {
        self.changes.load(Ordering::Relaxed)
    }

    /// Ends it, and tells what became of it.
    pub(crate) fn stop(mut self) -> Worked {
        self.end();
        Worked {
            deletions: self.deletions.lock().unwrap().clone(),
            gap: self.pulse.take().map(Pulse::stop).unwrap_or_default(),
        }
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.end();
        let _gap = self.pulse.take().map(Pulse::stop);
    }
}
