//! The four kinds that users write, in the group `configbutler.ai`.
//!
//! What the API server can check, it checks: each field's schema carries its limits and its rules in
//! CEL, and each rule a sentence that says what to write instead. A spec read through these types
//! may still be wrong (the definition in the cluster can be older or newer than this program), so
//! whoever acts on a value parses it again.
//!
//! An object that these types cannot hold, say for a mode that only a newer version knows, must not
//! hide the others: list and watch `kube::core::DeserializeGuard<K>`, which gives such an object as
//! an error with its name and the rest of the list as it is.

#![expect(
    unreachable_pub,
    reason = "deriving KubeSchema declares a copy of each public struct inside of a function"
)]
#![expect(
    clippy::duplicated_attributes,
    reason = "two columns of a kind may well have the same type"
)]

// The kinds stand in the order in which a user creates them.

/// GitRepoConfig: where a repository is, how to log in to it, and who may use it.
pub mod git_repo_config;
/// GitDestination: one folder of one branch that is kept equal to the cluster.
pub mod git_destination;
/// WatchRule: which objects of its namespace go to a destination.
pub mod watch_rule;
/// ClusterWatchRule: which objects of the whole cluster go to a destination.
pub mod cluster_watch_rule;
/// Who may use a repository or a destination.
pub mod access_policy;
/// What status says: condition types and reasons.
pub mod conditions;
/// The definitions of the four kinds, and their text.
pub mod crd_yaml;
/// Schemas of the fields that need more than a type, with their rules.
mod schema;

#[cfg(test)]
mod api_reference;
#[cfg(test)]
mod committed_files;

pub use cluster_watch_rule::{ClusterWatchRule, ClusterWatchRuleSpec};
pub use git_destination::{GitDestination, GitDestinationSpec};
pub use git_repo_config::{GitRepoConfig, GitRepoConfigSpec};
pub use watch_rule::{WatchRule, WatchRuleSpec};

/// The group of the four kinds.
pub const GROUP: &str = "configbutler.ai";
/// The version of the four kinds.
pub const VERSION: &str = "v1alpha1";
