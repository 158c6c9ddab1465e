//! What the operator is doing, read at each scrape.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::labels::BranchLabels;

/// What the operator is doing at this moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OperatorState {
    /// How many types are watched.
    pub watched_types: usize,
    /// How many scopes, a type in all namespaces or in one, could not be listed completely.
    pub unknown_scopes: usize,
    /// How many branches are being written.
    pub active_workers: usize,
    /// Every branch that has a writer.
    pub branches: Vec<BranchState>,
}

/// What is waiting for one branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchState {
    /// Which branch.
    pub branch: BranchLabels,
    /// How many files wait to be pushed.
    pub queue_depth: usize,
    /// When the remote was last known to have all of a batch; nothing before the first.
    pub last_push: Option<Instant>,
}

/// How to find out what the operator is doing.
pub(super) struct StateReader(Mutex<Box<dyn Fn() -> OperatorState + Send + Sync>>);

impl StateReader {
    pub(super) fn replace(&self, read: impl Fn() -> OperatorState + Send + Sync + 'static) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(read);
    }

    pub(super) fn read(&self) -> OperatorState {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)()
    }
}

impl Default for StateReader {
    fn default() -> Self {
        Self(Mutex::new(Box::new(OperatorState::default)))
    }
}

impl fmt::Debug for StateReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateReader").finish_non_exhaustive()
    }
}
