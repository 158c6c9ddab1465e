//! GitOps Reverser: keeps a folder of a Git branch equal to what lives in a Kubernetes cluster.

// In the order of the data's way.

/// Flags and commands, and nothing else.
pub mod command_line;
/// What each command does, one file each.
pub mod commands;
/// Names of our own objects.
pub mod identity;
/// Questions to the API server, answered in bytes, with deadlines and limits.
pub mod api_read;
/// What the cluster serves.
pub mod discovery;
/// From what users wrote to what goes where.
pub mod routing;
/// What lives in the cluster: one list and watch per type.
pub mod watch;
/// From observations to what each destination should hold.
pub mod dispatch;
/// One task for each branch: what is wanted becomes commits.
pub mod writer;
/// Our own four kinds and the namespaces, followed.
pub mod configuration;
/// From Secrets to credentials.
pub mod credentials;
/// What status says.
pub mod status;
/// Every part, and the one loop that connects them.
pub mod operator;
