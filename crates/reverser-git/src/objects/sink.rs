//! Takes objects one by one and decides at the end how they are stored.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use super::loose;
use super::pack::PackWriter;
use super::zlib::Deflater;
use crate::object_id::{ObjectKind, hash_object};

/// Up to this many objects and bytes are written loose. Below it a pack would cost more than it
/// saves; the bytes bound what is held in memory until that is known.
const LOOSE_OBJECTS: usize = 100;
const LOOSE_BYTES: usize = 4 * 1024 * 1024;

/// Objects on their way into an objects folder. Nothing is visible before [`Self::finish`].
pub(crate) struct ObjectSink {
    objects: PathBuf,
    deflater: Deflater,
    seen: HashSet<[u8; 20]>,
    waiting: Vec<(ObjectKind, [u8; 20], Vec<u8>)>,
    waiting_bytes: usize,
    pack: Option<PackWriter>,
}

impl ObjectSink {
    pub(crate) fn new(objects: &Path) -> Self {
        Self {
            objects: objects.to_owned(),
            deflater: Deflater::new(),
            seen: HashSet::new(),
            waiting: Vec::new(),
            waiting_bytes: 0,
            pack: None,
        }
    }

    /// Takes an object and says its name.
    pub(crate) fn add(&mut self, kind: ObjectKind, content: &[u8]) -> io::Result<[u8; 20]> {
        let id = hash_object(kind, content);
        if !self.seen.insert(id) {
            return Ok(id);
        }
        if let Some(pack) = &mut self.pack {
            pack.add(&mut self.deflater, kind, id, content)?;
            return Ok(id);
        }
        self.waiting_bytes += content.len();
        self.waiting.push((kind, id, content.to_vec()));
        if self.waiting.len() > LOOSE_OBJECTS || self.waiting_bytes > LOOSE_BYTES {
            let mut pack = PackWriter::create(&self.objects)?;
            for (kind, id, content) in self.waiting.drain(..) {
                pack.add(&mut self.deflater, kind, id, &content)?;
            }
            self.pack = Some(pack);
        }
        Ok(id)
    }

    /// Stores everything.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        if let Some(pack) = self.pack {
            return pack.finish();
        }
        for (kind, id, content) in &self.waiting {
            loose::write(&self.objects, &mut self.deflater, *kind, id, content)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object_id::BlobId;
    use crate::objects::ObjectStore;

    /// Stores so many objects, reads them back, and counts the files in the pack folder.
    fn files_of_packs(count: usize) -> usize {
        let folder = tempfile::tempdir().unwrap();
        let contents: Vec<Vec<u8>> = (0..count)
            .map(|i| format!("content {i}\n").repeat(i % 300).into_bytes())
            .collect();
        let mut sink = ObjectSink::new(folder.path());
        let ids: Vec<_> = contents
            .iter()
            .map(|c| sink.add(ObjectKind::Blob, c).unwrap())
            .collect();
        sink.finish().unwrap();
        let store = ObjectStore::open(folder.path()).unwrap();
        for (id, content) in ids.iter().zip(&contents) {
            let id = BlobId::from_bytes(*id);
            assert_eq!(id, BlobId::of(content));
            assert_eq!(store.blob(id).unwrap().as_ref(), Some(content));
        }
        std::fs::read_dir(folder.path().join("pack")).map_or(0, Iterator::count)
    }

    #[test]
    fn few_objects_are_loose_and_many_are_one_pack() {
        assert_eq!(files_of_packs(0), 0);
        assert_eq!(files_of_packs(90), 0);
        // One pack and its index.
        assert_eq!(files_of_packs(1000), 2);
    }

    #[test]
    fn a_large_object_goes_to_a_pack_and_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let content: Vec<u8> = (0..1_200_000_u32)
            .flat_map(|i| (i.wrapping_mul(2_654_435_761) >> 24).to_le_bytes())
            .collect();
        let mut sink = ObjectSink::new(folder.path());
        let id = BlobId::from_bytes(sink.add(ObjectKind::Blob, &content).unwrap());
        sink.finish().unwrap();
        assert!(folder.path().join("pack").exists());
        assert!(ObjectStore::open(folder.path()).unwrap().blob(id).unwrap() == Some(content));
    }
}
