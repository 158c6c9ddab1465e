//! The mirror of one branch: everything the operator does with Git goes through here.

mod errors;
mod pushing;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::branch_name::BranchName;
use crate::cancel::CancelToken;
use crate::clone_cache::{CloneCache, Contents, GrowthLimits, STAGED, lock_folder, remove_folder};
use crate::commit::{self, CommitFailure, blobs_below};
use crate::commit_plan::{CommitPlan, Committed, Tip};
use crate::crash_point::crash_point;
use crate::credentials::{Access, Credentials};
use crate::object_id::{BlobId, TreeId};
use crate::objects::{ObjectStore, ReadError};
use crate::process::{Git, kill_orphans};
use crate::push_progress::PushListener;
use crate::remote::{Remote, Timeouts};
use crate::remote_url::RemoteUrl;
use crate::repo_path::{FolderPath, RepoPath};
use crate::signing::Signer;
use crate::staged_blobs::StagedBlobs;
use crate::tree_snapshot::{SnapshotFailure, TreeSnapshot, read_paths, read_snapshot};

pub use errors::{CloneError, FetchError, OpenError};

/// What a mirror may use, with defaults that suit an operator.
#[derive(Debug, Clone, Default)]
pub struct MirrorOptions {
    /// How long its commands may take.
    pub timeouts: Timeouts,
    /// When its clone is replaced by a fresh one.
    pub growth: GrowthLimits,
    /// Stops its commands.
    pub cancel: CancelToken,
    /// Hears how far pushes are.
    pub on_push: Option<PushListener>,
}

/// Contents that were asked for.
#[derive(Debug, Default)]
#[must_use = "some contents may be missing"]
pub struct Blobs {
    /// What was found.
    pub found: HashMap<BlobId, Vec<u8>>,
    /// What neither the clone nor the remote has.
    pub missing: Vec<BlobId>,
}

/// The clone of one branch of one repository, and the only way to write to that branch.
///
/// # Expected flow
/// [`Self::open`] once; then for each attempt [`Self::fetch`], [`Self::snapshot`], contents into
/// [`Self::staged`], [`Self::commit`], [`Self::push`]. After `Stale` the whole attempt is repeated.
///
/// # Guarantees
/// - A push changes the branch only if it still stands where the commits were built on, so other
///   people's commits stay, and commits that somebody removed do not come back.
/// - Only paths that a plan names are changed; nothing is written through a link or submodule.
/// - Nothing of the repository is ever executed or followed: there is no work tree.
/// - The folder is a cache. Losing it, or a kill at any moment, costs a fetch.
///
/// # Caveats
/// All functions block; see the crate's documentation.
pub struct Mirror {
    git: Git,
    folder: PathBuf,
    remote: RemoteUrl,
    branch: BranchName,
    credentials: Credentials,
    options: MirrorOptions,
    staged: StagedBlobs,
    clone: Option<CloneCache>,
    /// Known since the last successful fetch or push.
    tip: Option<Tip>,
    /// Something in the clone was found to be damaged.
    damaged: bool,
    /// A push failed because of that, and none has succeeded since.
    damaged_before: bool,
    lock: File,
}

impl Mirror {
    /// Takes ownership of `folder` and looks at what is there; the network is not used. Whatever a
    /// killed owner left behind (locks, credentials, staged contents, running programs) is removed.
    ///
    /// # Errors
    /// [`OpenError`]: the folder is in use or cannot be written.
    pub fn open(
        git: Git,
        remote: RemoteUrl,
        branch: BranchName,
        folder: &Path,
        credentials: Credentials,
        options: MirrorOptions,
    ) -> Result<Self, OpenError> {
        let failed = |source| OpenError::Io {
            folder: folder.to_owned(),
            source,
        };
        let Some(lock) = lock_folder(folder).map_err(failed)? else {
            return Err(OpenError::InUse {
                folder: folder.to_owned(),
            });
        };
        // One spelling, so that the programs of an earlier owner are recognised.
        let folder = folder.canonicalize().map_err(failed)?;
        kill_orphans(&folder);
        Access::remove_leftovers(&folder).map_err(failed)?;
        for unfinished in ["fresh.git", "old.git"] {
            remove_folder(&folder.join(unfinished)).map_err(failed)?;
        }
        let staged = StagedBlobs::open(folder.join(STAGED)).map_err(failed)?;
        let clone = CloneCache::open(&folder.join("clone.git"), &remote, &branch);
        Ok(Self {
            git,
            folder,
            remote,
            branch,
            credentials,
            options,
            staged,
            clone,
            tip: None,
            damaged: false,
            damaged_before: false,
            lock,
        })
    }

    /// Removes the clone, with everything else in its folder.
    ///
    /// # Errors
    /// The folder cannot be removed.
    pub fn remove(self) -> std::io::Result<()> {
        remove_folder(&self.folder)
    }

    /// Uses these credentials from the next operation on.
    pub fn set_credentials(&mut self, credentials: Credentials) {
        self.credentials = credentials;
    }

    /// Where contents are put before a commit names them; usable while an operation is under way.
    #[must_use]
    pub fn staged(&self) -> &StagedBlobs {
        &self.staged
    }

    /// What the last fetch or push found.
    #[must_use]
    pub fn tip(&self) -> Option<Tip> {
        self.tip
    }

    /// Asks the remote whether it lets us in; nothing is fetched.
    ///
    /// # Errors
    /// [`FetchError`]
    pub fn reach(&self) -> Result<(), FetchError> {
        self.remote().ask_tip()?;
        Ok(())
    }

    /// Brings the clone to the branch's newest commit. A clone that is missing, damaged, of
    /// something else or grown is made anew beside the old one, which stays until the new one is
    /// complete.
    ///
    /// # Errors
    /// [`FetchError`]; the mirror then knows no tip until a fetch succeeds.
    pub fn fetch(&mut self) -> Result<Tip, FetchError> {
        self.tip = None;
        let limits = &self.options.growth;
        let clone = self.clone.as_ref();
        let contents = clone.map_or(Contents::OnDemand, CloneCache::contents);
        let usable = clone.is_some_and(CloneCache::is_intact) && !self.damaged;
        let grown = clone.is_some_and(|clone| !matches!(clone.has_grown(limits), Ok(false)));
        if usable && grown {
            match self.rebuild(contents) {
                // The server gives no whole clone away just now; what is new may be less.
                Err(FetchError::Remote(_)) => return self.update(),
                done => return done,
            }
        }
        if usable {
            match self.update() {
                // Whatever is wrong with the clone, a fresh one does not have it.
                Err(FetchError::Clone(_) | FetchError::Io(_)) => {}
                done => return done,
            }
        }
        self.rebuild(contents)
    }

    fn update(&mut self) -> Result<Tip, FetchError> {
        let clone = self
            .clone
            .as_ref()
            .ok_or_else(|| FetchError::Clone("there is none".to_owned()))?;
        clone.remove_leftovers()?;
        let tip = fetch_into(&self.remote(), clone)?;
        crash_point("fetch: done");
        self.accept(tip)
    }

    fn rebuild(&mut self, contents: Contents) -> Result<Tip, FetchError> {
        let fresh = self.folder.join("fresh.git");
        let created = CloneCache::create(&fresh, &self.remote, &self.branch, contents)?;
        crash_point("rebuild: created");
        let fetched = fetch_into(&self.remote(), &created);
        crash_point("rebuild: fetched");
        let tip = match fetched {
            Ok(tip) => tip,
            Err(error) => {
                // The disk may be full: give back what was taken.
                remove_folder(&fresh)?;
                if matches!(error, FetchError::Clone(_) | FetchError::Io(_)) {
                    // And what a clone takes that is to be replaced anyway.
                    self.clone = None;
                    remove_folder(&self.folder.join("clone.git"))?;
                }
                return Err(error);
            }
        };
        created.note_fresh_size()?;
        self.clone =
            Some(created.swap_into(&self.folder.join("clone.git"), &self.folder.join("old.git"))?);
        crash_point("rebuild: swapped");
        self.damaged = false;
        self.accept(tip)
    }

    /// Checks that what was fetched can be read, and makes it the base of what follows.
    fn accept(&mut self, tip: Tip) -> Result<Tip, FetchError> {
        if let (Some(clone), Some(commit)) = (&self.clone, tip.base()) {
            let store = clone.store()?;
            let read = store
                .tree_of(commit)
                .and_then(|tree| store.tree(tree, &mut Vec::new()));
            read.map_err(|error| FetchError::Clone(error.to_string()))?;
        }
        self.tip = Some(tip);
        Ok(tip)
    }

    /// The files below `folder` at the tip. Costs as much as the folder has trees, whatever the
    /// history; no content is read.
    ///
    /// # Errors
    /// [`CloneError`]
    pub fn snapshot(&mut self, folder: &FolderPath) -> Result<TreeSnapshot, CloneError> {
        self.read_tip(|store, root| read_snapshot(store, root, Some(folder)))
    }

    /// What stands at these paths at the tip. Costs as much as the folders above them have entries,
    /// however many other files there are.
    ///
    /// # Errors
    /// [`CloneError`]
    pub fn files_at(&mut self, paths: &[RepoPath]) -> Result<TreeSnapshot, CloneError> {
        self.read_tip(|store, root| read_paths(store, root, paths))
    }

    fn read_tip(
        &mut self,
        read: impl FnOnce(&ObjectStore, TreeId) -> Result<TreeSnapshot, SnapshotFailure>,
    ) -> Result<TreeSnapshot, CloneError> {
        let (clone, tip) = self.fetched()?;
        let Some(commit) = tip.base() else {
            return Ok(TreeSnapshot::default());
        };
        let store = clone.store()?;
        let result = store
            .tree_of(commit)
            .map_err(SnapshotFailure::Read)
            .and_then(|root| read(&store, root));
        result.map_err(|failure| match failure {
            SnapshotFailure::NotAFolder { path, kind } => CloneError::NotAFolder { path, kind },
            SnapshotFailure::Read(error) => self.note_damage(&error),
            SnapshotFailure::TooLarge => CloneError::Io(io::Error::other(failure.to_string())),
        })
    }

    /// Makes the commits of `plans`, one on top of the other, on the tip. A plan that would change
    /// nothing makes no commit. Nothing is on the remote before [`Self::push`].
    ///
    /// # Errors
    /// [`CloneError`]; a change that cannot be made is no error but left out ([`Committed::refused`]).
    pub fn commit(
        &mut self,
        plans: &[CommitPlan],
        signer: Option<&dyn Signer>,
    ) -> Result<Committed, CloneError> {
        let (clone, tip) = self.fetched()?;
        let result = commit::build(&clone.store()?, &clone.objects(), tip, plans, signer);
        crash_point("commit: written");
        result.map_err(|failure| match failure {
            CommitFailure::Read(error) => self.note_damage(&error),
            CommitFailure::Write(error) => CloneError::Io(error),
            CommitFailure::Sign(error) => CloneError::Signing(error),
        })
    }

    /// The contents of blobs that the tip names, fetched in one round trip where they are not here.
    /// A server that does not give single objects away makes this fetch all contents of the tip,
    /// now and from then on.
    ///
    /// # Errors
    /// [`FetchError`]
    pub fn blobs(&mut self, ids: &[BlobId]) -> Result<Blobs, FetchError> {
        let mut blobs = self.local_blobs(ids)?;
        if blobs.missing.is_empty() {
            return Ok(blobs);
        }
        let Some(clone) = &self.clone else {
            return Ok(blobs);
        };
        if clone.contents() == Contents::All {
            return Ok(blobs);
        }
        let given = self.remote().fetch_blobs(clone.path(), &blobs.missing);
        match given {
            Ok(true) => {}
            // The tip does not move under the caller's feet: it is read again after the next fetch.
            Ok(false) => {
                let before = self.tip;
                let now = self.rebuild(Contents::All)?;
                if before != Some(now) {
                    self.tip = None;
                }
            }
            Err(problem) => return Err(problem.into()),
        }
        let rest = self.local_blobs(&blobs.missing)?;
        blobs.found.extend(rest.found);
        blobs.missing = rest.missing;
        Ok(blobs)
    }

    fn local_blobs(&mut self, ids: &[BlobId]) -> Result<Blobs, FetchError> {
        let mut blobs = Blobs::default();
        let Some(clone) = &self.clone else {
            blobs.missing.extend(ids);
            return Ok(blobs);
        };
        let store = clone.store()?;
        for id in ids {
            match store.blob(*id) {
                Ok(Some(content)) => {
                    blobs.found.insert(*id, content);
                }
                Ok(None) => blobs.missing.push(*id),
                Err(error) => {
                    self.damaged = true;
                    return Err(FetchError::Clone(error.to_string()));
                }
            }
        }
        Ok(blobs)
    }

    /// Drops staged contents that `keep` does not name. Worth calling after a push with what is
    /// still to be pushed, and now and then while the remote is down.
    ///
    /// # Errors
    /// [`CloneError`]
    pub fn retain_staged(&mut self, keep: impl Fn(BlobId) -> bool) -> Result<(), CloneError> {
        let (needed, objects) = match &self.clone {
            // A server that sends all contents takes those of the tip for known, and sends others
            // as differences to them.
            Some(clone) if clone.contents() == Contents::All => {
                let Some(tip) = self.tip else {
                    return Ok(());
                };
                (self.blobs_of(tip)?, clone.objects())
            }
            Some(clone) => (HashSet::new(), clone.objects()),
            None => (HashSet::new(), PathBuf::new()),
        };
        Ok(self
            .staged
            .retain(keep, |id| needed.contains(&id), &objects)?)
    }

    fn blobs_of(&self, tip: Tip) -> Result<HashSet<BlobId>, CloneError> {
        let (Some(clone), Some(commit)) = (&self.clone, tip.base()) else {
            return Ok(HashSet::new());
        };
        let store = clone.store()?;
        let blobs = store
            .tree_of(commit)
            .and_then(|tree| blobs_below(&store, tree));
        blobs.map_err(|error| CloneError::Damaged(error.to_string()))
    }

    fn fetched(&self) -> Result<(&CloneCache, Tip), CloneError> {
        match (&self.clone, self.tip) {
            (Some(clone), Some(tip)) => Ok((clone, tip)),
            _ => Err(CloneError::NotFetched),
        }
    }

    fn note_damage(&mut self, error: &ReadError) -> CloneError {
        self.damaged = true;
        self.tip = None;
        CloneError::Damaged(error.to_string())
    }

    fn remote(&self) -> Remote<'_> {
        Remote {
            git: &self.git,
            folder: &self.folder,
            url: &self.remote,
            branch: &self.branch,
            credentials: &self.credentials,
            timeouts: self.options.timeouts,
            cancel: &self.options.cancel,
        }
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        // Closing is not enough: a program that another thread is just starting may hold a copy of
        // the file until it runs.
        let _ = self.lock.unlock();
    }
}

impl std::fmt::Debug for Mirror {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mirror")
            .field("remote", &self.remote)
            .field("branch", &self.branch)
            .field("tip", &self.tip)
            .finish_non_exhaustive()
    }
}

/// Fetches the branch, or what a new branch starts from.
fn fetch_into(remote: &Remote<'_>, clone: &CloneCache) -> Result<Tip, FetchError> {
    let tip = || {
        let tip = clone.tip()?;
        tip.ok_or_else(|| FetchError::Clone("the fetched commit is not there".to_owned()))
    };
    // Asking is cheap. Fetching a commit that is here already is not: git then makes sure that it
    // has everything below it, which takes half a second for 20,000 files.
    if let Ok(Some(known)) = clone.tip()
        && remote.ask_tip()? == Some(known)
    {
        return Ok(Tip::Branch(known));
    }
    if remote.fetch_branch(clone.path(), clone.contents())? {
        return Ok(Tip::Branch(tip()?));
    }
    if remote.fetch_default(clone.path(), clone.contents())? {
        return Ok(Tip::NewFrom(tip()?));
    }
    Ok(Tip::Empty)
}
