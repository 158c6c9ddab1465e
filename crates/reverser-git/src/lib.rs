//! The Git engine: trees in, confirmed commits out.
//!
//! [`Mirror`] is the clone of one branch and the only way to write to it. It has no work tree, so
//! links, hooks, filters and file-name limits have nothing to act on, and the cost of a commit
//! depends on what changes and not on what is there.
//!
//! # Why it blocks
//! Between two commands there is only work for the processor and the disk, which does not belong on
//! an async executor; the waiting happens in `git`. So every function blocks, has a deadline, and
//! can be stopped from elsewhere ([`CancelToken`]). An async caller gives the [`Mirror`] to
//! `spawn_blocking`; a mirror has one owner anyway. [`StagedBlobs`] is the exception: it can be
//! written to from anywhere while a push is under way.
//!
//! # What is trusted
//! Nothing that comes from the repository is executed or followed, and nothing that `git` says is
//! guessed at: output that is not known is `Unknown`, never success.

// In the order of the data's way.
// What is allowed in.
mod object_id;
mod remote_url;
mod branch_name;
mod repo_path;
mod credentials;
// Running `git`, and reading what it says.
mod cancel;
mod push_progress;
mod process;
mod porcelain;
mod remote;
// The clone and its objects.
mod clone_cache;
mod objects;
mod staged_blobs;
mod tree_snapshot;
// From a plan to commits on the remote.
mod commit_plan;
mod tree_edit;
mod signing;
mod commit;
mod push;
mod mirror;
mod crash_point;
// For a person at a terminal.
mod local_repository;
mod history;

pub use branch_name::{BadBranchName, BranchName};
pub use cancel::CancelToken;
pub use clone_cache::GrowthLimits;
pub use commit_plan::{
    BadPerson, Change, CommitPlan, CommitTime, Committed, Person, Prepared, RefusedChange, Stamp,
    Tip,
};
pub use credentials::{BadCredentials, Credentials};
pub use history::{BlamedLine, History, HistoryError, LoggedCommit};
pub use local_repository::{AtPath, LocalRepository};
pub use mirror::{Blobs, CloneError, FetchError, Mirror, MirrorOptions, OpenError};
pub use object_id::{BadObjectId, BlobId, CommitId, TreeId};
pub use porcelain::{GitVersion, Refusal, RefusalKind, RemoteFailure, UnreachableCause};
pub use process::{Git, GitUnusable};
pub use push::{BadPushOption, PushOptions, PushOutcome};
pub use push_progress::{PushListener, PushProgress};
pub use remote::Timeouts;
pub use remote_url::{BadRemoteUrl, RemoteUrl, RepositoryIdentity, Scheme};
pub use repo_path::{BadPath, FolderPath, RepoPath};
pub use signing::{BadSigningKey, Signer, SigningFailed, SshSigner};
pub use staged_blobs::{BlobBatch, StagedBlobs};
pub use tree_edit::PathRefusal;
pub use tree_snapshot::{EntryKind, SnapshotEntry, TreeSnapshot};
