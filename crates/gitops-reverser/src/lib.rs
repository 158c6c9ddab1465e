//! GitOps Reverser: keeps a folder of a Git branch equal to what lives in a Kubernetes cluster.

// In the order of the data's way.

/// Flags and commands, and nothing else.
pub mod command_line;
/// What each command does, one file each.
pub mod commands;
/// The flags of the controller, read once into types.
pub mod settings;
/// The operator: everything between the cluster and the branches.
pub mod operator;
/// What happened and what is, for those who look from outside: logs and metrics.
pub mod telemetry;
/// The servers for metrics and probes.
pub mod http;

#[cfg(test)]
mod reference_page;
