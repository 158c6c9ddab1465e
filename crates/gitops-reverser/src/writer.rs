//! One task for each branch: gathers changes, and brings the branch in line with what is wanted.
//!
//! ## Expected flow
//! Changes wait in a window; when it is due, an attempt runs: the difference between what is wanted
//! and the branch's tree becomes commits on the tip, which are pushed. While that runs, the next
//! changes gather. An attempt that finds the tip moved begins again on the new one.
//!
//! ## Guarantees
//! - What is committed is a difference computed anew each time: losing this task loses nothing.
//! - Nothing counts as written before the remote has confirmed it.
//! - Nothing is deleted before the types of a destination were listed once, and then only with proof.

mod absences;
mod attempt;
mod authors;
mod common;
mod comparison;
mod contents;
mod doubt;
mod memory;
mod messages;
mod narrowing;
mod owner;
mod pace;
mod places;
mod reaching;
mod refusals;
mod results;
mod search;
mod settings;
mod state;
mod turns;
mod unconfirmed;
mod unwritten;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use reverser_core::base_folder::BaseFolder;
use reverser_git::{Mirror, PushOptions, StagedBlobs};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use self::attempt::{Attempt, Finished, Job};
pub use self::common::{Common, TypeNames};
use self::common::{Permits, Repo};
pub use self::messages::{FromWriter, HeldBack, RemoteAnswer, Report, Told};
pub(crate) use self::pace::after_failures;
pub(crate) use self::reaching::Reaching;
pub use self::settings::{Access, AccessSource, WriterSettings};
use self::state::DestinationState;
use self::turns::Turns;
use crate::dispatch::ToWriter;
use crate::identity::Id;
use crate::leases::branch::BranchLease;
use crate::routing::{Refusal, RepoState, Target};
use crate::telemetry::labels::{BranchLabels, DestinationLabels};

/// So many messages are taken before it is asked what is due.
const TAKEN_AT_ONCE: usize = 64;
/// So often a batch that is to be the last is tried on a branch that moves.
const LAST_ATTEMPTS: usize = 5;
/// So long a batch that is to be the last waits for its turn.
const LAST_TURN: Duration = Duration::from_secs(3);

/// The writer of one branch.
pub struct Writer {
    settings: WriterSettings,
    common: Arc<Common>,
    repo: Arc<Repo>,
    target: Target,
    labels: BranchLabels,
    access: AccessSource,
    destinations: BTreeMap<Id, DestinationState>,
    reports: mpsc::UnboundedSender<FromWriter>,
    /// With the attempt while one runs.
    mirror: Option<Mirror>,
    /// Where contents can be put at any time, also while an attempt runs.
    staged: Option<StagedBlobs>,
    phase: Phase,
    /// After failures, not before this.
    not_before: Option<Instant>,
    failures: u32,
    /// How often in a row the branch moved under the batch.
    moves: u32,
    must_fetch: bool,
    /// The repository as it was described last, and as it was when the attempt began.
    repo_state: Option<RepoState>,
    attempted: Option<RepoState>,
    /// What came of the last use of the remote, as it is described now.
    remote: Option<Result<(), Refusal>>,
    has_pushed: bool,
    pushes_since_cleared: usize,
    last_look: Option<Instant>,
    /// Nothing where nobody else writes, and before the writer runs.
    lease: Option<BranchLease>,
    turns: Turns,
    /// What waits is to be written now or never.
    is_ending: bool,
}

/// What a writer is waiting for, beside changes.
enum Phase {
    /// For a batch to be due.
    Gathering,
    /// For its turn.
    Queued(BoxFuture<'static, Turn>),
    /// For an attempt to end.
    Writing(JoinHandle<Finished>),
}

struct Turn {
    permits: Permits,
    access: Result<Access, Refusal>,
}

enum Step {
    Turn(Box<Turn>),
    Finished(Box<Finished>),
}

impl Phase {
    /// The next step; for ever nothing while changes are gathered.
    async fn next(&mut self) -> Step {
        let step = match self {
            Self::Gathering => std::future::pending().await,
            Self::Queued(turn) => Step::Turn(Box::new(turn.await)),
            Self::Writing(task) => Step::Finished(Box::new(
                task.await.unwrap_or_else(|error| Finished::broken(&error)),
            )),
        };
        *self = Self::Gathering;
        step
    }
}

impl Writer {
    /// A writer that knows of no destination yet.
    #[must_use]
    pub fn new(
        settings: WriterSettings,
        common: Arc<Common>,
        target: Target,
        access: AccessSource,
        reports: mpsc::UnboundedSender<FromWriter>,
    ) -> Self {
        Self {
            settings,
            repo: common.repo(&target),
            common,
            labels: BranchLabels::of(&target.url, &target.branch),
            target,
            access,
            destinations: BTreeMap::new(),
            reports,
            mirror: None,
            staged: None,
            phase: Phase::Gathering,
            not_before: None,
            failures: 0,
            moves: 0,
            must_fetch: false,
            repo_state: None,
            attempted: None,
            remote: None,
            has_pushed: false,
            pushes_since_cleared: 0,
            // The first look is due at once: the branch is fetched while objects are listed.
            last_look: None,
            lease: None,
            turns: Turns::default(),
            is_ending: false,
        }
    }

    /// Works until the channel is closed, then writes what is waiting once more.
    pub async fn run(mut self, mut inbox: mpsc::Receiver<Told>) {
        let leases = self.common.leases.as_ref();
        self.lease = leases.map(|leases| leases.keep(&self.target));
        let mut told = Vec::new();
        loop {
            let (due, patience_ends) = (self.due(), self.patience_ends());
            tokio::select! {
                count = inbox.recv_many(&mut told, TAKEN_AT_ONCE) => {
                    if count == 0 {
                        break;
                    }
                    for told in told.drain(..) {
                        self.take(told);
                        self.limit_memory().await;
                    }
                    self.show_depth(false);
                }
                step = self.phase.next() => self.step(step).await,
                () = sleep_until(due) => self.queue(),
                () = sleep_until(patience_ends) => self.tell_conflict(),
                // The operator ends with its writers.
                () = broken_lease(self.lease.as_ref()) => return,
            }
        }
        self.last_attempts().await;
        // Another replica may hold it by now, under the same name.
        if !self.settings.cut_off.is_cancelled()
            && let Some(lease) = self.lease.take()
        {
            lease.release().await;
        }
        if self.destinations.is_empty() {
            self.remove_clone().await;
        }
        self.common.hide_branch(&self.target);
    }

    /// Nobody needs the clone any more.
    async fn remove_clone(&mut self) {
        if let Ok(mirror) = self.take_mirror().await {
            // What cannot be removed is a matter of space.
            let _ = tokio::task::spawn_blocking(move || mirror.remove()).await;
        }
    }

    /// Writes what is waiting before the process ends.
    async fn last_attempts(&mut self) {
        self.is_ending = true;
        for _ in 0..LAST_ATTEMPTS {
            while !matches!(self.phase, Phase::Gathering) {
                let in_vain = matches!(self.phase, Phase::Queued(_)).then_some(LAST_TURN);
                let no_later = in_vain.map(|wait| Instant::now() + wait);
                tokio::select! {
                    step = self.phase.next() => self.step(step).await,
                    () = sleep_until(no_later) => return,
                }
            }
            let waiting = self.destinations.values().any(DestinationState::is_waiting);
            if !waiting || self.failures > 0 {
                return;
            }
            self.queue();
        }
    }

    fn take(&mut self, told: Told) {
        let Told { id, message, since } = told;
        let now = Instant::now();
        match message {
            ToWriter::Settings(destination) => {
                let per_minute = destination.push.per_minute;
                self.repo.set_pace(&self.target.repo, per_minute);
                self.not_before = None;
                let described = Some(destination.repo_state());
                if self.repo_state != described {
                    self.repo_state = described;
                    self.remote = None;
                    // Whether it lets us in has to be found out anew.
                    self.must_fetch = true;
                }
                match self.destinations.get_mut(&id) {
                    Some(state) => state.change_settings(*destination, now),
                    None => {
                        self.destinations
                            .insert(id, DestinationState::new(*destination, now));
                    }
                }
            }
            ToWriter::Forget => {
                self.destinations.remove(&id);
                self.forget_series(&id);
                if self.destinations.is_empty() {
                    self.is_content();
                }
            }
            message => {
                if let Some(state) = self.destinations.get_mut(&id) {
                    state.take(message, now, since);
                    state.note_full(&self.settings.limits, now);
                }
            }
        }
    }

    /// Nobody asks any more how much was written for a destination that is gone.
    fn forget_series(&self, id: &Id) {
        let labels = DestinationLabels::new(&id.namespace, &id.name);
        self.common.telemetry.forget_destination(&labels);
    }

    /// When the next attempt begins; nothing while one runs.
    fn due(&self) -> Option<Instant> {
        if !matches!(self.phase, Phase::Gathering) || self.destinations.is_empty() {
            return None;
        }
        let grace = self.common.grace(self.settings.grace);
        let batch = self
            .destinations
            .values()
            .filter_map(|state| state.due(&self.settings.limits, grace))
            .min();
        let look = self
            .last_look
            .map_or_else(Instant::now, |last| last + self.settings.poll);
        let ready = self.repo.ready_at(&self.target.repo);
        let due = batch.map_or(look, |batch| batch.max(ready).min(look));
        Some(self.not_before.map_or(due, |earliest| due.max(earliest)))
    }

    /// Waits for its turn, and for what an attempt needs.
    fn queue(&mut self) {
        let (common, repo) = (self.common.clone(), self.repo.clone());
        let (access, target) = (self.access.clone(), self.target.clone());
        let gate = self.turn_to_await();
        let turn = async move {
            if let Some(gate) = gate {
                gate.opens().await;
            }
            let permits = common.turn(repo, target).await;
            let access = access().await;
            Turn { permits, access }
        };
        self.phase = Phase::Queued(turn.boxed());
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Turn(turn) => self.begin(*turn).await,
            Step::Finished(finished) => self.finish(*finished).await,
        }
    }

    /// Begins an attempt.
    async fn begin(&mut self, turn: Turn) {
        let Turn { permits, access } = turn;
        self.turn_came();
        self.attempted.clone_from(&self.repo_state);
        if permits.others_wrote {
            self.must_fetch = true;
            for state in self.destinations.values_mut() {
                state.compare_all();
            }
        }
        let now = Instant::now();
        // A look at a quiet remote fetches; a batch relies on the tip that is known.
        let look = self
            .last_look
            .is_none_or(|last| now >= last + self.settings.poll);
        // While it waited for its turn, another branch may have made the push that was allowed.
        if !look && !self.is_ending && self.repo.is_too_early(&self.target.repo) {
            return self.is_content();
        }
        let access = match access {
            Ok(access) => access,
            Err(refusal) => {
                self.remote = Some(Err(refusal.clone()));
                return self.fail(&refusal);
            }
        };
        let mirror = match self.take_mirror().await {
            Ok(mirror) => mirror,
            Err(refusal) => return self.fail(&refusal),
        };
        if look {
            self.last_look = Some(now);
        }
        let destinations = self.destinations.iter_mut();
        let jobs: Vec<Job> = destinations
            .filter_map(|(id, state)| state.begin(id, &self.settings, now))
            .collect();
        let attempt = Attempt {
            settings: self.settings.clone(),
            common: self.common.clone(),
            branch: self.labels.clone(),
            mirror,
            access,
            push_options: self.push_options(),
            folders: self.folders(&jobs),
            jobs,
            look: look || self.must_fetch,
            has_pushed: self.has_pushed,
            pushes: 0,
            remote: None,
            gate: self.lease.as_ref().map(BranchLease::gate),
            permits,
            paced: !self.is_ending,
        };
        self.common.show_attempt(&self.target, true);
        self.phase = Phase::Writing(tokio::task::spawn_blocking(move || attempt.run()));
    }

    fn folders(&self, jobs: &[Job]) -> Vec<BaseFolder> {
        if !jobs.is_empty() {
            return jobs.iter().map(|job| job.folder.clone()).collect();
        }
        let all = self.destinations.values();
        all.map(|state| state.destination.folder.clone()).collect()
    }

    /// All destinations of a writer have one repository, and with it the same options.
    fn push_options(&self) -> PushOptions {
        let first = self.destinations.values().next();
        first
            .map(|state| state.destination.push.options.clone())
            .unwrap_or_default()
    }

    /// The clone, which is opened if it is not yet. Nothing of the network is used for that.
    async fn take_mirror(&mut self) -> Result<Mirror, Refusal> {
        if let Some(mirror) = self.mirror.take() {
            return Ok(mirror);
        }
        let (settings, target) = (self.settings.clone(), self.target.clone());
        let opened = tokio::task::spawn_blocking(move || settings.open(&target)).await;
        let mirror = match opened {
            Ok(Ok(mirror)) => mirror,
            Ok(Err(error)) => return Err(refusals::local(&error)),
            Err(error) => return Err(refusals::local(&error)),
        };
        self.staged = Some(mirror.staged().clone());
        Ok(mirror)
    }
}

async fn broken_lease(lease: Option<&BranchLease>) {
    match lease {
        Some(lease) => lease.broken().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}
