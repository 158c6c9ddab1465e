//! What all writers share: how many may write at once, how often a repository is pushed to, and what
//! those see who look from outside.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use reverser_core::author::AuthorMap;
use reverser_core::object_key::TypeKey;
use reverser_git::{BranchName, RepositoryIdentity};
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

use super::pace::Pace;
use crate::attribution::Attribution;
use crate::identity::Id;
use crate::leases::branch::BranchLeases;
use crate::routing::Target;
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
    /// Those that have a writer.
    repos: Mutex<HashMap<RepositoryIdentity, Weak<Repo>>>,
    active: AtomicUsize,
    branches: Mutex<BTreeMap<Target, BranchState>>,
}

/// What the writers of one repository share, whichever GitRepoConfigs they reach it by.
pub(super) struct Repo {
    workers: Arc<Semaphore>,
    /// How often each GitRepoConfig lets it be pushed to.
    paces: Mutex<HashMap<Id, Pace>>,
    branches: Mutex<HashMap<BranchName, LastWriter>>,
}

/// What those see of a branch who look from outside.
pub(super) struct Shown {
    /// Files that wait.
    pub(super) waiting: usize,
    /// Files whose deletion is held back.
    pub(super) held_back: usize,
    /// Whether something was pushed just now.
    pub(super) pushed: bool,
}

/// Held by the one writer that works at a branch; tells by which GitRepoConfig it was reached last.
type LastWriter = Arc<tokio::sync::Mutex<Option<Id>>>;

/// The right to write a branch now.
pub(super) struct Permits {
    /// Somebody of this process may have moved the branch since the last time.
    pub(super) others_wrote: bool,
    _branch: OwnedMutexGuard<Option<Id>>,
    _of_repo: Option<OwnedSemaphorePermit>,
    _global: Option<OwnedSemaphorePermit>,
    common: Arc<Common>,
    repo: Arc<Repo>,
    target: Target,
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

    pub(super) fn repo(&self, target: &Target) -> Arc<Repo> {
        let mut repos = locked(&self.repos);
        repos.retain(|_, repo| repo.strong_count() > 0);
        let known = repos.entry(target.url.identity()).or_default();
        known.upgrade().unwrap_or_else(|| {
            let repo = Arc::new(Repo {
                workers: Arc::new(Semaphore::new(self.workers_per_repo)),
                paces: Mutex::default(),
                branches: Mutex::default(),
            });
            *known = Arc::downgrade(&repo);
            repo
        })
    }

    pub(super) fn show_branch(&self, target: &Target, shown: &Shown) {
        let mut branches = locked(&self.branches);
        if !branches.contains_key(target) {
            let state = BranchState {
                branch: BranchLabels::of(&target.url, &target.branch),
                queue_depth: 0,
                held_back: 0,
                last_push: None,
                attempt_began: None,
            };
            branches.insert(target.clone(), state);
        }
        let Some(state) = branches.get_mut(target) else {
            return;
        };
        state.queue_depth = shown.waiting;
        state.held_back = shown.held_back;
        if shown.pushed {
            state.last_push = Some(Instant::now());
        }
    }

    /// An attempt begins, or has ended.
    pub(super) fn show_attempt(&self, target: &Target, begins: bool) {
        if let Some(state) = locked(&self.branches).get_mut(target) {
            state.attempt_began = begins.then(Instant::now);
        }
    }

    /// Nothing is told of a branch that has no writer any more.
    pub(super) fn hide_branch(&self, target: &Target) {
        let labels = BranchLabels::of(&target.url, &target.branch);
        let mut branches = locked(&self.branches);
        branches.remove(target);
        if !branches.values().any(|state| state.branch == labels) {
            self.telemetry.forget_branch(&labels);
        }
    }

    /// Waits for its turn: first at the branch, where only one writes at a time, then within the
    /// repository, so that one with many branches does not hold places that others could use.
    pub(super) async fn turn(self: Arc<Self>, repo: Arc<Repo>, target: Target) -> Permits {
        let branch = repo.branch(&target.branch);
        let mut branch = branch.lock_owned().await;
        let last = branch.replace(target.repo.clone());
        // Neither semaphore is ever closed.
        let of_repo = repo.workers.clone().acquire_owned().await.ok();
        let global = self.workers.clone().acquire_owned().await.ok();
        self.active.fetch_add(1, Ordering::Relaxed);
        Permits {
            others_wrote: last.is_some_and(|last| last != target.repo),
            _branch: branch,
            _of_repo: of_repo,
            _global: global,
            common: self,
            repo,
            target,
        }
    }
}

impl Permits {
    /// Whether the repository may not be pushed to now. Nobody waits for that with a right that others
    /// could use.
    pub(super) fn is_too_early(&self) -> bool {
        self.repo.is_too_early(&self.target.repo)
    }

    /// A push is made.
    pub(super) fn spend(&self) {
        self.repo.spend();
    }
}

impl Drop for Permits {
    fn drop(&mut self) {
        self.common.active.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Repo {
    fn branch(&self, name: &BranchName) -> LastWriter {
        let mut branches = locked(&self.branches);
        branches.entry(name.clone()).or_default().clone()
    }

    pub(super) fn set_pace(&self, id: &Id, per_minute: u32) {
        let now = Instant::now();
        let mut paces = locked(&self.paces);
        let pace = paces.entry(id.clone());
        let pace = pace.or_insert_with(|| Pace::new(per_minute, now));
        pace.set(per_minute, now);
    }

    pub(super) fn is_too_early(&self, id: &Id) -> bool {
        self.ready_at(id) > Instant::now()
    }

    pub(super) fn ready_at(&self, id: &Id) -> Instant {
        let now = Instant::now();
        let mut paces = locked(&self.paces);
        paces.get_mut(id).map_or(now, |pace| pace.ready_at(now))
    }

    /// What one pushes counts for all: the server does not tell them apart. Nobody waits at the pace
    /// that somebody else has set.
    fn spend(&self) {
        let now = Instant::now();
        for pace in locked(&self.paces).values_mut() {
            pace.spend(now);
        }
    }
}

/// None of these locks is held across anything that could panic half-way.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;
    use reverser_git::{RemoteUrl, Scheme};

    use super::*;

    fn target(url: &str, repo: &str) -> Target {
        Target {
            url: RemoteUrl::parse(url, Scheme::DEFAULT_ALLOWED).unwrap(),
            branch: BranchName::parse("main").unwrap(),
            repo: Id::new("shop", repo),
        }
    }

    #[test]
    fn pushes_to_a_repository_count_for_everybody_and_each_keeps_to_its_own_pace() {
        let telemetry = Telemetry::register(&mut Registry::default());
        let common = Common::new(telemetry, Box::new(|_| None), 1, 1);
        let (fast, slow) = (Id::new("shop", "fast"), Id::new("shop", "slow"));
        let repo = common.repo(&target("https://git.example.com/a.git", "fast"));
        let same = common.repo(&target("ssh://git@git.example.com/a", "slow"));
        let other = common.repo(&target("https://git.example.com/b.git", "fast"));
        assert!(Arc::ptr_eq(&repo, &same) && !Arc::ptr_eq(&repo, &other));
        repo.set_pace(&fast, 6_000);
        same.set_pace(&slow, 1);
        repo.spend();
        repo.spend();
        let wait =
            |repo: &Repo, id: &Id| repo.ready_at(id).saturating_duration_since(Instant::now());
        assert_eq!(wait(&repo, &fast), Duration::ZERO);
        assert!(wait(&same, &slow) > Duration::from_secs(30));
        assert_eq!(wait(&other, &fast), Duration::ZERO);
        drop((repo, same));
        let anew = common.repo(&target("https://git.example.com/a.git", "slow"));
        anew.set_pace(&slow, 1);
        assert_eq!(wait(&anew, &slow), Duration::ZERO, "nobody had it any more");
    }
}
