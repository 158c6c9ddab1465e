//! Contents that the remote has not confirmed yet.

use std::collections::{HashMap, HashSet};

use reverser_core::blob_id::BlobId;
use reverser_git::{EntryKind, Mirror, RepoPath, StagedBlobs};

/// So many bytes of contents wait in memory for one branch; more go to the disk, so that a remote
/// that is down for hours costs no memory.
pub(super) const WAITING_BYTES: usize = 8 << 20;

/// Contents in memory, and the ids of those that were moved to the disk.
#[derive(Default)]
pub(super) struct Contents {
    memory: HashMap<BlobId, Box<str>>,
    bytes: usize,
    /// With their size.
    staged: HashMap<BlobId, usize>,
}

impl Contents {
    pub(super) fn insert(&mut self, blob: BlobId, content: Box<str>) {
        let bytes = content.len();
        if self.memory.insert(blob, content).is_none() {
            self.bytes += bytes;
        }
    }

    /// How many bytes are in memory.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn get(&self, blob: BlobId) -> Option<&str> {
        self.memory.get(&blob).map(|content| &**content)
    }

    pub(super) fn size_of(&self, blob: BlobId) -> usize {
        let in_memory = self.memory.get(&blob).map(|content| content.len());
        in_memory
            .or_else(|| self.staged.get(&blob).copied())
            .unwrap_or_default()
    }

    /// Whether a content can still be written.
    pub(super) fn holds(&self, blob: BlobId) -> bool {
        self.memory.contains_key(&blob) || self.staged.contains_key(&blob)
    }

    /// What was moved to the disk.
    pub(super) fn staged(&self) -> impl Iterator<Item = BlobId> {
        self.staged.keys().copied()
    }

    /// Takes what another has, too.
    pub(super) fn merge(&mut self, other: Self) {
        for (blob, content) in other.memory {
            self.insert(blob, content);
        }
        self.staged.extend(other.staged);
    }

    /// Forgets what is in memory, unless it is to be kept.
    pub(super) fn retain_in_memory(&mut self, keep: &HashSet<BlobId>) {
        self.memory.retain(|blob, _| keep.contains(blob));
        self.bytes = self.memory.values().map(|content| content.len()).sum();
    }

    /// Forgets what is in memory.
    pub(super) fn forget_memory(&mut self) {
        self.memory = HashMap::new();
        self.bytes = 0;
    }

    pub(super) fn retain(&mut self, keep: &HashSet<BlobId>) {
        self.retain_in_memory(keep);
        self.staged.retain(|blob, _| keep.contains(blob));
    }

    /// Writes what is in memory to the disk; it stays in memory too.
    pub(super) fn stage(&self, staged: &StagedBlobs) -> std::io::Result<()> {
        write(self.memory.values(), staged)
    }

    /// The same for these alone.
    pub(super) fn stage_only(
        &self,
        blobs: &HashSet<BlobId>,
        staged: &StagedBlobs,
    ) -> std::io::Result<()> {
        let contents = blobs.iter().filter_map(|blob| self.memory.get(blob));
        write(contents, staged)
    }

    /// What is in memory is on the disk, so it need not be here.
    pub(super) fn leave_to_disk(&mut self) {
        let memory = std::mem::take(&mut self.memory);
        self.bytes = 0;
        self.staged
            .extend(memory.into_iter().map(|(blob, text)| (blob, text.len())));
    }
}

/// Which of these contents the tip of the branch does not have where they belong; nothing if that cannot
/// be read.
pub(super) fn missing_from(
    mut mirror: Mirror,
    files: &[(String, BlobId)],
) -> (Mirror, Option<HashSet<BlobId>>) {
    let paths: Result<Vec<RepoPath>, _> = files
        .iter()
        .map(|(path, _)| RepoPath::parse(path))
        .collect();
    let there = paths.ok().and_then(|paths| mirror.files_at(&paths).ok());
    let missing = there.map(|there| {
        let there: HashSet<(&[u8], [u8; 20])> = there
            .iter()
            .filter(|entry| entry.kind == EntryKind::File)
            .filter_map(|entry| Some((entry.path, *entry.blob?.as_bytes())))
            .collect();
        let is_missing = |(path, blob): &&(String, BlobId)| {
            !there.contains(&(path.as_bytes(), *blob.as_bytes()))
        };
        files
            .iter()
            .filter(is_missing)
            .map(|(_, blob)| *blob)
            .collect()
    });
    (mirror, missing)
}

fn write<'c>(
    contents: impl IntoIterator<Item = &'c Box<str>>,
    staged: &StagedBlobs,
) -> std::io::Result<()> {
    let mut contents = contents.into_iter().peekable();
    if contents.peek().is_none() {
        return Ok(());
    }
    let mut batch = staged.batch();
    for content in contents {
        batch.write(content.as_bytes())?;
    }
    batch.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_once_and_leave_with_their_contents() {
        let mut contents = Contents::default();
        let blob = |text: &str| BlobId::of(text.as_bytes());
        contents.insert(blob("abc"), "abc".into());
        contents.insert(blob("abc"), "abc".into());
        contents.insert(blob("de"), "de".into());
        assert_eq!(contents.bytes(), 5);
        contents.retain(&HashSet::from([blob("de")]));
        assert_eq!(contents.bytes(), 2);
        contents.leave_to_disk();
        assert_eq!((contents.bytes(), contents.size_of(blob("de"))), (0, 2));
        assert!(contents.staged().eq([blob("de")]) && contents.get(blob("de")).is_none());
    }
}
