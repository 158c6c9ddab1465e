//! Objects of our own that cannot be read: an older definition let them in, or somebody took the
//! validation away. They are in effect for nobody, and nothing is deleted because of them.

use reverser_api::conditions::reason;

use super::{Configuration, Refusal, Routing};
use crate::identity::{Id, RuleId};

/// The four kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnKind {
    /// GitRepoConfig.
    Repo,
    /// GitDestination.
    Destination,
    /// WatchRule.
    WatchRule,
    /// ClusterWatchRule.
    ClusterRule,
}

impl OwnKind {
    /// As it stands in manifests.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Repo => "GitRepoConfig",
            Self::Destination => "GitDestination",
            Self::WatchRule => "WatchRule",
            Self::ClusterRule => "ClusterWatchRule",
        }
    }
}

/// What is known of an object that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Why.
    pub message: String,
    /// Which object of its name it is.
    pub uid: Option<String>,
    /// Of which generation this is said.
    pub generation: Option<i64>,
    /// The destination that it names, if it is a rule and at least that can be read.
    pub destination: Option<Id>,
}

impl Unreadable {
    /// What status says.
    #[must_use]
    pub fn refusal(&self) -> Refusal {
        Refusal {
            reason: reason::INVALID_SPEC,
            message: format!("it cannot be read and is not in effect: {}", self.message),
        }
    }
}

impl Configuration {
    /// Why an object is not there that somebody refers to, if it is because it cannot be read.
    pub(super) fn unreadable(&self, kind: OwnKind, id: &Id) -> Option<&Unreadable> {
        self.unreadable.get(&(kind, id.clone()))
    }
}

/// Rules that cannot be read select what nobody knows: where they may write, files stay.
pub(super) fn resolve(routing: &mut Routing, configuration: &Configuration) {
    for ((kind, id), unreadable) in &configuration.unreadable {
        let rule = match kind {
            OwnKind::Repo | OwnKind::Destination => continue,
            OwnKind::WatchRule => RuleId::Watch(id.clone()),
            OwnKind::ClusterRule => RuleId::Cluster(id.name.clone()),
        };
        let may_write = |destination: &Id| match &unreadable.destination {
            Some(named) => named == destination,
            None => *kind == OwnKind::ClusterRule || destination.namespace == id.namespace,
        };
        for destination in routing.destinations.keys().filter(|id| may_write(id)) {
            routing.kept.add_all_of(destination, &rule);
        }
        routing.rules.insert(rule, Err(unreadable.refusal()));
    }
}
