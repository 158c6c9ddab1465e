use clap::Args;

use super::{ClusterArguments, RepositoryArguments, SelectionArguments};

/// Flags of `mirror`.
#[derive(Debug, Clone, Args)]
#[command(after_help = MirrorArguments::AFTER_HELP)]
pub struct MirrorArguments {
    /// Which folder of which repository.
    #[command(flatten)]
    pub repository: RepositoryArguments,

    /// Which cluster.
    #[command(flatten)]
    pub cluster: ClusterArguments,

    /// Which objects.
    #[command(flatten)]
    pub selection: SelectionArguments,

    /// Do one complete pass and end, instead of following the cluster
    #[arg(long, help_heading = "How")]
    pub once: bool,

    /// Say nothing unless something is wrong
    #[arg(short, long, help_heading = "How", conflicts_with = "json")]
    pub quiet: bool,

    /// Say how it went as JSON on standard output, one line each time that is news
    #[arg(long, help_heading = "How")]
    pub json: bool,

    /// Release a deletion that was stopped because it would have emptied the folder; the complaint
    /// names the id
    #[arg(long, value_name = "ID", help_heading = "How")]
    pub acknowledge_mass_delete: Option<String>,

    /// The committer and author of the commits
    #[arg(
        long,
        value_name = "NAME",
        default_value = "GitOps Reverser",
        help_heading = "How"
    )]
    pub committer_name: String,

    /// The e-mail address of the committer
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "noreply@configbutler.ai",
        help_heading = "How"
    )]
    pub committer_email: String,
}

impl MirrorArguments {
    const AFTER_HELP: &str = "\
Examples:
  gitops-reverser mirror --repo ./backup                       # follow the namespace of the context
  gitops-reverser mirror --repo ./backup -A --once             # one pass over everything, for cron
  gitops-reverser mirror --repo git@github.com:me/cluster.git --folder prod -n shop,web
  gitops-reverser mirror --repo ./backup -A --include deployments,configmaps --secrets skip

A path that does not exist becomes a repository without a work tree. Who made a change is known only to
the operator, which the cluster tells; these commits are all by the committer.

Exit status: 0 if everything that was selected is in the remote, 1 if something failed, 2 if some types
could not be listed or some objects were refused (the files of what could not be listed stay),
  10 no kubeconfig, 11 no such context, 12 the cluster cannot be reached, 13 the cluster refuses the
  credentials, 14 no such namespace, 15 no such type, 20 the repository cannot be used, 21 the
  repository refuses, 22 the branch is checked out, 23 the folder cannot be used, 64 the command line
  cannot be understood, 130 Ctrl-C before everything was there. A second Ctrl-C ends at once.";
}
