//! Names of our own objects.

use std::fmt;

/// The namespace and name of a GitRepoConfig, GitDestination or WatchRule.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
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
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
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
