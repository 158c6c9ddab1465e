//! GitOps Reverser: keeps a folder of a Git branch equal to what lives in a Kubernetes cluster.

// In the order of the data's way.

/// Flags and commands, and nothing else.
pub mod command_line;
/// What each command does, one file each.
pub mod commands;
/// Names of our own objects.
pub mod identity;
/// From what users wrote to what goes where.
pub mod routing;
