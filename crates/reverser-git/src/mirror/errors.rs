//! What can go wrong with a mirror, by operation.

use std::io;
use std::path::PathBuf;

use crate::porcelain::RemoteFailure;
use crate::remote::RemoteProblem;
use crate::signing::SigningFailed;
use crate::tree_snapshot::EntryKind;

/// Why a mirror could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another mirror owns the folder, in this process or another one.
    #[error("the cache folder {} is in use by another process", folder.display())]
    InUse {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder cannot be used.
    #[error("the cache folder {} cannot be used", folder.display())]
    Io {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Why the remote's state could not be had.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The remote could not be used.
    #[error(transparent)]
    Remote(#[from] RemoteFailure),
    /// The operation was cancelled.
    #[error("the operation was cancelled")]
    Cancelled,
    /// The clone could not be written, or git failed in a way that is not known.
    #[error("the clone could not be brought up to date: {0}")]
    Clone(String),
    /// The disk.
    #[error("the cache folder could not be used")]
    Io(#[from] io::Error),
}

impl From<RemoteProblem> for FetchError {
    fn from(problem: RemoteProblem) -> Self {
        match problem {
            RemoteProblem::Failed(failure) => Self::Remote(failure),
            RemoteProblem::Cancelled => Self::Cancelled,
            RemoteProblem::Unexplained(reason) => Self::Clone(reason),
            RemoteProblem::Io(error) => Self::Io(error),
        }
    }
}

/// Why something could not be done with the clone. The next [`crate::Mirror::fetch`] makes a damaged one
/// anew.
#[derive(Debug, thiserror::Error)]
pub enum CloneError {
    /// [`crate::Mirror::fetch`] has not succeeded yet, or has failed since.
    #[error("the branch has not been fetched")]
    NotFetched,
    /// A folder, or a parent of it, is something else in the branch.
    #[error("`{path}` is {kind} in the repository, not a folder")]
    NotAFolder {
        /// From the root of the repository.
        path: String,
        /// What stands there.
        kind: EntryKind,
    },
    /// An object of the clone is missing or damaged.
    #[error("the clone is damaged and will be made anew: {0}")]
    Damaged(String),
    /// The disk.
    #[error("the cache folder could not be used")]
    Io(#[from] io::Error),
    /// No signature.
    #[error(transparent)]
    Signing(#[from] SigningFailed),
}
