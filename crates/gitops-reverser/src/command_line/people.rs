//! The flags of commands that compare, tell and bring back.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

use super::{ClusterArguments, RepositoryArguments, SelectionArguments};

/// Flags of `verify`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  gitops-reverser verify --repo ./backup -A
  gitops-reverser verify --repo git@github.com:me/cluster.git --folder prod -n shop
  gitops-reverser verify -d reverser/prod            # as the GitDestination and its rules say
  gitops-reverser verify --repo ./backup -A --json | jq '.different[].path'

A file that says the same in another form is the same. Select what was selected for the mirror, with
the same --secrets and key: what is not selected is not compared. For a GitDestination the flags of the
operator are read from its Deployment. Values of Secrets are never shown, only that they differ.

Exit status: 0 if folder and cluster are the same, 1 if they differ or something failed, 2 if nothing
differs and some types could not be listed; 10 to 130 as `mirror` has them.")]
pub struct VerifyArguments {
    /// Compare the folder of this GitDestination, as it and the rules that refer to it say
    #[arg(
        short,
        long,
        value_name = "NAMESPACE/NAME",
        conflicts_with_all = ["repo", "namespace", "all_namespaces", "include", "exclude", "selector"]
    )]
    pub destination: Option<String>,

    /// Where the operator runs, whose flags say what is written and whose key Secrets are redacted with
    #[arg(long, value_name = "NAMESPACE", default_value = "gitops-reverser")]
    pub operator_namespace: String,

    /// Which folder of which repository.
    #[command(flatten)]
    pub repository: RepositoryArguments,

    /// Which cluster.
    #[command(flatten)]
    pub cluster: ClusterArguments,

    /// Which objects.
    #[command(flatten)]
    pub selection: SelectionArguments,

    /// Print the table without the differences
    #[arg(long, help_heading = "How")]
    pub no_diff: bool,

    /// Print JSON
    #[arg(long, help_heading = "How")]
    pub json: bool,
}

/// Flags of `status`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  gitops-reverser status
  gitops-reverser status --watch
  gitops-reverser status --json | jq '.destinations[] | select(.ready != \"True\")'

Exit status: 0 if everything is ready, 1 if something is not or failed; 10 to 130 as `mirror` has them.")]
pub struct StatusArguments {
    /// Which cluster.
    #[command(flatten)]
    pub cluster: ClusterArguments,

    /// Only this namespace, and the cluster rules that lead there
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,

    /// Show it again whenever it changes, until stopped
    #[arg(short, long)]
    pub watch: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Which object of which repository.
#[derive(Debug, Clone, Args)]
pub struct ObjectArguments {
    /// The object, as kubectl has it: deployment/web, cm/settings, widgets.example.com/one
    #[arg(value_name = "KIND/NAME")]
    pub object: String,

    /// Its namespace; left out, wherever the repository has one of that name
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,

    /// Which folder of which repository.
    #[command(flatten)]
    pub repository: RepositoryArguments,
}

/// Flags of `log`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  gitops-reverser log deployment/web -n shop --repo ./backup
  gitops-reverser log cm/settings -p --repo git@github.com:me/cluster.git

How the author was found: exact (this very change was seen being made), coalesced (several changes of
one person), reconcile (the branch was brought in line with the cluster), unknown.

Exit status: 0, or 1 if something failed, 16 if the repository never held such an object; 20 to 64 as
`mirror` has them.")]
pub struct LogArguments {
    /// Which object.
    #[command(flatten)]
    pub object: ObjectArguments,

    /// Show what each commit changed in the object
    #[arg(short, long)]
    pub patch: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of `blame`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  gitops-reverser blame deployment/web -n shop --repo ./backup

Exit status: 0, or 1 if something failed, 16 if the branch holds no such object; 20 to 64 as `mirror`
has them.")]
pub struct BlameArguments {
    /// Which object.
    #[command(flatten)]
    pub object: ObjectArguments,
}

/// Flags of `restore`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  gitops-reverser restore deployment/web -n shop --repo ./backup --at HEAD~1
  gitops-reverser restore cm/settings --repo ./backup --at 2026-11-15T14:00:00Z --dry-run
  gitops-reverser restore apps --repo ./backup --at 4f3c2a1 --yes        # a folder of the branch

Shows what differs from the cluster and asks before it applies anything, with your own rights, by
server-side apply: fields that nobody wrote to the file stay as they are. Namespaces, definitions and
what others need come first. Objects that were not there at that time stay.

Exit status: 0 if every object is as it was, 1 if something failed or you said no, 2 if some objects
could not be applied, 16 if the commit holds no such object; 10 to 130 as `mirror` has them.")]
pub struct RestoreArguments {
    /// The object (deployment/web), or a folder of the branch (apps/v1/deployments/shop)
    #[arg(value_name = "KIND/NAME or FOLDER")]
    pub what: String,

    /// The commit, or the time as in 2026-11-15T14:00:00Z, 2026-11-15 or 3h (ago)
    #[arg(long, value_name = "COMMIT or TIME")]
    pub at: String,

    /// The namespace of the object; left out, wherever the repository has one of that name
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,

    /// Which folder of which repository.
    #[command(flatten)]
    pub repository: RepositoryArguments,

    /// Which cluster.
    #[command(flatten)]
    pub cluster: ClusterArguments,

    /// Let the API server check everything, and change nothing
    #[arg(long, help_heading = "How")]
    pub dry_run: bool,

    /// Do not ask
    #[arg(short, long, help_heading = "How")]
    pub yes: bool,
}

/// Flags of `completion`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  source <(gitops-reverser completion bash)
  gitops-reverser completion zsh > \"${fpath[1]}/_gitops-reverser\"
  gitops-reverser completion fish > ~/.config/fish/completions/gitops-reverser.fish")]
pub struct CompletionArguments {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Flags of `demo`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  make demo                                    # builds what is needed, and starts it
  make demo ARGS=--once                        # ends by itself
  gitops-reverser demo --use-current-context   # on your own cluster, after asking

Exit status: 0 if the story was told, 1 if something failed; 10 to 130 as `mirror` has them.")]
pub struct DemoArguments {
    /// End when the story is told, instead of keeping everything running to look around
    #[arg(long)]
    pub once: bool,

    /// Use the cluster of the current context of your kubeconfig instead of starting one; what is
    /// created there is named first, and removed at the end
    #[arg(long)]
    pub use_current_context: bool,

    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,

    /// A file that says how to reach a control plane that runs already
    #[arg(long, value_name = "FILE", hide = true)]
    pub plane: Option<PathBuf>,
}
