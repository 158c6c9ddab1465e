//! What all writers share: how many may write at once, how often a repository is pushed to, and what
//! those see who look from outside.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use reverser_core::author::AuthorMap;
use reverser_core::object_key::TypeKey;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::pace::Pace;
use crate::attribution::Attribution;
use crate::identity::Id;
use crate::leases::branch::BranchLeases;
use crate::routing::{DEFAULT_PUSHES_PER_MINUTE, Target};
use crate::telemetry::Telemetry;
use crate::telemetry::labels::{BranchLabels, TypeLabels};
use crate::telemetry::state::BranchState;

/// How a type is called in metrics, if it is known.
pub type TypeNames = Box<dyn Fn(&TypeKey) -> Option<TypeLabels> + Send + Sync>;

/// What all writers share.
pub struct Common {
    pub(super) telemetry: Telemetry,
    pub(super) type_names: TypeNames,
    /// Nothing where nobody else writes.
    pub(super) leases: Option<BranchLeases>,
    attribution: Attribution,
    authors: Mutex<Arc<AuthorMap>>,
    workers: Arc<Semaphore>,
    workers_per_repo: usize,
    repos: Mutex<HashMap<Id, Arc<Repo>>>,
    active: AtomicUsize,
    branches: Mutex<BTreeMap<Target, BranchState>>,
}

/// What the writers of one repository share.
pub(super) struct Repo {
    workers: Arc<Semaphore>,
    pace: Mutex<Pace>,
}

/// The right to write a branch now.
pub(super) struct Permits {
    _repo: Option<OwnedSemaphorePermit>,
    _global: Option<OwnedSemaphorePermit>,
    common: Arc<Common>,
}

impl Common {
    /// At most so many branches are written at once, and so many of one repository.
    #[must_use]
    pub fn new(
        telemetry: Telemetry,
        type_names: TypeNames,
        workers: usize,
        workers_per_repo: usize,
    ) -> Self {
        Self {
            telemetry,
            type_names,
            leases: None,
            attribution: Attribution::default(),
            authors: Mutex::default(),
            workers: Arc::new(Semaphore::new(workers)),
            workers_per_repo,
            repos: Mutex::default(),
            active: AtomicUsize::new(0),
            branches: Mutex::default(),
        }
    }

    /// Lets installations take turns at a branch.
    #[must_use]
    pub fn with_leases(self, leases: Option<BranchLeases>) -> Self {
        Self { leases, ..self }
    }

    /// Waits for names where they are to be expected.
    #[must_use]
    pub fn with_attribution(self, attribution: Attribution) -> Self {
        Self {
            attribution,
            ..self
        }
    }

    /// Calls authors so from now on.
    pub fn set_authors(&self, authors: Arc<AuthorMap>) {
        *locked(&self.authors) = authors;
    }

    pub(super) fn authors(&self) -> Arc<AuthorMap> {
        locked(&self.authors).clone()
    }

    /// How long a batch waits for the names of its changes.
    pub(super) fn grace(&self, grace: Duration) -> Duration {
        if self.attribution.is_listening() {
            grace
        } else {
            Duration::ZERO
        }
    }

    /// How many branches are being written.
    #[must_use]
    pub fn active_workers(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    /// Every branch that has a writer.
    #[must_use]
    pub fn branches(&self) -> Vec<BranchState> {
        locked(&self.branches).values().cloned().collect()
    }

    pub(super) fn repo(&self, id: &Id) -> Arc<Repo> {
        let mut repos = locked(&self.repos);
        let new = || {
            Arc::new(Repo {
                workers: Arc::new(Semaphore::new(self.workers_per_repo)),
                pace: Mutex::new(Pace::new(DEFAULT_PUSHES_PER_MINUTE, Instant::now())),
            })
        };
        repos.entry(id.clone()).or_insert_with(new).clone()
    }

    pub(super) fn show_branch(&self, target: &Target, queue_depth: usize, pushed: bool) {
        let mut branches = locked(&self.branches);
        if !branches.contains_key(target) {
            let state = BranchState {
                branch: BranchLabels::of(&target.url, &target.branch),
                queue_depth: 0,
                last_push: None,
                attempt_began: None,
            };
            branches.insert(target.clone(), state);
        }
        let Some(state) = branches.get_mut(target) else {
            return;
        };
        state.queue_depth = queue_depth;
        if pushed {
            state.last_push = Some(Instant::now());
        }
    }

    /// An attempt begins, or has ended.
    pub(super) fn show_attempt(&self, target: &Target, begins: bool) {
        if let Some(state) = locked(&self.branches).get_mut(target) {
            state.attempt_began = begins.then(Instant::now);
        }
    }

    pub(super) fn hide_branch(&self, target: &Target) {
        locked(&self.branches).remove(target);
    }

    /// Waits for its turn: first within the repository, so that one with many branches does not
    /// hold places that others could use.
    pub(super) async fn turn(self: Arc<Self>, repo: Arc<Repo>) -> Permits {
        // Neither semaphore is ever closed.
        let of_repo = repo.workers.clone().acquire_owned().await.ok();
        let global = self.workers.clone().acquire_owned().await.ok();
        self.active.fetch_add(1, Ordering::Relaxed);
        Permits {
            _repo: of_repo,
            _global: global,
            common: self,
        }
    }
}

impl Drop for Permits {
    fn drop(&mut self) {
        self.common.active.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Repo {
    pub(super) fn set_pace(&self, per_minute: u32) {
        locked(&self.pace).set(per_minute, Instant::now());
    }

    pub(super) fn ready_at(&self) -> Instant {
        locked(&self.pace).ready_at(Instant::now())
    }

    pub(super) fn spend(&self, pushes: usize) {
        if pushes > 0 {
            locked(&self.pace).spend(pushes, Instant::now());
        }
    }
}

/// None of these locks is held across anything that could panic half-way.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
