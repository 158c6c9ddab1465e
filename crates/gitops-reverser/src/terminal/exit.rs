//! How a command ends when it does not end well: a sentence with the cure, and a number for scripts.

use std::fmt;
use std::process::ExitCode;

/// The numbers that scripts see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Something that has no number of its own; for `verify`, that there are differences.
    Failed = 1,
    /// Not everything that was asked for could be read or written.
    Partial = 2,
    /// No kubeconfig.
    NoKubeconfig = 10,
    /// The kubeconfig has no such context.
    NoSuchContext = 11,
    /// The cluster does not answer.
    ClusterUnreachable = 12,
    /// The cluster does not accept who we are (any more).
    CredentialsRefused = 13,
    /// No such namespace.
    NoSuchNamespace = 14,
    /// No such type.
    NoSuchType = 15,
    /// No such object in the repository.
    NoSuchObject = 16,
    /// The repository is none, or cannot be reached.
    RepositoryUnusable = 20,
    /// The repository does not let us in, or refuses what is pushed.
    RepositoryRefused = 21,
    /// The branch is checked out in a work tree.
    BranchCheckedOut = 22,
    /// The folder cannot be used, or belongs to another tool.
    FolderUnusable = 23,
    /// The command line cannot be understood.
    Usage = 64,
    /// Ctrl-C.
    Interrupted = 130,
}

/// Why a command did not do what it was asked, and with which number it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// For scripts.
    pub exit: Exit,
    /// For people: what is wrong, and what would help.
    pub sentence: String,
}

impl Complaint {
    /// A complaint.
    pub fn new(exit: Exit, sentence: impl Into<String>) -> Self {
        Self {
            exit,
            sentence: sentence.into(),
        }
    }

    /// Something that has no number of its own.
    pub fn failed(error: impl fmt::Display) -> Self {
        Self::new(Exit::Failed, error.to_string())
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Complaint {}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The end of a command: what it decided, or its complaint on standard error.
#[must_use]
pub fn end(result: Result<ExitCode, Complaint>) -> ExitCode {
    result.unwrap_or_else(|complaint| {
        eprintln!("error: {complaint}");
        complaint.exit.into()
    })
}
