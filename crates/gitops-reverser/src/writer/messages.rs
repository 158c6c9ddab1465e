//! What writers are told, and what they tell.

use std::collections::BTreeMap;
use std::time::Instant;

use reverser_core::object_key::TypeKey;
use reverser_core::plan::MassDelete;
use reverser_git::CommitId;

use crate::dispatch::ToWriter;
use crate::identity::Id;
use crate::routing::{Refusal, RepoState};

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
    /// Whether it is only being found out which changes the server refuses.
    pub searching: bool,
    /// Deletions that are stopped.
    pub stopped: Option<MassDelete>,
    /// Deletions that wait, or that never come.
    pub held_back: HeldBack,
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
    /// What came of the last use of the remote; nothing before the first.
    pub remote: Option<RemoteAnswer>,
}

impl Report {
    /// Whether the remote let us in the last time.
    #[must_use]
    pub fn has_reached(&self) -> bool {
        let remote = self.remote.as_ref();
        remote.is_some_and(|remote| remote.result.is_ok())
    }
}

/// Deletions that are proven, and not carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldBack {
    /// The destination's mode does not let them pass.
    pub by_mode: usize,
    /// They are over the cap of a cycle.
    pub by_cap: usize,
}

impl HeldBack {
    /// How many there are.
    #[must_use]
    pub fn files(self) -> usize {
        self.by_mode + self.by_cap
    }
}

/// What came of asking a remote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteAnswer {
    /// Which one.
    pub of: RepoState,
    /// Whether it let us in.
    pub result: Result<(), Refusal>,
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
