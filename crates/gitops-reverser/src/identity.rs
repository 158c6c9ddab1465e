//! Names of our own objects.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use reverser_api::git_destination::RepoReference;
use reverser_api::watch_rule::DestinationReference;

/// The namespace and name of a GitRepoConfig, GitDestination or WatchRule. Cheap to clone: every
/// object remembers to which destinations it went.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(Arc<Names>);

/// What an [`Id`] consists of.
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Names {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Deref for Id {
    type Target = Names;

    fn deref(&self) -> &Names {
        &self.0
    }
}

/// Either kind of rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RuleId {
    /// A WatchRule.
    Watch(Id),
    /// A ClusterWatchRule.
    Cluster(String),
}

impl Id {
    /// From a namespace and a name.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self(Arc::new(Names {
            namespace: namespace.into(),
            name: name.into(),
        }))
    }

    /// The GitRepoConfig that a destination of this namespace refers to.
    #[must_use]
    pub fn of_repo(reference: &RepoReference, home: &str) -> Self {
        let RepoReference { name, namespace } = reference;
        Self::new(namespace.as_deref().unwrap_or(home), name)
    }

    /// The GitDestination that a WatchRule of this namespace refers to.
    #[must_use]
    pub fn of_destination(reference: &DestinationReference, home: &str) -> Self {
        let DestinationReference { name, namespace } = reference;
        Self::new(namespace.as_deref().unwrap_or(home), name)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Watch(id) => id.fmt(f),
            Self::Cluster(name) => f.write_str(name),
        }
    }
}
