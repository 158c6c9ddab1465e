//! The flags and commands, and nothing else.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

mod controller;
#[cfg(test)]
mod reference;

pub use controller::{
    CommitArguments, ControllerArguments, DestinationArguments, DiscoveryArguments,
    GitBatchArguments, LeaseArguments, TelemetryArguments, WebhookArguments, WorkArguments,
};

/// Keeps a folder of a Git branch equal to what lives in a Kubernetes cluster.
#[derive(Debug, Parser)]
#[command(name = "gitops-reverser", version, arg_required_else_help = true)]
pub struct CommandLine {
    /// What is to be done.
    #[command(subcommand)]
    pub command: Command,
}

/// What is to be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the operator: watch the cluster and keep the branches equal to it
    ///
    /// Follows GitRepoConfigs, GitDestinations, WatchRules and ClusterWatchRules, and runs inside of a
    /// cluster as well as outside with a kubeconfig. Every flag can be given as an environment variable.
    Controller(Box<ControllerArguments>),
    /// Turn live objects into the YAML that Git would hold
    ///
    /// Reads objects as JSON or YAML: one, a list, or many documents. Writes each as clean,
    /// canonical YAML: without what the server and controllers own, in a fixed order.
    Clean(CleanArguments),
    /// Print the definitions of the four kinds, to be installed with kubectl
    #[command(after_help = "\
Example:
  gitops-reverser crds | kubectl apply --server-side -f -")]
    Crds,
}

/// Flags of `clean`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubectl get deployment web -o yaml | gitops-reverser clean
  kubectl get configmaps,services -A -o json | gitops-reverser clean --path
  gitops-reverser clean --keep-going backup/*.yaml

kubectl leaves out who set which field; add --show-managed-fields to it where that matters, as for
node ports that a person chose.

Exit status: 0 if every document could be read, 1 otherwise.")]
pub struct CleanArguments {
    /// Files to read; `-` or none is standard input
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// Also print, as a comment above each object, where its file would be stored
    ///
    /// The plural of a kind is guessed, because no server is asked: right for every built-in kind,
    /// and for custom kinds with a regular plural.
    #[arg(long)]
    pub path: bool,

    /// Print the good documents even if others cannot be read
    #[arg(long)]
    pub keep_going: bool,
}
