//! What writers are told once, and how they get at their repositories.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use reverser_core::blob_id::BlobId;
use reverser_core::commit_message::Installation;
use reverser_core::window::Limits;
use reverser_git::{
    CancelToken, Credentials, Git, Mirror, MirrorOptions, OpenError, Person, PushListener, Signer,
};

use crate::routing::{Refusal, Target};

/// With what a repository is written.
#[derive(Clone)]
pub struct Access {
    /// Lets us in.
    pub credentials: Credentials,
    /// Signs commits, if they are to be signed.
    pub signer: Option<Arc<dyn Signer>>,
}

/// Where a writer gets its access from, anew for each attempt, so that rotated keys are used.
pub type AccessSource = Arc<dyn Fn() -> BoxFuture<'static, Result<Access, Refusal>> + Send + Sync>;

/// What all writers have in common.
#[derive(Clone, Debug)]
pub struct WriterSettings {
    /// The program.
    pub git: Git,
    /// Stops it.
    pub cut_off: CancelToken,
    /// Where clones are kept.
    pub work_dir: PathBuf,
    /// When a batch ends.
    pub limits: Limits,
    /// How often a quiet remote is asked for its tip.
    pub poll: Duration,
    /// How many files go in one cycle, at most.
    pub deletes_cap: Option<usize>,
    /// How long a batch waits for the names of its changes, where they are to be expected.
    pub grace: Duration,
    /// Who writes commits.
    pub committer: Person,
    /// Which installation writes.
    pub installation: Installation,
    /// Whether folders are marked as that installation's, and those of others left to them.
    pub marks_folders: bool,
    /// Hears how far pushes are.
    pub on_push: Option<PushListener>,
}

impl WriterSettings {
    /// The folder of a branch's clone: anything may stand in URLs and branches, so a hash names it.
    pub(super) fn folder_of(&self, target: &Target) -> PathBuf {
        let name = format!(
            "{}\n{}\n{}",
            target.url.as_str(),
            target.branch.as_str(),
            target.repo
        );
        self.work_dir.join(BlobId::of(name.as_bytes()).to_string())
    }

    pub(super) fn open(&self, target: &Target) -> Result<Mirror, OpenError> {
        Mirror::open(
            self.git.clone(),
            target.url.clone(),
            target.branch.clone(),
            &self.folder_of(target),
            Credentials::anonymous(),
            MirrorOptions {
                cancel: self.cut_off.clone(),
                on_push: self.on_push.clone(),
                ..MirrorOptions::default()
            },
        )
    }
}
