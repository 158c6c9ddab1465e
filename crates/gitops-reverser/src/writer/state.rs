//! What one destination should hold, and how far it has come.

mod attempts;
mod reporting;
mod taking;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use reverser_core::blob_id::BlobId;
use reverser_core::object_key::TypeKey;
use reverser_core::plan::{MassDelete, Proofs, ShownStop, Wanted};
use reverser_core::repo_path::RepoPath;
use reverser_core::transition_log::TransitionLog;
use reverser_core::window::{Limits, Window};
use reverser_git::CommitId;

use super::absences::Absences;
use super::authors::RefusedAuthors;
use super::contents::Contents;
use super::doubt::Doubt;
use super::search::Found;
use super::unconfirmed::Unconfirmed;
use super::unwritten::Unwritten;
use super::{HeldBack, Report};
use crate::routing::{Destination, Refusal};

/// The times of so many events are kept for the histogram; while a remote is down there would be no
/// end of them.
const EVENT_TIMES: usize = 2048;

/// A change that is refused, and not tried again until it is another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SetAside {
    /// The content; nothing if it is the deletion that is refused.
    pub(super) blob: Option<BlobId>,
    /// What the server said.
    pub(super) message: String,
    /// Whether it is known that the server takes other objects.
    pub(super) proven: bool,
    /// Not the server is in the way, but what stands in the branch, which somebody may remove.
    pub(super) by_branch: bool,
}

pub(super) struct DestinationState {
    pub(super) destination: Destination,
    wanted: Arc<BTreeMap<RepoPath, Wanted>>,
    proofs: Proofs,
    absences: Absences,
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
    /// How often the destination was described anew.
    settings: u64,
    /// The server refused everything, and nothing has changed since.
    refused_whole: bool,
    /// How far the search for what the server refuses has come.
    found: Found,
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
            absences: Absences::default(),
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
            settings: 0,
            refused_whole: false,
            found: Found::default(),
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
        self.settings += 1;
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
        self.found = Found::default();
        self.not_before = None;
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
        let batch = self.window.due(&self.limits(limits));
        let batch = batch.map(|due| self.log.worth_waiting(due, grace));
        let settled = self.absences.settle_at(self.unknown.is_empty());
        let settled = settled.filter(|_| !self.destination.suspend);
        let due = batch.into_iter().chain(settled).min()?;
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
}
