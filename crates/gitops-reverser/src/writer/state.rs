//! What one destination should hold, and how far it has come.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use reverser_core::attribution::Origin;
use reverser_core::blob_id::BlobId;
use reverser_core::object_key::TypeKey;
use reverser_core::plan::{
    DeleteProof, MassDelete, Plan, Proofs, PruneMode, PrunePolicy, ShownStop, TreeFile, Wanted,
    plan,
};
use reverser_core::repo_path::RepoPath;
use reverser_core::transition_log::{Change, TransitionLog};
use reverser_core::window::{Limits, Window};
use reverser_git::{CommitId, Person};

use super::attempt::{Done, Job};
use super::authors::RefusedAuthors;
use super::contents::Contents;
use super::doubt::Doubt;
use super::owner::Owner;
use super::pace::after_failures;
use super::unconfirmed::Unconfirmed;
use super::unwritten::Unwritten;
use super::{HeldBack, RemoteAnswer, Report, WriterSettings};
use crate::dispatch::{Knowledge, ToWriter};
use crate::identity::Id;
use crate::routing::{Destination, Refusal};

#[cfg(test)]
mod tests;

/// The times of so many events are kept for the histogram; while a remote is down there would be no
/// end of them.
const EVENT_TIMES: usize = 2048;
/// So many refused objects are named in status.
const NAMED_SET_ASIDE: usize = 20;
/// So many scopes of which not everything is known: the API server takes no message without end.
const NAMED_UNKNOWN: usize = 20;

/// A change that is refused, and not tried again until it is another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SetAside {
    /// The content; nothing if it is the deletion that is refused.
    pub(super) blob: Option<BlobId>,
    /// What the server said.
    pub(super) message: String,
    /// Whether it is known that the server takes other objects.
    pub(super) proven: bool,
}

pub(super) struct DestinationState {
    pub(super) destination: Destination,
    wanted: Arc<BTreeMap<RepoPath, Wanted>>,
    proofs: Proofs,
    unwritten: Unwritten,
    doubt: Doubt,
    /// Types whose first list has not ended: until then the batch waits, so that the first mirror
    /// is one commit.
    pending: bool,
    /// The last round of lists, and the last one whose result the branch was found to hold.
    round: u64,
    written_round: Option<u64>,
    unknown: Vec<String>,
    window: Window,
    /// The batch that is being written.
    taken: Window,
    events: Vec<Instant>,
    /// The changes since the last push, and whose they are.
    log: TransitionLog,
    pub(super) contents: Contents,
    /// Files that say the same as what is wanted, in another form: (there, wanted).
    equal_in_form: Arc<HashMap<RepoPath, (BlobId, BlobId)>>,
    set_aside: Arc<BTreeMap<RepoPath, SetAside>>,
    /// The server refused everything, and nothing has changed since.
    refused_whole: bool,
    /// Files that the last attempt found to differ and did not bring to the remote.
    waiting: usize,
    /// Whether the folder was compared with what is wanted, at least once.
    compared: bool,
    /// What has changed since.
    unconfirmed: Unconfirmed,
    last_commit: Option<CommitId>,
    last_push: Option<i64>,
    failure: Option<Refusal>,
    /// How often in a row this destination failed where others may not have.
    failures: u32,
    not_before: Option<Instant>,
    stopped: Option<MassDelete>,
    pub(super) held_back: HeldBack,
    /// What the guard has shown, and what of it a person has released.
    shown: Option<ShownStop>,
    foreign_owner: Option<String>,
    unselected: BTreeMap<TypeKey, usize>,
    /// Users whom the server does not take as authors, and what it said last.
    refused_authors: Arc<RefusedAuthors>,
    reported: Option<Report>,
}

impl DestinationState {
    pub(super) fn new(destination: Destination, now: Instant) -> Self {
        let mut window = Window::default();
        // Even with nothing to write, the branch has to be looked at once.
        window.add(0, now);
        Self {
            destination,
            wanted: Arc::default(),
            proofs: Proofs::default(),
            unwritten: Unwritten::default(),
            doubt: Doubt::Whole,
            pending: true,
            round: 0,
            written_round: None,
            unknown: Vec::new(),
            window,
            taken: Window::default(),
            events: Vec::new(),
            log: TransitionLog::default(),
            contents: Contents::default(),
            equal_in_form: Arc::default(),
            set_aside: Arc::default(),
            refused_whole: false,
            waiting: 0,
            compared: false,
            unconfirmed: Unconfirmed::default(),
            last_commit: None,
            last_push: None,
            failure: None,
            failures: 0,
            not_before: None,
            stopped: None,
            held_back: HeldBack::default(),
            shown: None,
            foreign_owner: None,
            unselected: BTreeMap::new(),
            refused_authors: Arc::default(),
            reported: None,
        }
    }

    pub(super) fn change_settings(&mut self, destination: Destination, now: Instant) {
        self.destination = destination;
        // Whoever changes something wants to see whether it helped.
        self.set_aside = Arc::default();
        self.refused_authors = Arc::default();
        self.try_at_once();
        self.doubt = Doubt::Whole;
        self.window.add(0, now);
    }

    /// There is something to do that nobody told.
    pub(super) fn look_again(&mut self, now: Instant) {
        if self.window.files() == 0 {
            self.window.add(0, now);
        }
    }

    /// The branch is not as it was left.
    pub(super) fn compare_all(&mut self) {
        self.doubt = Doubt::Whole;
    }

    fn try_at_once(&mut self) {
        self.refused_whole = false;
        self.not_before = None;
    }

    pub(super) fn take(&mut self, message: ToWriter, now: Instant, since: Option<Instant>) {
        match message {
            ToWriter::Put {
                path,
                wanted,
                content,
                origin,
            } => {
                self.note_change(&path, Some(wanted.blob), since);
                let is_to_go = self.proofs.of_file.remove(&path).is_some();
                self.window.add(content.len(), now);
                self.contents.insert(wanted.blob, content);
                let old = Arc::make_mut(&mut self.wanted).insert(path.clone(), wanted);
                let old = old.map(|old| old.blob);
                // A file of an object that went unseen stays where only what was seen counts.
                let shown_by_lists = self.destination.prune == PruneMode::Always;
                if old.is_none() && !is_to_go && shown_by_lists {
                    self.unwritten.add(&path, &self.proofs);
                }
                self.note_unconfirmed(&path, old, Some(wanted.blob));
                self.log_change(&path, old, Some(wanted.blob), origin, now);
                // It may stand where a deletion was held back.
                if old.is_none() && self.held_back.files() > 0 {
                    self.doubt = Doubt::Whole;
                }
                self.doubt.add(path, old);
            }
            ToWriter::Remove {
                path,
                proof,
                origin,
            } => {
                self.note_change(&path, None, since);
                let old = Arc::make_mut(&mut self.wanted).remove(&path);
                let origin = origin.filter(|_| proof.is_some());
                let before = old.map(|old| old.blob);
                self.note_unconfirmed(&path, before, None);
                self.log_change(&path, before, None, origin, now);
                let never_written = self.unwritten.remove(&path);
                if let Some(proof) = proof.filter(|_| !never_written) {
                    self.proofs.of_file.insert(path.clone(), proof);
                }
                // Whether the others may go depends on how many go.
                if proof.is_none_or(|proof| proof == DeleteProof::Deleted) {
                    self.doubt.add(path, before);
                } else {
                    self.doubt = Doubt::Whole;
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
                    round,
                } = *knowledge;
                self.round = round;
                let withdrawn = &mut self.proofs.withdrawn;
                withdrawn.retain(|type_key, _| !needed.contains(type_key));
                self.proofs.complete = complete;
                self.proofs.deletable = deletable;
                self.proofs.needed = needed;
                self.proofs.gone_types = gone;
                self.doubt = Doubt::Whole;
                self.pending = !pending.is_empty();
                self.unknown = unknown
                    .iter()
                    .map(|(scope, why)| format!("{}: {why}", scope.type_key))
                    .collect();
                self.window.add(0, now);
            }
            ToWriter::Withdraw(type_key, withdrawn) => {
                self.proofs.withdrawn.insert(type_key, withdrawn);
                self.doubt = Doubt::Whole;
                self.window.add(0, now);
            }
            ToWriter::Together(messages) => {
                for message in messages {
                    self.take(message, now, since);
                }
            }
            ToWriter::Settings(_) | ToWriter::Forget => {}
        }
    }

    /// Before the first comparison everything waits that is wanted.
    fn note_unconfirmed(&mut self, path: &RepoPath, old: Option<BlobId>, new: Option<BlobId>) {
        if self.compared {
            self.unconfirmed.note(path, old, new);
        }
    }

    fn log_change(
        &mut self,
        path: &RepoPath,
        old: Option<BlobId>,
        new: Option<BlobId>,
        origin: Option<Arc<Origin>>,
        at: Instant,
    ) {
        if let Some(origin) = origin
            && old != new
        {
            self.log.push(Change {
                path: path.clone(),
                old,
                new,
                origin,
                at,
            });
        }
    }

    fn note_change(&mut self, path: &RepoPath, blob: Option<BlobId>, since: Option<Instant>) {
        if let Some(since) = since
            && self.events.len() < EVENT_TIMES
        {
            self.events.push(since);
        }
        self.refused_whole = false;
        let known = self.set_aside.get(path);
        if known.is_some_and(|set_aside| set_aside.blob != blob) {
            Arc::make_mut(&mut self.set_aside).remove(path);
        }
    }

    /// Notes when its batch had enough.
    pub(super) fn note_full(&mut self, limits: &Limits, now: Instant) {
        let limits = self.limits(limits);
        self.window.note_full(&limits, now);
    }

    /// When its batch is to be written.
    pub(super) fn due(&self, limits: &Limits, grace: Duration) -> Option<Instant> {
        if self.pending {
            return None;
        }
        let (due, _) = self.window.due(&self.limits(limits))?;
        let due = self.log.worth_waiting(due, grace);
        Some(self.not_before.map_or(due, |earliest| due.max(earliest)))
    }

    fn limits(&self, limits: &Limits) -> Limits {
        let push = &self.destination.push;
        let max_wait = push.max_wait.unwrap_or(limits.max_wait);
        Limits {
            max_files: push.max_files.unwrap_or(limits.max_files),
            max_wait,
            // Before the first look everything was listed: there is nothing to wait for.
            quiet: if self.is_mirrored() {
                limits.quiet.min(max_wait)
            } else {
                Duration::ZERO
            },
            ..*limits
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.window.files() > 0 && !self.pending && !self.destination.suspend
    }

    /// Whether the branch was found to hold what is wanted, at least once.
    fn is_mirrored(&self) -> bool {
        self.written_round.is_some()
    }

    /// Whether it was since there last was more to list.
    pub(super) fn is_in_sync(&self) -> bool {
        self.written_round == Some(self.round)
    }

    /// How many objects are wanted.
    pub(super) fn objects(&self) -> usize {
        self.wanted.len()
    }

    /// How many files the remote has not confirmed, those that are being written included.
    pub(super) fn waiting_files(&self) -> usize {
        if self.compared {
            self.waiting.max(self.unconfirmed.count())
        } else if self.destination.suspend {
            // Nobody has looked at the branch, and nobody is to.
            0
        } else {
            self.wanted.len()
        }
    }

    /// What an attempt needs to know; nothing while writing is stopped.
    pub(super) fn begin(
        &mut self,
        id: &Id,
        settings: &WriterSettings,
        now: Instant,
    ) -> Option<Job> {
        if self.pending || self.not_before.is_some_and(|earliest| earliest > now) {
            return None;
        }
        self.taken.put_back(self.window.take());
        if self.destination.suspend {
            return None;
        }
        if self.stopped.is_some() {
            self.doubt = Doubt::Whole;
        }
        self.unwritten.begin();
        self.unconfirmed.take();
        let doubt = std::mem::take(&mut self.doubt);
        let holds_back =
            settings.deletes_cap.is_some() || self.destination.prune == PruneMode::Never;
        let doubt = doubt.settle(&self.proofs, holds_back);
        let (wanted, proofs) = match &doubt {
            Doubt::Whole => (self.wanted.clone(), self.proofs.clone()),
            Doubt::At(paths) => self.only(paths.keys()),
        };
        Some(Job {
            id: id.clone(),
            folder: self.destination.folder.clone(),
            wanted,
            proofs,
            doubt,
            policy: PrunePolicy {
                mode: self.destination.prune,
                cap: settings.deletes_cap,
                guard: self.destination.guard,
                acknowledged: self.destination.acknowledged.clone(),
                shown: self.shown.clone(),
                other_cluster: None,
            },
            contents: std::mem::take(&mut self.contents),
            equal_in_form: self.equal_in_form.clone(),
            set_aside: self.set_aside.clone(),
            first_mirror: !self.is_mirrored(),
            round: self.round,
            commit: self.destination.commit.clone(),
            log: self.log.take(),
            refused_authors: self.refused_authors.clone(),
            committer: self.committer(&settings.committer),
            narrow: !self.refused_whole,
            events: std::mem::take(&mut self.events),
            owner: Owner::new(&self.destination, self.foreign_owner.clone()),
            done: Done::default(),
        })
    }

    /// What is wanted and known of these paths alone.
    fn only<'p>(
        &self,
        paths: impl Iterator<Item = &'p RepoPath>,
    ) -> (Arc<BTreeMap<RepoPath, Wanted>>, Proofs) {
        let mut wanted = BTreeMap::new();
        let mut proofs = Proofs::default();
        for path in paths {
            if let Some(content) = self.wanted.get(path) {
                wanted.insert(path.clone(), *content);
            }
            if let Some(proof) = self.proofs.of_file.get(path) {
                proofs.of_file.insert(path.clone(), *proof);
            }
        }
        (Arc::new(wanted), proofs)
    }

    fn committer(&self, default: &Person) -> Person {
        let own = &self.destination.commit;
        let name = own.committer_name.as_deref().unwrap_or(default.name());
        let email = own.committer_email.as_deref().unwrap_or(default.email());
        // Routing lets only those through that a commit can carry.
        Person::new(name, email).unwrap_or_else(|_| default.clone())
    }

    /// The attempt ended before it came to this destination: its batch waits on.
    pub(super) fn put_back(&mut self, job: Job) {
        let may_have_written = job.done.may_have_written;
        self.unwritten
            .end(may_have_written, &self.wanted, &mut self.proofs);
        let taken = self.taken.take();
        self.window.put_back(taken);
        self.unconfirmed.put_back(&self.wanted);
        // Nobody knows what the branch holds now, so also a quiet one has to be looked at.
        self.doubt = Doubt::Whole;
        if self.window.files() == 0 {
            self.window.add(0, Instant::now());
        }
        self.contents.merge(job.contents);
        self.log.put_back(job.log);
        self.refused_authors = job.refused_authors;
        self.put_back_events(job.events);
        self.note_pushed(job.done.pushed);
    }

    fn put_back_events(&mut self, events: Vec<Instant>) {
        self.events.splice(0..0, events);
        self.events.truncate(EVENT_TIMES);
    }

    fn note_pushed(&mut self, pushed: Option<(CommitId, i64)>) {
        if let Some((commit, time)) = pushed {
            self.last_commit = Some(commit);
            self.last_push = Some(time);
        }
    }

    /// Takes what an attempt did; tells whether contents are missing.
    pub(super) fn finish(&mut self, job: Job, now: Instant) -> bool {
        let Job {
            mut contents,
            equal_in_form,
            events,
            proofs,
            policy,
            log,
            refused_authors,
            round,
            done,
            ..
        } = job;
        self.refused_authors = refused_authors;
        let may_have_written = done.may_have_written || done.failure.is_none();
        self.unwritten
            .end(may_have_written, &self.wanted, &mut self.proofs);
        let _batch = self.taken.take();
        self.compared = true;
        self.equal_in_form = equal_in_form;
        if done.capped > 0 || done.content_missing > 0 || done.failure.is_some() {
            self.doubt = Doubt::Whole;
        }
        let all_decided = done.capped == 0 && done.stopped.is_none();
        self.stopped = done.stopped;
        let ends = all_decided && done.failure.is_none();
        self.shown = policy.shown.filter(|_| !ends);
        self.foreign_owner = done.foreign_owner;
        if let Some(unselected) = done.unselected {
            self.unselected = unselected;
        }
        if let Some(held_back) = done.held_back {
            self.held_back = held_back;
        }
        self.note_pushed(done.pushed);
        self.set_aside(done.set_aside, done.refused_whole, done.pushed.is_some());
        match done.failure {
            None => {
                self.failure = None;
                self.failures = 0;
                self.not_before = None;
                self.unconfirmed.confirm();
                self.waiting = done.content_missing;
                if done.content_missing == 0 {
                    self.written_round = Some(round);
                }
                for path in &done.deletes {
                    self.proofs.of_file.remove(path);
                }
                // What was decided is decided, also about files that were not there.
                if all_decided {
                    self.forget_proofs(&proofs);
                }
                // An object that is set aside may have to be tried again as it is.
                let aside = self.set_aside.values().filter_map(|aside| aside.blob);
                contents.retain(&aside.collect());
                // A cap of zero lets nothing go, however often it is tried.
                if done.capped > 0 && !done.deletes.is_empty() {
                    self.window.add(0, now);
                }
            }
            Some(refusal) => {
                self.failure = Some(refusal);
                self.failures += 1;
                self.not_before = Some(now + after_failures(self.failures));
                self.refused_whole = done.refused_whole;
                self.waiting = done.planned;
                self.unconfirmed.put_back(&self.wanted);
                self.put_back_events(events);
                self.log.put_back(log);
                // What the server refuses is tried again, but not at once.
                self.window.add(0, now);
            }
        }
        self.contents.merge(contents);
        done.content_missing > 0
    }

    /// Also of those that the mode does not accept, whose files stay: names come and go without end.
    /// Where another mode accepts more one day, lists tell what is gone.
    fn forget_proofs(&mut self, used: &Proofs) {
        for (path, proof) in &used.of_file {
            if self.proofs.of_file.get(path) == Some(proof) && !self.set_aside.contains_key(path) {
                self.proofs.of_file.remove(path);
            }
        }
        // What appears at such a place later is somebody else's.
        let withdrawn = &mut self.proofs.withdrawn;
        withdrawn.retain(|type_key, now| used.withdrawn.get(type_key) != Some(now));
    }

    /// Remembers refused changes, unless the object has become another one meanwhile.
    fn set_aside(&mut self, new: Vec<(RepoPath, SetAside)>, refused_whole: bool, passed: bool) {
        if new.is_empty() && self.set_aside.is_empty() {
            return;
        }
        let wanted = self.wanted.clone();
        let known = Arc::make_mut(&mut self.set_aside);
        if refused_whole {
            known.retain(|_, set_aside| set_aside.proven);
        }
        if passed {
            for aside in known.values_mut() {
                aside.proven = true;
            }
        }
        for (path, set_aside) in new {
            if wanted.get(&path).map(|wanted| wanted.blob) == set_aside.blob {
                known.insert(path, set_aside);
            }
        }
    }

    /// So many files could not be written because the branch does not stand still.
    pub(super) fn cannot_keep_up(&mut self, files: usize, refusal: &Refusal) {
        self.failure = Some(refusal.clone());
        self.waiting = files;
    }

    /// The whole branch failed: what is waiting waits on.
    pub(super) fn fail(&mut self, refusal: &Refusal) {
        self.failure = Some(refusal.clone());
        if self.window.files() == 0 {
            self.window.add(0, Instant::now());
        }
    }

    /// Forgets contents that nothing wants any more.
    pub(super) fn forget_superseded(&mut self) {
        let wanted: HashSet<BlobId> = self.wanted.values().map(|wanted| wanted.blob).collect();
        self.contents.retain(&wanted);
    }

    /// The files whose contents wait in memory.
    pub(super) fn files_in_memory(&self) -> Vec<(&RepoPath, BlobId)> {
        let wanted = self.wanted.iter().map(|(path, wanted)| (path, wanted.blob));
        wanted
            .filter(|(_, blob)| self.contents.get(*blob).is_some())
            .collect()
    }

    /// How long until it may be tried again, for those who are told of a failure.
    pub(super) fn retries_after(&self, now: Instant) -> Option<(u32, Duration, &Refusal)> {
        let wait = self.not_before?.saturating_duration_since(now);
        Some((self.failures, wait, self.failure.as_ref()?))
    }

    /// How it stands, if that is news.
    pub(super) fn changed_report(&mut self, remote: Option<&RemoteAnswer>) -> Option<Report> {
        let unknown = (!self.unknown.is_empty()).then(|| Refusal {
            reason: reverser_api::conditions::scope_reason::SCOPE_UNKNOWN,
            message: unknown_sentence(&self.unknown),
        });
        let suspended = self.destination.suspend.then(|| Refusal {
            reason: reverser_api::conditions::destination_reason::SUSPENDED,
            message: "spec.suspend is true: nothing is written".to_owned(),
        });
        let named = self.set_aside.iter().take(NAMED_SET_ASIDE);
        let report = Report {
            objects: self.wanted.len(),
            waiting: self.waiting_files(),
            last_commit: self.last_commit,
            last_push: self.last_push,
            in_sync: self.is_in_sync(),
            round: self.round,
            unknown: self.unknown.clone(),
            failure: suspended.or_else(|| self.failure.clone()).or(unknown),
            stopped: self.stopped.clone(),
            held_back: self.held_back,
            foreign_owner: self.foreign_owner.clone(),
            unselected: self.unselected.clone(),
            set_aside: named
                .map(|(path, aside)| (self.destination.folder.join(path), aside.message.clone()))
                .collect(),
            set_aside_objects: self.set_aside.len(),
            author_refused: self.refused_authors.sentence().map(str::to_owned),
            remote: remote.cloned(),
        };
        if self.reported.as_ref() == Some(&report) {
            return None;
        }
        self.reported = Some(report.clone());
        Some(report)
    }
}

fn unknown_sentence(unknown: &[String]) -> String {
    let named = &unknown[..unknown.len().min(NAMED_UNKNOWN)];
    let named = named.join("; ");
    let more = match unknown.len().saturating_sub(NAMED_UNKNOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("not everything is known, files stay: {named}{more}")
}

/// The difference for a job, without files that differ only in form and without what is refused.
pub(super) fn plan_of<'t>(job: &Job, tree: impl IntoIterator<Item = TreeFile<'t>>) -> Plan {
    let mut plan = plan(&job.wanted, tree, &job.proofs, &job.policy);
    let is_aside = |path: &RepoPath, blob: Option<BlobId>| {
        let aside = job.set_aside.get(path);
        aside.is_some_and(|aside| aside.blob == blob)
    };
    plan.retain_puts(|put| {
        let known = job.equal_in_form.get(&put.path);
        let differs =
            put.replaces.is_none() || known != put.replaces.map(|there| (there, put.blob)).as_ref();
        differs && !is_aside(&put.path, Some(put.blob))
    });
    plan.deletes.retain(|delete| !is_aside(delete.path(), None));
    plan
}
