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
mod state;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use reverser_core::commit_message::Installation;
use reverser_core::plan::MassDelete;
use reverser_core::window::Limits;
use reverser_git::{CommitId, Credentials, Git, Mirror, MirrorOptions, Person};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use self::attempt::{Attempt, Finished, Job};
use self::state::DestinationState;
use crate::dispatch::ToWriter;
use crate::identity::Id;
use crate::routing::{Refusal, Target};

/// Where a writer gets credentials from, anew for each attempt, so that rotated ones are used.
pub type CredentialSource =
    Box<dyn Fn() -> BoxFuture<'static, Result<Credentials, Refusal>> + Send + Sync>;

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
    /// Who writes commits.
    pub committer: Person,
    /// Which installation writes.
    pub installation: Installation,
}

/// What a writer tells about a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// How many objects are wanted.
    pub objects: usize,
    /// How many files differ from the branch and are not pushed yet.
    pub waiting: usize,
    /// The last commit that was pushed for it.
    pub last_commit: Option<CommitId>,
    /// When, in seconds since 1970.
    pub last_push: Option<i64>,
    /// Whether the branch was found to hold what is wanted, at least once.
    pub in_sync: bool,
    /// What keeps the branch from following.
    pub failure: Option<Refusal>,
    /// Deletions that are stopped.
    pub stopped: Option<MassDelete>,
}

/// What a writer sends.
#[derive(Debug)]
pub enum FromWriter {
    /// How a destination stands.
    Report(Id, Report),
    /// Contents are needed again that nobody has any more.
    ContentMissing(Id),
}

/// The writer of one branch.
pub struct Writer {
    settings: WriterSettings,
    target: Target,
    credentials: CredentialSource,
    destinations: BTreeMap<Id, DestinationState>,
    reports: mpsc::Sender<FromWriter>,
    /// With the attempt while one runs.
    mirror: Option<Mirror>,
    attempt: Option<JoinHandle<Finished>>,
    /// After failures, not before this.
    not_before: Option<Instant>,
    failures: u32,
    last_look: Instant,
}

/// How long to wait after so many failures in a row.
fn backoff(failures: u32) -> Duration {
    let longest = Duration::from_secs(30);
    let doubled = Duration::from_millis(500).saturating_mul(1 << failures.min(10));
    let wait = doubled.min(longest);
    wait.mul_f64(0.8 + 0.4 * fastrand::f64())
}

impl Writer {
    /// A writer that knows of no destination yet.
    #[must_use]
    pub fn new(
        settings: WriterSettings,
        target: Target,
        credentials: CredentialSource,
        reports: mpsc::Sender<FromWriter>,
    ) -> Self {
        Self {
            settings,
            target,
            credentials,
            destinations: BTreeMap::new(),
            reports,
            mirror: None,
            attempt: None,
            not_before: None,
            failures: 0,
            last_look: Instant::now(),
        }
    }

    /// Works until the channel is closed, then writes what is waiting once more.
    pub async fn run(mut self, mut inbox: mpsc::Receiver<(Id, ToWriter)>) {
        loop {
            let due = self.due();
            tokio::select! {
                message = inbox.recv() => match message {
                    Some((id, message)) => self.take(id, message),
                    None => break,
                },
                finished = join(&mut self.attempt) => self.finish(finished).await,
                () = sleep_until(due) => self.start().await,
            }
        }
        self.last_attempt().await;
    }

    /// Writes what is waiting before the process ends.
    async fn last_attempt(&mut self) {
        if self.attempt.is_some() {
            let finished = join(&mut self.attempt).await;
            self.finish(finished).await;
        }
        let waiting = self.destinations.values().any(DestinationState::is_waiting);
        if waiting && self.failures == 0 {
            self.start().await;
            if self.attempt.is_some() {
                let finished = join(&mut self.attempt).await;
                self.finish(finished).await;
            }
        }
    }

    fn take(&mut self, id: Id, message: ToWriter) {
        let now = Instant::now();
        match message {
            ToWriter::Settings(destination) => match self.destinations.get_mut(&id) {
                Some(state) => state.change_settings(*destination, now),
                None => {
                    self.destinations
                        .insert(id, DestinationState::new(*destination, now));
                }
            },
            ToWriter::Forget => {
                self.destinations.remove(&id);
            }
            message => {
                if let Some(state) = self.destinations.get_mut(&id) {
                    state.take(message, now);
                }
            }
        }
    }

    /// When the next attempt begins; nothing while one runs.
    fn due(&self) -> Option<Instant> {
        if self.attempt.is_some() || self.destinations.is_empty() {
            return None;
        }
        let batch = self
            .destinations
            .values()
            .filter_map(|state| state.due(&self.settings.limits))
            .min();
        let due = batch.unwrap_or(self.last_look + self.settings.poll);
        Some(self.not_before.map_or(due, |earliest| due.max(earliest)))
    }

    /// Begins an attempt.
    async fn start(&mut self) {
        let now = Instant::now();
        // A look at a quiet remote fetches; a batch relies on the tip that is known.
        let look = now >= self.last_look + self.settings.poll;
        if look {
            self.last_look = now;
        }
        let credentials = match (self.credentials)().await {
            Ok(credentials) => credentials,
            Err(refusal) => return self.fail(&refusal).await,
        };
        let jobs: Vec<Job> = self
            .destinations
            .iter_mut()
            .filter_map(|(id, state)| state.begin(id, self.settings.deletes_cap))
            .collect();
        let attempt = Attempt {
            settings: self.settings.clone(),
            target: self.target.clone(),
            mirror: self.mirror.take(),
            credentials,
            jobs,
            look,
        };
        self.attempt = Some(tokio::task::spawn_blocking(move || attempt.run()));
    }

    async fn finish(&mut self, finished: Finished) {
        let Finished {
            mirror,
            result,
            done,
            mut unwritten,
        } = finished;
        self.mirror = mirror;
        match result {
            Ok(()) => {
                self.failures = 0;
                self.not_before = None;
            }
            Err(refusal) => {
                for (id, state) in &mut self.destinations {
                    state.put_back(unwritten.remove(id).unwrap_or_default());
                }
                return self.fail(&refusal).await;
            }
        }
        if done.values().any(|done| done.outcome.is_err()) {
            self.failures += 1;
            self.not_before = Some(Instant::now() + backoff(self.failures));
        }
        for (id, done) in done {
            let Some(state) = self.destinations.get_mut(&id) else {
                continue;
            };
            if state.finish(done) {
                let _ = self
                    .reports
                    .send(FromWriter::ContentMissing(id.clone()))
                    .await;
            }
        }
        self.report_all().await;
    }

    async fn fail(&mut self, refusal: &Refusal) {
        self.failures += 1;
        self.not_before = Some(Instant::now() + backoff(self.failures));
        for state in self.destinations.values_mut() {
            state.fail(refusal);
        }
        self.report_all().await;
    }

    async fn report_all(&mut self) {
        for (id, state) in &mut self.destinations {
            if let Some(report) = state.changed_report() {
                // Nobody listens only while the process ends.
                let _ = self
                    .reports
                    .send(FromWriter::Report(id.clone(), report))
                    .await;
            }
        }
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

    fn open(
        &self,
        target: &Target,
        credentials: Credentials,
    ) -> Result<Mirror, reverser_git::OpenError> {
        Mirror::open(
            self.git.clone(),
            target.url.clone(),
            target.branch.clone(),
            &self.folder_of(target),
            credentials,
            MirrorOptions::default(),
        )
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

/// Waits for the attempt that runs; for ever if none does.
async fn join(attempt: &mut Option<JoinHandle<Finished>>) -> Finished {
    let Some(handle) = attempt else {
        return std::future::pending().await;
    };
    let finished = handle.await;
    *attempt = None;
    finished.unwrap_or_else(|error| Finished {
        mirror: None,
        result: Err(Refusal {
            reason: reverser_api::conditions::reason::PROGRESSING,
            message: format!("writing broke down: {error}"),
        }),
        done: BTreeMap::new(),
        unwritten: BTreeMap::new(),
    })
}
