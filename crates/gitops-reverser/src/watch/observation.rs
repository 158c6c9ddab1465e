use std::sync::Arc;
use std::time::Instant;

use super::{LossReason, Scope};

/// What a driver tells of its scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// A list begins. Everything known of the scope stays until the list is complete.
    ListStarted,
    /// An object is there.
    Seen {
        /// Its JSON, as the server wrote it.
        object: Box<str>,
        /// Whether it changed just now; otherwise a list named it.
        live: bool,
        /// Whether it changed by being created.
        added: bool,
    },
    /// An object was deleted.
    Gone {
        /// Its last state.
        object: Box<str>,
    },
    /// One object cannot be told, so the list that contains it is not complete.
    Undecodable {
        /// Namespace and name, as far as they can be read.
        name: Option<(Option<String>, String)>,
        /// Why.
        reason: String,
    },
    /// A list ends.
    Listed(ListOutcome),
    /// From now on nothing is known of the scope, until the next complete list.
    Lost {
        /// What kind of loss it is.
        reason: LossReason,
        /// A sentence for status.
        message: String,
    },
}

/// How a list ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListOutcome {
    /// Every object of the scope was told: what was not told does not exist.
    Complete,
    /// Some could not be told: what was not told may exist.
    Partial {
        /// How many.
        undecodable: usize,
    },
}

/// An observation with where it belongs.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Of what.
    pub scope: Arc<Scope>,
    /// Of which start of the scope's driver: each has a larger one than those before it.
    pub epoch: u64,
    /// When it was read.
    pub at: Instant,
    /// What.
    pub observation: Observation,
}
