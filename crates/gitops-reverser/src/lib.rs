//! GitOps Reverser: keeps a folder of a Git branch equal to what lives in a Kubernetes cluster.

// What is asked of the program.

/// Flags and commands, and nothing else.
pub mod command_line;
/// What each command does, one file each.
pub mod commands;
/// The flags of the controller, read once into types.
pub mod settings;

// In the order of the data's way.

/// Names of our own objects.
pub mod identity;
/// Our own four kinds and the namespaces, followed.
pub mod configuration;
/// Questions to the API server, answered in bytes, with deadlines and limits.
pub mod api_read;
/// The role with which everything goes that the operator makes in the cluster.
pub mod owner_role;
/// Who may write: the leader of an installation, and the installation whose turn a branch is.
pub mod leases;
/// What the cluster serves.
pub mod discovery;
/// From what users wrote to what goes where.
pub mod routing;
/// Who did it: what the API server asks before it stores a change.
pub mod admission;
/// What lives in the cluster: one list and watch per type.
pub mod watch;
/// Whose changes they are.
pub mod attribution;
/// From observations to what each destination should hold.
pub mod dispatch;
/// From Secrets to credentials.
pub mod credentials;
/// One task for each branch: what is wanted becomes commits.
pub mod writer;
/// What status says.
pub mod status;
/// Every part, and the one loop that connects them.
pub mod operator;

// For a person at a terminal.

/// What commands for a person share: which cluster, repository and objects, and how things are said.
pub mod terminal;

// For those who look from outside.

/// What happened and what is: logs and metrics.
pub mod telemetry;
/// The servers for metrics and probes.
pub mod http;

#[cfg(test)]
mod reference_page;
