//! Which cluster, which repository, which objects: flags that several commands share.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use reverser_api::git_destination::SecretsMode;

/// Which cluster.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterArguments {
    /// The file that says how to reach the cluster; left out, it is found as kubectl finds it
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// The context of that file; left out, the current one
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// Which folder of which branch of which repository.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Repository")]
pub struct RepositoryArguments {
    /// The repository: https://host/path, ssh://user@host/path, user@host:path, or a path of this
    /// machine
    #[arg(long, value_name = "URL or PATH")]
    pub repo: Option<String>,

    /// The branch
    #[arg(long, value_name = "NAME", default_value = "main")]
    pub branch: String,

    /// The folder of the branch that holds the objects; `.` is all of it
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub folder: String,

    /// Where clones are kept between runs [default: gitops-reverser in the user's cache folder]
    #[arg(long, value_name = "FOLDER")]
    pub work_dir: Option<PathBuf>,
}

/// Which objects.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Objects")]
pub struct SelectionArguments {
    /// A namespace; can be given several times or with commas; left out, the namespace of the context
    #[arg(short, long, value_name = "NAME", value_delimiter = ',')]
    pub namespace: Vec<String>,

    /// Every namespace, and the objects that live in none
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,

    /// A type, such as deployments or widgets.example.com, or `*` for every type that is worth it; can
    /// be given several times or with commas; left out, the types that people commonly write
    #[arg(long, value_name = "RESOURCE[.GROUP]", value_delimiter = ',')]
    pub include: Vec<String>,

    /// A type that is left out; can be given several times or with commas
    #[arg(long, value_name = "RESOURCE[.GROUP]", value_delimiter = ',')]
    pub exclude: Vec<String>,

    /// The labels of the objects, as kubectl has them: app=web,tier!=test,env in (a,b),!old
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub selector: Option<String>,

    /// How Secrets are written. Redacted ones keep their keys, with a keyed hash in the place of each
    /// value [default: redact; of a GitDestination, as it or the operator's flags say]
    #[arg(long, value_name = "MODE", value_enum)]
    pub secrets: Option<SecretsArgument>,

    /// The key of those hashes; the same key makes the same hashes, so keep it between runs
    /// [default: redaction.key in the user's configuration folder, made when it is missing]
    #[arg(long, value_name = "FILE")]
    pub redaction_key: Option<PathBuf>,
}

/// How Secrets are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SecretsArgument {
    /// In base64, which everyone who may read the repository can decode
    AsIs,
    /// With keyed hashes in the place of values
    Redact,
    /// Not at all
    Skip,
}

impl From<SecretsArgument> for SecretsMode {
    fn from(argument: SecretsArgument) -> Self {
        match argument {
            SecretsArgument::AsIs => Self::AsIs,
            SecretsArgument::Redact => Self::Redact,
            SecretsArgument::Skip => Self::Skip,
        }
    }
}
