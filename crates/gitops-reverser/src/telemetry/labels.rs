//! The labels of metrics: few values, and none of them secret.

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use reverser_git::{BranchName, RemoteUrl};

/// A kind of objects as in a manifest: `apps/v1/Deployment`, `v1/ConfigMap`. Cheap to clone: make it
/// once per type.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Gvk(Arc<str>);

impl Gvk {
    /// From its parts; the core group is empty.
    #[must_use]
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        if group.is_empty() {
            Self(format!("{version}/{kind}").into())
        } else {
            Self(format!("{group}/{version}/{kind}").into())
        }
    }

    /// As it is shown.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl EncodeLabelValue for Gvk {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        EncodeLabelValue::encode(&self.0, encoder)
    }
}

/// Whether objects of a kind live in namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum ObjectScope {
    /// They do.
    Namespaced,
    /// They do not.
    Cluster,
}

/// A kind of objects and where they live. Cheap to clone: make it once per type.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct TypeLabels {
    gvk: Gvk,
    scope: ObjectScope,
}

impl TypeLabels {
    /// From its parts.
    #[must_use]
    pub fn new(gvk: Gvk, scope: ObjectScope) -> Self {
        Self { gvk, scope }
    }

    /// The kind, as it is shown.
    #[must_use]
    pub fn gvk(&self) -> &str {
        self.gvk.as_str()
    }
}

/// A branch of a repository. Cheap to clone: make it once per writer.
///
/// It can only be made from a [`RemoteUrl`], which never holds a password or a token.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct BranchLabels {
    repo: Arc<str>,
    branch: Arc<str>,
}

impl BranchLabels {
    /// From its parts.
    #[must_use]
    pub fn of(repo: &RemoteUrl, branch: &BranchName) -> Self {
        Self {
            repo: repo.as_str().into(),
            branch: branch.as_str().into(),
        }
    }

    /// The URL of the repository.
    #[must_use]
    pub fn repo(&self) -> &str {
        &self.repo
    }

    /// The name of the branch.
    #[must_use]
    pub fn branch(&self) -> &str {
        &self.branch
    }
}

/// A GitDestination. Cheap to clone: make it once per destination.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct DestinationLabels {
    destination: Arc<str>,
}

impl DestinationLabels {
    /// From the namespace and the name of the object.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            destination: format!("{namespace}/{name}").into(),
        }
    }

    /// `namespace/name`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.destination
    }
}

/// What became of a question of the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum AdmissionOutcome {
    /// Who tried what was noted.
    Recorded,
    /// It was in order, and there was nothing to note.
    Ignored,
    /// It could not be read, or was too large, or came with too many others.
    Refused,
}

/// What became of a question of the API server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct AdmissionLabels {
    pub(super) outcome: AdmissionOutcome,
}

/// Objects of one of our own kinds that are not Ready for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct NotReadyLabels {
    kind: &'static str,
    reason: String,
}

impl NotReadyLabels {
    /// From the kind and one of the documented reasons.
    #[must_use]
    pub fn new(kind: &'static str, reason: &str) -> Self {
        Self {
            kind,
            reason: reason.to_owned(),
        }
    }
}

/// A lease that is kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct WorkerLabels {
    worker: Arc<str>,
}

impl WorkerLabels {
    /// From the name of the lease.
    #[must_use]
    pub fn new(lease: &str) -> Self {
        Self {
            worker: lease.into(),
        }
    }
}
