//! What one destination should hold, and how far it has come.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use reverser_core::blob_id::BlobId;
use reverser_core::plan::{MassDelete, Plan, Proofs, PrunePolicy, TreeFile, Wanted, plan};
use reverser_core::repo_path::RepoPath;
use reverser_core::window::{Limits, Window};
use reverser_git::CommitId;

use super::Report;
use super::attempt::{Done, Job};
use crate::dispatch::{Knowledge, ToWriter};
use crate::identity::Id;
use crate::routing::{Destination, Refusal};

pub(super) struct DestinationState {
    destination: Destination,
    wanted: BTreeMap<RepoPath, Wanted>,
    proofs: Proofs,
    /// Types whose first list has not ended: until then the batch waits, so that the first mirror
    /// is one commit.
    pending: bool,
    unknown: Vec<String>,
    window: Window,
    /// The batch that is being written.
    taken: Window,
    /// Contents that the remote has not confirmed yet.
    contents: HashMap<BlobId, Box<str>>,
    /// Files that say the same as what is wanted, in another form: (there, wanted).
    equal_in_form: HashMap<RepoPath, (BlobId, BlobId)>,
    first_mirror: bool,
    waiting: usize,
    in_sync: bool,
    last_commit: Option<CommitId>,
    last_push: Option<i64>,
    failure: Option<Refusal>,
    stopped: Option<MassDelete>,
    reported: Option<Report>,
}

impl DestinationState {
    pub(super) fn new(destination: Destination, now: Instant) -> Self {
        let mut window = Window::default();
        // Even with nothing to write, the branch has to be looked at once.
        window.add(0, now);
        Self {
            destination,
            wanted: BTreeMap::new(),
            proofs: Proofs::default(),
            pending: true,
            unknown: Vec::new(),
            window,
            taken: Window::default(),
            contents: HashMap::new(),
            equal_in_form: HashMap::new(),
            first_mirror: true,
            waiting: 0,
            in_sync: false,
            last_commit: None,
            last_push: None,
            failure: None,
            stopped: None,
            reported: None,
        }
    }

    pub(super) fn change_settings(&mut self, destination: Destination, now: Instant) {
        self.destination = destination;
        self.window.add(0, now);
    }

    pub(super) fn take(&mut self, message: ToWriter, now: Instant) {
        match message {
            ToWriter::Put {
                path,
                wanted,
                content,
            } => {
                self.proofs.of_file.remove(&path);
                self.window.add(content.len(), now);
                self.contents.insert(wanted.blob, content);
                self.wanted.insert(path, wanted);
            }
            ToWriter::Remove { path, proof } => {
                self.wanted.remove(&path);
                if let Some(proof) = proof {
                    self.proofs.of_file.insert(path, proof);
                }
                self.window.add(0, now);
            }
            ToWriter::Knowledge(knowledge) => {
                let Knowledge {
                    complete,
                    deletable,
                    needed,
                    gone,
                    unknown,
                    pending,
                } = *knowledge;
                self.proofs.complete = complete;
                self.proofs.deletable = deletable;
                self.proofs.needed = needed;
                self.proofs.gone_types = gone;
                self.pending = !pending.is_empty();
                self.unknown = unknown
                    .iter()
                    .map(|(scope, why)| format!("{}: {why}", scope.type_key))
                    .collect();
                self.window.add(0, now);
            }
            ToWriter::Settings(_) | ToWriter::Forget => {}
        }
    }

    pub(super) fn due(&self, limits: &Limits) -> Option<Instant> {
        let (due, _) = self.window.due(limits)?;
        // A first mirror waits for its lists, but not for ever and not without limit.
        (!self.pending || self.contents.len() > 20_000).then_some(due)
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.window.files() > 0
    }

    /// What an attempt needs to know; nothing while writing is stopped.
    pub(super) fn begin(&mut self, id: &Id, cap: Option<usize>) -> Option<Job> {
        self.taken.put_back(self.window.take());
        if self.destination.suspend || self.pending {
            return None;
        }
        Some(Job {
            id: id.clone(),
            folder: self.destination.folder.clone(),
            wanted: self.wanted.clone(),
            proofs: self.proofs.clone(),
            policy: PrunePolicy {
                mode: self.destination.prune,
                cap,
                guard: self.destination.guard,
                acknowledged: self.destination.acknowledged.clone(),
            },
            contents: std::mem::take(&mut self.contents),
            equal_in_form: self.equal_in_form.clone(),
            first_mirror: self.first_mirror,
            subject_prefix: self.destination.subject_prefix.clone(),
        })
    }

    /// The attempt failed as a whole: its batch waits on.
    pub(super) fn put_back(&mut self, contents: HashMap<BlobId, Box<str>>) {
        let taken = self.taken.take();
        self.window.put_back(taken);
        self.keep(contents);
    }

    fn keep(&mut self, contents: HashMap<BlobId, Box<str>>) {
        for (blob, content) in contents {
            self.contents.entry(blob).or_insert(content);
        }
    }

    /// Takes what an attempt did; tells whether contents are missing.
    pub(super) fn finish(&mut self, done: Done) -> bool {
        let Done {
            contents,
            equal_in_form,
            outcome,
            plan,
            content_missing,
        } = done;
        let _batch = self.taken.take();
        self.equal_in_form = equal_in_form;
        self.stopped = plan.stopped;
        match outcome {
            Ok(pushed) => {
                self.failure = None;
                self.waiting = 0;
                self.in_sync = true;
                self.first_mirror = false;
                if let Some((commit, time)) = pushed {
                    self.last_commit = Some(commit);
                    self.last_push = Some(time);
                }
                let gone = &plan.deletes;
                for path in gone {
                    self.proofs.of_file.remove(path);
                }
                // A cap of zero lets nothing go, however often it is tried.
                if plan.capped > 0 && !plan.deletes.is_empty() {
                    self.window.add(0, Instant::now());
                }
            }
            Err(refusal) => {
                self.failure = Some(refusal);
                self.waiting = plan.waiting;
                self.keep(contents);
                // What the server refuses is tried again, but not at once.
                self.window.add(0, Instant::now());
            }
        }
        content_missing
    }

    pub(super) fn fail(&mut self, refusal: &Refusal) {
        self.failure = Some(refusal.clone());
        self.waiting = self.waiting.max(self.window.files());
        if self.window.files() == 0 {
            self.window.add(0, Instant::now());
        }
    }

    /// How it stands, if that is news.
    pub(super) fn changed_report(&mut self) -> Option<Report> {
        let unknown = (!self.unknown.is_empty()).then(|| Refusal {
            reason: reverser_api::conditions::destination_reason::SCOPE_UNKNOWN,
            message: format!(
                "not everything is known, files stay: {}",
                self.unknown.join("; ")
            ),
        });
        let suspended = self.destination.suspend.then(|| Refusal {
            reason: reverser_api::conditions::destination_reason::SUSPENDED,
            message: "spec.suspend is true: nothing is written".to_owned(),
        });
        let report = Report {
            objects: self.wanted.len(),
            waiting: self.waiting,
            last_commit: self.last_commit,
            last_push: self.last_push,
            in_sync: self.in_sync,
            failure: suspended.or_else(|| self.failure.clone()).or(unknown),
            stopped: self.stopped.clone(),
        };
        if self.reported.as_ref() == Some(&report) {
            return None;
        }
        self.reported = Some(report.clone());
        Some(report)
    }
}

/// The difference for a job, without files that differ only in form.
pub(super) fn plan_of<'t>(job: &Job, tree: impl IntoIterator<Item = TreeFile<'t>>) -> Plan {
    let mut plan = plan(&job.wanted, tree, &job.proofs, &job.policy);
    plan.puts.retain(|put| {
        let known = job.equal_in_form.get(&put.path);
        put.replaces.is_none() || known != put.replaces.map(|there| (there, put.blob)).as_ref()
    });
    plan
}
