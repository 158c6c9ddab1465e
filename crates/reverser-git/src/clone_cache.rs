//! The bare clone on disk: a disposable cache that is checked when it is opened, rebuilt when it is
//! damaged, and swapped for a fresh one when it has grown.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use crate::branch_name::BranchName;
use crate::object_id::CommitId;
use crate::objects::ObjectStore;
use crate::remote_url::RemoteUrl;

/// When a clone counts as grown. Every one-file commit leaves its trees behind; above this, fetching
/// afresh is cheaper than carrying them along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrowthLimits {
    /// Each costs a file.
    pub loose_objects: usize,
    /// Each costs every command a look at its index; every foreign commit that is fetched adds one.
    pub packs: usize,
    /// Of all objects together, beyond what the clone had when it was fresh.
    pub bytes: u64,
}

impl Default for GrowthLimits {
    fn default() -> Self {
        Self {
            loose_objects: 5_000,
            packs: 100,
            bytes: 256 * 1024 * 1024,
        }
    }
}

/// Whether the contents of files are fetched with the trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contents {
    /// Only those that somebody asks for (`--filter=blob:none`), where the server can.
    OnDemand,
    /// All of them: the server does not give single objects away.
    All,
}

/// The ref of the clone that follows the branch.
pub(crate) const TIP_REF: &str = "refs/mirror/tip";

/// Changes when a newer version could misread a clone of an older one.
const FORMAT: &str = "gitops-reverser clone 1";

// Nothing that Git would act on: whatever a command needs is in its environment.
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n";

/// The name of the folder beside the clone whose objects count as its own.
pub(crate) const STAGED: &str = "staged";

/// The file that says how many bytes of objects the clone had when it was fresh.
const FRESH_SIZE: &str = "fresh-size";

/// How much a clone holds.
struct Size {
    loose: usize,
    packs: usize,
    bytes: u64,
}

/// One clone of one branch.
pub(crate) struct CloneCache {
    path: PathBuf,
    contents: Contents,
    /// The files that are written once and never changed: path and content.
    fixed: [(&'static str, String); 4],
}

impl CloneCache {
    fn at(path: &Path, remote: &RemoteUrl, branch: &BranchName, contents: Contents) -> Self {
        let fixed = [
            ("HEAD", "ref: refs/heads/none\n".to_owned()),
            ("config", CONFIG.to_owned()),
            ("objects/info/alternates", format!("../../{STAGED}\n")),
            // Last: without it the clone does not count.
            ("origin", origin(remote, branch, contents)),
        ];
        Self {
            path: path.to_owned(),
            contents,
            fixed,
        }
    }

    /// Makes an empty clone.
    pub(crate) fn create(
        path: &Path,
        remote: &RemoteUrl,
        branch: &BranchName,
        contents: Contents,
    ) -> io::Result<Self> {
        remove_folder(path)?;
        for folder in ["objects/info", "objects/pack", "refs/heads", "refs/mirror"] {
            fs::create_dir_all(path.join(folder))?;
        }
        let clone = Self::at(path, remote, branch, contents);
        for (name, content) in &clone.fixed {
            fs::write(path.join(name), content)?;
        }
        Ok(clone)
    }

    /// Opens a clone of this branch. `None` if there is none, or one of something else, or one
    /// whose files have been tampered with; then it is to be made again.
    pub(crate) fn open(path: &Path, remote: &RemoteUrl, branch: &BranchName) -> Option<Self> {
        [Contents::OnDemand, Contents::All]
            .into_iter()
            .map(|contents| Self::at(path, remote, branch, contents))
            .find(Self::is_intact)
    }

    /// Whether the files that never change are as they were written. Git tells a damaged one only
    /// when it needs it, and not always as what it is.
    pub(crate) fn is_intact(&self) -> bool {
        self.fixed.iter().all(|(name, content)| {
            fs::read(self.path.join(name)).is_ok_and(|found| found == content.as_bytes())
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn objects(&self) -> PathBuf {
        self.path.join("objects")
    }

    pub(crate) fn contents(&self) -> Contents {
        self.contents
    }

    /// Its objects, as they are now. Opened for each use: that is cheap, and what was opened once
    /// does not know what has been written since.
    pub(crate) fn store(&self) -> io::Result<ObjectStore> {
        ObjectStore::open(&self.objects())
    }

    /// Where the tip ref stands.
    pub(crate) fn tip(&self) -> io::Result<Option<CommitId>> {
        match fs::read_to_string(self.path.join(TIP_REF)) {
            Ok(text) => text.trim().parse().map(Some).map_err(io::Error::other),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Moves the tip ref, so that the next fetch need not bring what was pushed.
    pub(crate) fn set_tip(&self, tip: CommitId) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.path)?;
        writeln!(file, "{tip}")?;
        file.persist(self.path.join(TIP_REF))
            .map(drop)
            .map_err(|error| error.error)
    }

    /// Removes the lock and temporary files of commands that were killed. The clone has one owner,
    /// so no living command holds them.
    pub(crate) fn remove_leftovers(&self) -> io::Result<()> {
        for folder in [
            "",
            "refs",
            "refs/mirror",
            "refs/heads",
            "objects/info",
            "objects/pack",
        ] {
            let Ok(files) = fs::read_dir(self.path.join(folder)) else {
                continue;
            };
            for file in files {
                let file = file?;
                let name = file.file_name().to_string_lossy().into_owned();
                let is_lock = Path::new(&name)
                    .extension()
                    .is_some_and(|extension| extension == "lock");
                if is_lock || name.starts_with("tmp_") || name.starts_with(".tmp") {
                    remove_any(&file.path())?;
                }
            }
        }
        Ok(())
    }

    /// Remembers the size of a clone that was just fetched: however large it is, a fresh one would be
    /// no smaller.
    pub(crate) fn note_fresh_size(&self) -> io::Result<()> {
        let Size { bytes, .. } = self.size()?;
        fs::write(self.path.join(FRESH_SIZE), bytes.to_string())
    }

    /// Whether a fresh clone would be cheaper.
    pub(crate) fn has_grown(&self, limits: &GrowthLimits) -> io::Result<bool> {
        let fresh = fs::read_to_string(self.path.join(FRESH_SIZE)).unwrap_or_default();
        let fresh: u64 = fresh.parse().unwrap_or_default();
        let size = self.size()?;
        Ok(size.loose > limits.loose_objects
            || size.packs > limits.packs
            || size.bytes.saturating_sub(fresh) > limits.bytes)
    }

    fn size(&self) -> io::Result<Size> {
        let (mut loose, mut packs, mut bytes) = (0, 0, 0);
        for folder in fs::read_dir(self.objects())? {
            let folder = folder?;
            let is_packs = folder.file_name() == "pack";
            for file in fs::read_dir(folder.path())? {
                let file = file?;
                if is_packs {
                    bytes += file.metadata()?.len();
                    packs += usize::from(file.path().extension().is_some_and(|e| e == "pack"));
                } else {
                    // A block each; asking for every size would cost more than it tells.
                    bytes += 4096;
                    loose += 1;
                }
            }
        }
        Ok(Size {
            loose,
            packs,
            bytes,
        })
    }

    /// Puts this clone into `place`, and what was there first to `old` and then away. A crash in between leaves one of them, or neither.
    pub(crate) fn swap_into(mut self, place: &Path, old: &Path) -> io::Result<Self> {
        remove_folder(old)?;
        match fs::rename(place, old) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        crate::crash_point::crash_point("swap: old moved away");
        fs::rename(&self.path, place)?;
        remove_folder(old)?;
        place.clone_into(&mut self.path);
        Ok(self)
    }
}

fn origin(remote: &RemoteUrl, branch: &BranchName, contents: Contents) -> String {
    let contents = match contents {
        Contents::OnDemand => "on demand",
        Contents::All => "all",
    };
    format!("{FORMAT}\nurl {remote}\nbranch {branch}\ncontents {contents}\n")
}

/// Removes a folder if it is there.
pub(crate) fn remove_folder(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        // A file in the place of the folder.
        Err(error) if error.kind() == ErrorKind::NotADirectory => fs::remove_file(path),
        other => other,
    }
}

fn remove_any(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    }
}

/// Takes the folder for this process, until the file is closed. The kernel lets go of it when the
/// process dies, however it dies.
pub(crate) fn lock_folder(folder: &Path) -> io::Result<Option<File>> {
    fs::create_dir_all(folder)?;
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(folder.join("lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}
