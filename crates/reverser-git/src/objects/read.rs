//! Reading objects. Everything that commits are built on is checked against its name: a damaged
//! tree that went unnoticed would remove other people's files.

use std::io;
use std::path::Path;

use gix_object::{Exists as _, Find as _, Kind};

use crate::object_id::{BlobId, CommitId, ObjectKind, TreeId, hash_object};

/// Why an object could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("object {id} is missing from the clone")]
    Missing { id: String },
    #[error("object {id} in the clone is damaged: {problem}")]
    Damaged { id: String, problem: String },
}

/// The objects of one clone, and those that are staged for it.
pub(crate) struct ObjectStore {
    odb: gix_odb::Handle,
}

/// One line of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TreeEntry<'a> {
    pub(crate) mode: u32,
    pub(crate) name: &'a [u8],
    pub(crate) id: [u8; 20],
}

impl ObjectStore {
    /// Opens an objects folder. Cheap: indices are read when they are needed.
    pub(crate) fn open(objects: &Path) -> io::Result<Self> {
        Ok(Self {
            odb: gix_odb::at(objects, gix_hash::Kind::Sha1)?,
        })
    }

    pub(crate) fn has_blob(&self, id: BlobId) -> bool {
        self.odb.exists(&id.to_gix())
    }

    /// The content of a blob, if it is here.
    pub(crate) fn blob(&self, id: BlobId) -> Result<Option<Vec<u8>>, ReadError> {
        let mut content = Vec::new();
        match self.find(id.as_bytes(), ObjectKind::Blob, &mut content) {
            Ok(()) => Ok(Some(content)),
            Err(ReadError::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The tree of a commit.
    pub(crate) fn tree_of(&self, commit: CommitId) -> Result<TreeId, ReadError> {
        let mut content = Vec::new();
        self.find(commit.as_bytes(), ObjectKind::Commit, &mut content)?;
        let line = content
            .split(|byte| *byte == b'\n')
            .next()
            .unwrap_or_default();
        let id = line
            .strip_prefix(b"tree ")
            .and_then(|hex| std::str::from_utf8(hex).ok()?.parse().ok());
        id.ok_or_else(|| damaged(commit.as_bytes(), "it names no tree"))
    }

    /// Reads a tree into `buffer`; [`entries`] takes it apart.
    pub(crate) fn tree(&self, id: TreeId, buffer: &mut Vec<u8>) -> Result<(), ReadError> {
        self.find(id.as_bytes(), ObjectKind::Tree, buffer)
    }

    /// Finds an object, checks its kind and its name, and leaves its content in `buffer`.
    fn find(&self, id: &[u8; 20], kind: ObjectKind, buffer: &mut Vec<u8>) -> Result<(), ReadError> {
        let gix_id = gix_hash::ObjectId::from_bytes_or_panic(id);
        let expected = match kind {
            ObjectKind::Commit => Kind::Commit,
            ObjectKind::Tree => Kind::Tree,
            ObjectKind::Blob => Kind::Blob,
        };
        let mut scratch = Vec::new();
        buffer.clear();
        match self.odb.try_find(&gix_id, &mut scratch) {
            Err(error) => Err(damaged(id, &error.to_string())),
            Ok(None) if kind == ObjectKind::Tree && *id == EMPTY_TREE => Ok(()),
            Ok(None) => Err(ReadError::Missing {
                id: gix_id.to_string(),
            }),
            Ok(Some(data)) if data.kind != expected => Err(damaged(id, "it is of another kind")),
            Ok(Some(data)) if hash_object(kind, data.data) != *id => {
                Err(damaged(id, "its content does not match its name"))
            }
            Ok(Some(data)) => {
                buffer.extend_from_slice(data.data);
                Ok(())
            }
        }
    }
}

/// Git knows it without having it.
const EMPTY_TREE: [u8; 20] = [
    0x4b, 0x82, 0x5d, 0xc6, 0x42, 0xcb, 0x6e, 0xb9, 0xa0, 0x60, 0xe5, 0x4b, 0xf8, 0xd6, 0x92, 0x88,
    0xfb, 0xee, 0x49, 0x04,
];

/// The lines of a tree, in Git's order.
pub(crate) fn entries(tree: &[u8]) -> impl Iterator<Item = Result<TreeEntry<'_>, ReadError>> {
    let mut rest = tree;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let entry = split_entry(&mut rest);
        if entry.is_none() {
            rest = &[];
        }
        Some(entry.ok_or_else(|| {
            damaged(
                &hash_object(ObjectKind::Tree, tree),
                "a line of the tree is malformed",
            )
        }))
    })
}

fn split_entry<'a>(rest: &mut &'a [u8]) -> Option<TreeEntry<'a>> {
    let space = rest.iter().position(|byte| *byte == b' ')?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    let mode = std::str::from_utf8(rest.get(..space)?).ok()?;
    let mode = u32::from_str_radix(mode, 8).ok()?;
    let name = rest.get(space + 1..end)?;
    let id = rest.get(end + 1..end + 21)?.try_into().ok()?;
    *rest = &rest[end + 21..];
    Some(TreeEntry { mode, name, id })
}

pub(crate) fn damaged(id: &[u8; 20], problem: &str) -> ReadError {
    let id = gix_hash::ObjectId::from_bytes_or_panic(id).to_string();
    ReadError::Damaged {
        id,
        problem: problem.to_owned(),
    }
}
