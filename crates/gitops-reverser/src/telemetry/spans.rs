//! Parts of the work that take time, for those who collect traces. They are no part of the log, and cost
//! nothing where nobody collects them.

use tracing::{Span, info_span};

use super::labels::BranchLabels;
use crate::identity::Id;
use crate::watch::Scope;

/// Tells spans from log lines.
pub const TARGET: &str = "gitops_reverser::spans";

/// One attempt to bring a branch in line with the cluster.
pub(crate) fn batch(branch: &BranchLabels) -> Span {
    let (repo, branch) = (branch.repo(), branch.branch());
    info_span!(target: TARGET, "batch", repo, branch)
}

/// A look at what the remote has.
pub(crate) fn fetch() -> Span {
    info_span!(target: TARGET, "fetch")
}

/// The comparison of a destination with its folder.
pub(crate) fn plan(destination: &Id) -> Span {
    info_span!(target: TARGET, "plan", %destination)
}

/// A push, until the remote has confirmed it.
pub(crate) fn push(commits: usize) -> Span {
    info_span!(target: TARGET, "push", commits)
}

/// A list of all objects of a type.
pub(crate) fn list(scope: &Scope) -> Span {
    let (version, resource) = (scope.api_version(), scope.type_key.resource());
    let namespace = scope.namespace.as_deref();
    info_span!(target: TARGET, "list", version, resource, namespace)
}

/// Finding out which types the cluster serves.
pub(crate) fn discovery() -> Span {
    info_span!(target: TARGET, "discovery")
}
