//! Contents on their way into commits.
//!
//! They lie beside the clone, which finds them as an alternate: the clone can be rebuilt or swapped
//! without losing them, and they can be written while a push is under way.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clone_cache::remove_folder;
use crate::object_id::{BlobId, ObjectKind};
use crate::objects::{ObjectSink, pack_object_ids};

/// Where file contents are put before a commit names them. Cheap to clone, usable from any thread.
///
/// # Guarantees
/// A content whose id was returned by [`Self::write`] or whose batch was finished is there for
/// [`crate::Mirror::commit`], until [`crate::Mirror::retain_staged`] drops it or the folder is found
/// to be damaged; then the commit says that the content is missing.
///
/// # Caveats
/// Nothing is flushed to the disk: after a power failure the folder counts as lost.
#[derive(Clone, Debug)]
pub struct StagedBlobs {
    objects: PathBuf,
    // Keeps a retain from removing what a write has just found to be there.
    gate: Arc<Mutex<()>>,
}

impl StagedBlobs {
    /// Starts empty: what an earlier owner staged is unknown to this one, and may be damaged.
    pub(crate) fn open(objects: PathBuf) -> io::Result<Self> {
        remove_folder(&objects)?;
        fs::create_dir_all(&objects)?;
        Ok(Self {
            objects,
            gate: Arc::new(Mutex::new(())),
        })
    }

    /// Drops everything.
    pub(crate) fn clear(&self) -> io::Result<()> {
        let _gate = locked(&self.gate);
        remove_folder(&self.objects)?;
        fs::create_dir_all(&self.objects)
    }

    /// Stores one content.
    pub fn write(&self, content: &[u8]) -> io::Result<BlobId> {
        let mut batch = self.batch();
        let id = batch.write(content)?;
        batch.finish()?;
        Ok(id)
    }

    /// Stores many contents at once: a large batch becomes one pack, and memory does not grow with
    /// the contents.
    #[must_use]
    pub fn batch(&self) -> BlobBatch {
        BlobBatch {
            sink: ObjectSink::new(&self.objects),
            gate: self.gate.clone(),
        }
    }

    /// Drops what `keep` does not name. `absorb` is asked about each; what it wants goes to
    /// `clone_objects` instead.
    pub(crate) fn retain(
        &self,
        keep: impl Fn(BlobId) -> bool,
        absorb: impl Fn(BlobId) -> bool,
        clone_objects: &Path,
    ) -> io::Result<()> {
        let _gate = locked(&self.gate);
        for folder in fs::read_dir(&self.objects)? {
            let folder = folder?;
            let name = folder.file_name().to_string_lossy().into_owned();
            if name == "pack" {
                retain_packs(&folder.path(), &keep, &absorb, clone_objects)?;
                continue;
            }
            for file in fs::read_dir(folder.path())? {
                let file = file?;
                let hex = format!("{name}{}", file.file_name().to_string_lossy());
                let Ok(id) = hex.parse::<BlobId>() else {
                    continue;
                };
                if absorb(id) {
                    let target = clone_objects.join(&name);
                    fs::create_dir_all(&target)?;
                    fs::rename(file.path(), target.join(file.file_name()))?;
                } else if !keep(id) {
                    fs::remove_file(file.path())?;
                }
            }
        }
        Ok(())
    }
}

/// A pack goes only as a whole: when nothing in it is wanted any more.
fn retain_packs(
    folder: &Path,
    keep: &impl Fn(BlobId) -> bool,
    absorb: &impl Fn(BlobId) -> bool,
    clone_objects: &Path,
) -> io::Result<()> {
    for file in fs::read_dir(folder)? {
        let index = file?.path();
        if index.extension().is_none_or(|extension| extension != "idx") {
            continue;
        }
        let ids: HashSet<BlobId> = pack_object_ids(&fs::read(&index)?)
            .unwrap_or_default()
            .into_iter()
            .map(BlobId::from_bytes)
            .collect();
        let pack = index.with_extension("pack");
        if ids.iter().any(|id| keep(*id)) {
            continue;
        }
        if ids.iter().any(|id| absorb(*id)) {
            let target = clone_objects.join("pack");
            fs::create_dir_all(&target)?;
            for file in [&pack, &index] {
                fs::rename(
                    file,
                    target.join(file.file_name().expect("a file of the folder")),
                )?;
            }
        } else {
            // The index first: without it the pack is invisible.
            fs::remove_file(&index)?;
            fs::remove_file(&pack)?;
        }
    }
    Ok(())
}

/// Contents that become visible together.
pub struct BlobBatch {
    sink: ObjectSink,
    gate: Arc<Mutex<()>>,
}

impl BlobBatch {
    /// Takes one content. It counts only once [`Self::finish`] has returned.
    pub fn write(&mut self, content: &[u8]) -> io::Result<BlobId> {
        self.sink
            .add(ObjectKind::Blob, content)
            .map(BlobId::from_bytes)
    }

    /// Stores the batch.
    pub fn finish(self) -> io::Result<()> {
        let _gate = locked(&self.gate);
        self.sink.finish()
    }
}

fn locked(gate: &Mutex<()>) -> MutexGuard<'_, ()> {
    // It guards files, not a value that a panic could leave half-changed.
    gate.lock().unwrap_or_else(PoisonError::into_inner)
}
