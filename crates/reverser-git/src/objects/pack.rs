//! Many objects, one pack with its index (version 2 of both).

use std::fs;
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use sha1::{Digest, Sha1};
use tempfile::NamedTempFile;

use super::zlib::Deflater;
use crate::object_id::ObjectKind;

const HEADER_LEN: u64 = 12;

/// A pack that is being written; invisible until [`PackWriter::finish`].
pub(super) struct PackWriter {
    folder: PathBuf,
    file: BufWriter<NamedTempFile>,
    offset: u64,
    entries: Vec<IndexEntry>,
}

struct IndexEntry {
    id: [u8; 20],
    crc: u32,
    offset: u64,
}

impl PackWriter {
    pub(super) fn create(objects: &Path) -> io::Result<Self> {
        let folder = objects.join("pack");
        fs::create_dir_all(&folder)?;
        let file = tempfile::Builder::new()
            .prefix("tmp_pack_")
            .tempfile_in(&folder)?;
        let mut file = BufWriter::with_capacity(128 * 1024, file);
        // The number of objects is filled in at the end.
        file.write_all(b"PACK\0\0\0\x02\0\0\0\0")?;
        Ok(Self {
            folder,
            file,
            offset: HEADER_LEN,
            entries: Vec::new(),
        })
    }

    /// Appends an object that the pack does not hold yet.
    pub(super) fn add(
        &mut self,
        deflater: &mut Deflater,
        kind: ObjectKind,
        id: [u8; 20],
        content: &[u8],
    ) -> io::Result<()> {
        let compressed = deflater.deflate(&[content])?;
        let (header, header_len) = entry_header(kind, content.len());
        let header = &header[..header_len];
        let mut crc = crc32fast::Hasher::new();
        crc.update(header);
        crc.update(compressed);
        self.file.write_all(header)?;
        self.file.write_all(compressed)?;
        self.entries.push(IndexEntry {
            id,
            crc: crc.finalize(),
            offset: self.offset,
        });
        self.offset += (header.len() + compressed.len()) as u64;
        Ok(())
    }

    /// Makes the pack visible: first the objects, then the index that Git looks for.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.entries.sort_unstable_by_key(|entry| entry.id);
        let count = u32::try_from(self.entries.len()).map_err(io::Error::other)?;
        let mut file = self
            .file
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        file.seek(SeekFrom::Start(8))?;
        file.write_all(&count.to_be_bytes())?;
        // The checksum covers the number of objects, which was not known before.
        let checksum = hash_from_start(file.as_file_mut())?;
        file.write_all(&checksum)?;
        let index = index_bytes(&self.entries, &checksum);
        let mut index_file = tempfile::Builder::new()
            .prefix("tmp_idx_")
            .tempfile_in(&self.folder)?;
        index_file.write_all(&index)?;
        let name = format!(
            "pack-{}",
            gix_hash::ObjectId::from_bytes_or_panic(&checksum)
        );
        persist(file, &self.folder.join(format!("{name}.pack")))?;
        persist(index_file, &self.folder.join(format!("{name}.idx")))
    }
}

fn persist(file: NamedTempFile, path: &Path) -> io::Result<()> {
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// Kind and length, seven bits at a time. Returns the bytes and how many of them count.
fn entry_header(kind: ObjectKind, len: usize) -> ([u8; 10], usize) {
    let mut bytes = [0; 10];
    #[allow(
        clippy::cast_possible_truncation,
        reason = "masked to the bits that are kept"
    )]
    let low = |value: usize, mask: usize| (value & mask) as u8;
    bytes[0] = kind.in_pack() << 4 | low(len, 0x0f);
    let mut rest = len >> 4;
    let mut used = 1;
    while rest > 0 {
        bytes[used - 1] |= 0x80;
        bytes[used] = low(rest, 0x7f);
        rest >>= 7;
        used += 1;
    }
    (bytes, used)
}

fn hash_from_start(file: &mut fs::File) -> io::Result<[u8; 20]> {
    file.seek(SeekFrom::Start(0))?;
    let mut hasher = Sha1::new();
    let mut reader = BufReader::with_capacity(0, file);
    let mut buffer = vec![0; 128 * 1024];
    loop {
        let read = reader.read(&mut buffer)?;
        if read == 0 {
            return Ok(hasher.finalize().into());
        }
        hasher.update(&buffer[..read]);
    }
}

/// The index of a pack, for entries sorted by name.
fn index_bytes(entries: &[IndexEntry], pack_checksum: &[u8; 20]) -> Vec<u8> {
    let mut out = Vec::with_capacity(1072 + entries.len() * 28);
    out.extend(b"\xfftOc\0\0\0\x02");
    let mut below = 0;
    for first_byte in 0..=255u8 {
        below += entries[below..]
            .iter()
            .take_while(|entry| entry.id[0] == first_byte)
            .count();
        out.extend(
            u32::try_from(below)
                .expect("checked by the caller")
                .to_be_bytes(),
        );
    }
    for entry in entries {
        out.extend(entry.id);
    }
    for entry in entries {
        out.extend(entry.crc.to_be_bytes());
    }
    // Offsets of 31 bits; larger ones go to a second table.
    let mut large = Vec::new();
    for entry in entries {
        let offset = u32::try_from(entry.offset)
            .ok()
            .filter(|offset| offset >> 31 == 0);
        let value = offset.unwrap_or_else(|| {
            large.push(entry.offset);
            (1 << 31) | u32::try_from(large.len() - 1).expect("fewer than the entries")
        });
        out.extend(value.to_be_bytes());
    }
    for offset in large {
        out.extend(offset.to_be_bytes());
    }
    out.extend(pack_checksum);
    out.extend(Sha1::digest(&out));
    out
}

/// The names in an index that was written here.
pub(crate) fn object_ids(index: &[u8]) -> Option<Vec<[u8; 20]>> {
    let count = index.get(8 + 255 * 4..8 + 256 * 4)?;
    let count = usize::try_from(u32::from_be_bytes(count.try_into().ok()?)).ok()?;
    let names = index.get(8 + 256 * 4..)?.get(..count.checked_mul(20)?)?;
    Some(
        names
            .chunks_exact(20)
            .filter_map(|name| name.try_into().ok())
            .collect(),
    )
}
