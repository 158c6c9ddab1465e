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

mod attempt;
mod authors;
mod common;
mod contents;
mod doubt;
mod narrowing;
mod owner;
mod pace;
mod refusals;
mod state;
mod turns;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use reverser_core::blob_id::BlobId;
use reverser_core::commit_message::Installation;
use reverser_core::object_key::TypeKey;
use reverser_core::plan::MassDelete;
use reverser_core::window::Limits;
use reverser_git::{
    CommitId, Credentials, Git, Mirror, MirrorOptions, OpenError, Person, PushListener,
    PushOptions, Signer, StagedBlobs,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use self::attempt::{Attempt, End, Finished, Job};
pub use self::common::{Common, TypeNames};
use self::common::{Permits, Repo};
use self::contents::WAITING_BYTES;
use self::pace::{after_failures, after_moves};
use self::state::DestinationState;
use self::turns::Turns;
use crate::dispatch::ToWriter;
use crate::identity::Id;
use crate::leases::branch::BranchLease;
use crate::routing::{Refusal, Target};
use crate::telemetry::facts::{BranchMoved, DestinationInSync, PushRetried};
use crate::telemetry::labels::{BranchLabels, DestinationLabels};

/// With what a repository is written.
#[derive(Clone)]
pub struct Access {
    /// Lets us in.
    pub credentials: Credentials,
    /// Signs commits, if they are to be signed.
    pub signer: Option<Arc<dyn Signer>>,
}

/// Where a writer gets its access from, anew for each attempt, so that rotated keys are used.
pub type AccessSource = Arc<dyn Fn() -> BoxFuture<'static, Result<Access, Refusal>> + Send + Sync>;

/// So often a batch that is to be the last is tried on a branch that moves.
const LAST_ATTEMPTS: usize = 5;
/// So long a batch that is to be the last waits for its turn.
const LAST_TURN: Duration = Duration::from_secs(3);
/// After so many pushes what was staged for them is cleared away.
const PUSHES_UNTIL_CLEARED: usize = 50;

/// What all writers have in common.
#[derive(Clone, Debug)]
pub struct WriterSettings {
    /// The program.
    pub git: Git,
    /// Where clones are kept.
    pub work_dir: PathBuf,
    /// When a batch ends.
    pub limits: Limits,
    /// How often a quiet remote is asked for its tip.
    pub poll: Duration,
    /// How many files go in one cycle, at most.
    pub deletes_cap: Option<usize>,
    /// How long a batch waits for the names of its changes, where they are to be expected.
    pub grace: Duration,
    /// Who writes commits.
    pub committer: Person,
    /// Which installation writes.
    pub installation: Installation,
    /// Whether folders are marked as that installation's, and those of others left to them.
    pub marks_folders: bool,
    /// Hears how far pushes are.
    pub on_push: Option<PushListener>,
}

/// What a writer tells about a destination.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many objects are wanted.
    pub objects: usize,
    /// How many files differ from the branch and are not pushed yet.
    pub waiting: usize,
    /// The last commit that was pushed for it.
    pub last_commit: Option<CommitId>,
    /// When, in seconds since 1970.
    pub last_push: Option<i64>,
    /// Whether the branch was found to hold what that round of lists brought.
    pub in_sync: bool,
    /// The last round of lists that was heard of.
    pub round: u64,
    /// What could not be listed completely, and why; its files stay.
    pub unknown: Vec<String>,
    /// What keeps the branch from following.
    pub failure: Option<Refusal>,
    /// Deletions that are stopped.
    pub stopped: Option<MassDelete>,
    /// Another installation that has marked the folder, and how to take it over.
    pub foreign_owner: Option<String>,
    /// Files of types that no rule selects, which nobody can prove to be superfluous.
    pub unselected: BTreeMap<TypeKey, usize>,
    /// Files that the server refuses, and what it said; not all of them if they are many.
    pub set_aside: Vec<(String, String)>,
    /// How many there are.
    pub set_aside_objects: usize,
    /// What the server said of authors that it does not take.
    pub author_refused: Option<String>,
}

/// What a writer is told.
#[derive(Debug)]
pub struct Told {
    /// About which destination.
    pub id: Id,
    /// What.
    pub message: ToWriter,
    /// When the watch event was read that is the cause; nothing if there was none.
    pub since: Option<Instant>,
}

/// What a writer sends.
#[derive(Debug)]
pub enum FromWriter {
    /// How a destination stands.
    Report(Id, Box<Report>),
    /// Contents are needed again that nobody has any more.
    ContentMissing(Id),
}

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
    has_pushed: bool,
    pushes_since_cleared: usize,
    last_look: Option<Instant>,
    /// Nothing where nobody else writes, and before the writer runs.
    lease: Option<BranchLease>,
    turns: Turns,
}

/// What a writer is waiting for, beside changes.
enum Phase {
    /// For a batch to be due.
    Gathering,
    /// For its turn.
    Queued(BoxFuture<'static, Turn>),
    /// For an attempt to end.
    Writing {
        task: JoinHandle<Finished>,
        /// Given back when the attempt has ended.
        _permits: Permits,
    },
}

struct Turn {
    permits: Permits,
    access: Result<Access, Refusal>,
}

enum Step {
    Turn(Turn),
    Finished(Box<Finished>),
}

impl Phase {
    /// The next step; for ever nothing while changes are gathered.
    async fn next(&mut self) -> Step {
        let step = match self {
            Self::Gathering => std::future::pending().await,
            Self::Queued(turn) => Step::Turn(turn.await),
            Self::Writing { task, .. } => {
                Step::Finished(Box::new(task.await.unwrap_or_else(|error| broken(&error))))
            }
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
            repo: common.repo(&target.repo),
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
            has_pushed: false,
            pushes_since_cleared: 0,
            // The first look is due at once: the branch is fetched while objects are listed.
            last_look: None,
            lease: None,
            turns: Turns::default(),
        }
    }

    /// Works until the channel is closed, then writes what is waiting once more.
    pub async fn run(mut self, mut inbox: mpsc::Receiver<Told>) {
        let leases = self.common.leases.as_ref();
        self.lease = leases.map(|leases| leases.keep(&self.target));
        loop {
            let (due, patience_ends) = (self.due(), self.patience_ends());
            tokio::select! {
                message = inbox.recv() => match message {
                    Some(told) => {
                        self.take(told);
                        self.limit_memory().await;
                    }
                    None => break,
                },
                step = self.phase.next() => self.step(step).await,
                () = sleep_until(due) => self.queue(),
                () = sleep_until(patience_ends) => self.tell_conflict(),
                // The operator ends with its writers.
                () = broken_lease(self.lease.as_ref()) => return,
            }
        }
        self.last_attempts().await;
        if let Some(lease) = self.lease.take() {
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
                self.repo.set_pace(destination.push.per_minute);
                self.not_before = None;
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
                if self.destinations.is_empty() {
                    self.is_content();
                }
            }
            message => {
                if let Some(state) = self.destinations.get_mut(&id) {
                    state.take(message, now, since);
                }
            }
        }
        self.show_depth(false);
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
        let due = batch.map_or(look, |batch| batch.max(self.repo.ready_at()).min(look));
        Some(self.not_before.map_or(due, |earliest| due.max(earliest)))
    }

    /// Waits for its turn, and for what an attempt needs.
    fn queue(&mut self) {
        let (common, repo) = (self.common.clone(), self.repo.clone());
        let access = self.access.clone();
        let gate = self.turn_to_await();
        let turn = async move {
            if let Some(gate) = gate {
                gate.opens().await;
            }
            let permits = common.turn(repo).await;
            let access = access().await;
            Turn { permits, access }
        };
        self.phase = Phase::Queued(turn.boxed());
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Turn(turn) => self.begin(turn).await,
            Step::Finished(finished) => self.finish(*finished).await,
        }
    }

    /// Begins an attempt.
    async fn begin(&mut self, turn: Turn) {
        let Turn { permits, access } = turn;
        self.turn_came();
        let access = match access {
            Ok(access) => access,
            Err(refusal) => return self.fail(&refusal),
        };
        let mirror = match self.take_mirror().await {
            Ok(mirror) => mirror,
            Err(refusal) => return self.fail(&refusal),
        };
        let now = Instant::now();
        // A look at a quiet remote fetches; a batch relies on the tip that is known.
        let look = self
            .last_look
            .is_none_or(|last| now >= last + self.settings.poll);
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
            jobs,
            look: look || self.must_fetch,
            has_pushed: self.has_pushed,
            pushes: 0,
            gate: self.lease.as_ref().map(BranchLease::gate),
        };
        self.common.show_attempt(&self.target, true);
        let task = tokio::task::spawn_blocking(move || attempt.run());
        self.phase = Phase::Writing {
            task,
            _permits: permits,
        };
    }

    /// All destinations of a writer have one repository, and with it the same options.
    fn push_options(&self) -> PushOptions {
        let first = self.destinations.values().next();
        first
            .map(|state| state.destination.push.options.clone())
            .unwrap_or_default()
    }

    async fn finish(&mut self, finished: Finished) {
        let Finished {
            mirror,
            end,
            jobs,
            pushes,
        } = finished;
        self.mirror = mirror;
        self.common.show_attempt(&self.target, false);
        self.repo.spend(pushes);
        let pushed = jobs.iter().any(|job| job.done.pushed.is_some());
        self.has_pushed |= pushed;
        match end {
            End::Done => {
                self.failures = 0;
                self.moves = 0;
                self.must_fetch = false;
                self.not_before = None;
                self.take_results(jobs);
                self.is_content();
            }
            End::NotOurTurn => self.was_refused(jobs),
            End::Moved => {
                self.put_back(jobs);
                self.moves += 1;
                self.must_fetch = true;
                self.not_before = Some(Instant::now() + after_moves(self.moves));
                self.common.telemetry.emit(BranchMoved {
                    branch: &self.labels,
                    attempt: self.moves as usize,
                });
            }
            End::Failed(refusal) => {
                self.put_back(jobs);
                self.fail(&refusal);
            }
        }
        if pushed {
            self.pushes_since_cleared += pushes;
            if self.pushes_since_cleared >= PUSHES_UNTIL_CLEARED {
                self.clear_staged().await;
            }
        }
        self.show_depth(pushed);
        self.report_all();
    }

    fn take_results(&mut self, jobs: Vec<Job>) {
        let now = Instant::now();
        for job in jobs {
            let id = job.id.clone();
            let Some(state) = self.destinations.get_mut(&id) else {
                continue;
            };
            let was_in_sync = state.is_in_sync();
            let content_missing = state.finish(job, now);
            if !was_in_sync && state.is_in_sync() {
                self.common.telemetry.emit(DestinationInSync {
                    branch: &self.labels,
                    destination: &DestinationLabels::new(&id.namespace, &id.name),
                    objects: state.objects(),
                });
            }
            if let Some((attempt, after, refusal)) = state.retries_after(now) {
                // What is in the way may have been removed by somebody else.
                self.must_fetch = true;
                self.common.telemetry.emit(PushRetried {
                    branch: &self.labels,
                    attempt: attempt as usize,
                    after,
                    reason: &refusal.message,
                });
            }
            if content_missing {
                let _ = self.reports.send(FromWriter::ContentMissing(id));
            }
        }
    }

    fn put_back(&mut self, jobs: Vec<Job>) {
        for job in jobs {
            if let Some(state) = self.destinations.get_mut(&job.id) {
                state.put_back(job);
            }
        }
    }

    fn fail(&mut self, refusal: &Refusal) {
        self.failures += 1;
        let after = after_failures(self.failures);
        self.not_before = Some(Instant::now() + after);
        self.common.telemetry.emit(PushRetried {
            branch: &self.labels,
            attempt: self.failures as usize,
            after,
            reason: &refusal.message,
        });
        for state in self.destinations.values_mut() {
            state.fail(refusal);
        }
        self.report_all();
    }

    fn report_all(&mut self) {
        for (id, state) in &mut self.destinations {
            if let Some(report) = state.changed_report() {
                // Nobody listens only while the process ends.
                let _ = self
                    .reports
                    .send(FromWriter::Report(id.clone(), Box::new(report)));
            }
        }
    }

    fn show_depth(&self, pushed: bool) {
        let depths = self
            .destinations
            .values()
            .map(DestinationState::queue_depth);
        self.common.show_branch(&self.target, depths.sum(), pushed);
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

    fn waiting_bytes(&self) -> usize {
        let states = self.destinations.values();
        states.map(|state| state.contents.bytes()).sum()
    }

    /// Moves contents to the disk when too many of them wait.
    async fn limit_memory(&mut self) {
        if self.waiting_bytes() <= WAITING_BYTES {
            return;
        }
        self.forget_what_is_there().await;
        // Otherwise the next few changes would bring it all here again.
        if self.waiting_bytes() <= WAITING_BYTES / 2 {
            return;
        }
        if self.staged.is_none()
            && let Ok(mirror) = self.take_mirror().await
        {
            self.mirror = Some(mirror);
        }
        // A disk that cannot be written is told by the next attempt.
        let Some(staged) = self.staged.clone() else {
            return;
        };
        for state in self.destinations.values_mut() {
            let contents = std::mem::take(&mut state.contents);
            let staged = staged.clone();
            let task = tokio::task::spawn_blocking(move || {
                let written = contents.stage(&staged);
                (contents, written)
            });
            let Ok((mut contents, written)) = task.await else {
                continue;
            };
            if written.is_ok() {
                contents.leave_to_disk();
            }
            state.contents.merge(contents);
        }
        self.clear_staged().await;
    }

    /// Forgets contents that nothing wants any more, and those that the branch has, as far as it is
    /// known what it has: after a restart these are nearly all.
    async fn forget_what_is_there(&mut self) {
        for state in self.destinations.values_mut() {
            state.forget_superseded();
            let Some(mirror) = self.mirror.take_if(|mirror| mirror.tip().is_some()) else {
                continue;
            };
            let files = state.files_in_memory().into_iter();
            let files = files.map(|(path, blob)| (state.destination.folder.join(path), blob));
            let files: Vec<(String, BlobId)> = files.collect();
            let task = tokio::task::spawn_blocking(move || contents::missing_from(mirror, &files));
            // A clone that is lost is opened again by the next attempt.
            let Ok((mirror, missing)) = task.await else {
                continue;
            };
            self.mirror = Some(mirror);
            if let Some(missing) = missing {
                state.contents.retain_in_memory(&missing);
            }
        }
    }

    /// Drops from the disk what no destination needs any more. While an attempt has the clone, that
    /// waits for the next time.
    async fn clear_staged(&mut self) {
        let Some(mut mirror) = self.mirror.take() else {
            return;
        };
        self.pushes_since_cleared = 0;
        let states = self.destinations.values();
        let needed: std::collections::HashSet<_> = states
            .flat_map(|state| state.contents.staged())
            .map(|blob| reverser_git::BlobId::from_bytes(*blob.as_bytes()))
            .collect();
        let task = tokio::task::spawn_blocking(move || {
            // What cannot be removed now is a matter of space, and tried again.
            let _ = mirror.retain_staged(|blob| needed.contains(&blob));
            mirror
        });
        self.mirror = task.await.ok();
    }
}

impl WriterSettings {
    /// The folder of a branch's clone: anything may stand in URLs and branches, so a hash names it.
    fn folder_of(&self, target: &Target) -> PathBuf {
        let name = format!(
            "{}\n{}\n{}",
            target.url.as_str(),
            target.branch.as_str(),
            target.repo
        );
        self.work_dir
            .join(reverser_core::blob_id::BlobId::of(name.as_bytes()).to_string())
    }

    fn open(&self, target: &Target) -> Result<Mirror, OpenError> {
        Mirror::open(
            self.git.clone(),
            target.url.clone(),
            target.branch.clone(),
            &self.folder_of(target),
            Credentials::anonymous(),
            MirrorOptions {
                on_push: self.on_push.clone(),
                ..MirrorOptions::default()
            },
        )
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

/// An attempt that ended without a result: the clone is opened anew, and contents are asked for.
fn broken(error: &tokio::task::JoinError) -> Finished {
    Finished {
        mirror: None,
        end: End::Failed(Refusal {
            reason: reverser_api::conditions::reason::PROGRESSING,
            message: format!("writing broke down: {error}"),
        }),
        jobs: Vec::new(),
        pushes: 0,
    }
}
