//! The flags and commands, and nothing else.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::terminal::exit::Exit;

mod controller;
mod mirror;
mod people;
mod places;
#[cfg(test)]
mod reference;

pub use controller::{
    AttributionArguments, CommitArguments, ControllerArguments, DestinationArguments,
    DiscoveryArguments, GitBatchArguments, LeaseArguments, TelemetryArguments, WebhookArguments,
    WorkArguments,
};

pub use mirror::MirrorArguments;
pub use people::{
    BlameArguments, CompletionArguments, DemoArguments, LogArguments, ObjectArguments,
    RestoreArguments, StatusArguments, VerifyArguments,
};
pub use places::{ClusterArguments, RepositoryArguments, SecretsArgument, SelectionArguments};

/// Keeps a folder of a Git branch equal to what lives in a Kubernetes cluster.
#[derive(Debug, Parser)]
#[command(name = "gitops-reverser", version, arg_required_else_help = true)]
pub struct CommandLine {
    /// What is to be done.
    #[command(subcommand)]
    pub command: Command,
}

/// What clap has for command lines that it does not understand, and the operator's users know.
const BAD_FLAGS: u8 = 2;

impl CommandLine {
    /// Reads a command line. What cannot be understood, and `--help`, is said here; what is left is how
    /// to end.
    pub fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, ExitCode> {
        let arguments: Vec<OsString> = arguments.into_iter().collect();
        let called = arguments.first().map(Path::new).and_then(Path::file_name);
        let mut command = Self::command();
        // kubectl runs `kubectl-reverser` for `kubectl reverser`.
        if called.is_some_and(|name| name == "kubectl-reverser") {
            command = command.bin_name("kubectl reverser");
        }
        let matches = command.try_get_matches_from_mut(&arguments);
        let read = matches.and_then(|matches| Self::from_arg_matches(&matches));
        read.map_err(|error| {
            // A terminal that is gone cannot be told.
            let _ = error.print();
            if !error.use_stderr() {
                return ExitCode::SUCCESS;
            }
            // `mirror` and its like say something else by 2.
            let old = ["controller", "clean", "crds"];
            let named = arguments.get(1).and_then(|name| name.to_str());
            ExitCode::from(if named.is_some_and(|name| old.contains(&name)) {
                BAD_FLAGS
            } else {
                Exit::Usage as u8
            })
        })
    }
}

/// What is to be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the operator: watch the cluster and keep the branches equal to it
    ///
    /// Follows GitRepoConfigs, GitDestinations, WatchRules and ClusterWatchRules, and runs inside of a
    /// cluster as well as outside with a kubeconfig. Every flag can be given as an environment variable.
    Controller(Box<ControllerArguments>),
    /// Mirror a cluster into a repository, with nothing installed in it
    ///
    /// Writes what lives in the cluster to a folder of a branch, and follows until it is stopped. Needs
    /// no more than the right to list what is to be mirrored.
    Mirror(Box<MirrorArguments>),
    /// Compare a folder of a branch with the cluster
    Verify(Box<VerifyArguments>),
    /// Show destinations and rules in one place: what is ready, what waits, what is not known and why
    Status(StatusArguments),
    /// Tell who changed an object, when, and how that is known
    Log(LogArguments),
    /// Tell who wrote each line of an object
    Blame(BlameArguments),
    /// Bring objects back as they were
    Restore(Box<RestoreArguments>),
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
    /// Tell a story on a real control plane: who changed what, and what Git shows of it
    Demo(DemoArguments),
    /// Print what a shell needs to complete commands and flags
    Completion(CompletionArguments),
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
