//! The files of a folder as path → (kind, blob id), read from trees alone.

use std::collections::HashMap;
use std::fmt;

use crate::object_id::{BlobId, TreeId};
use crate::objects::{ObjectStore, ReadError, entries};
use crate::repo_path::{FolderPath, RepoPath};

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A plain file.
    File,
    /// A file with the executable bit.
    Executable,
    /// A symbolic link; its blob holds the target, which nothing here follows.
    Symlink,
    /// A submodule; it has no content in this repository.
    Submodule,
}

impl fmt::Display for EntryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File | Self::Executable => "a file",
            Self::Symlink => "a symbolic link",
            Self::Submodule => "a submodule",
        })
    }
}

/// What a line of a tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineKind {
    Folder,
    Leaf(EntryKind),
}

pub(crate) fn line_kind(mode: u32) -> LineKind {
    match mode & 0o170_000 {
        0o040_000 => LineKind::Folder,
        0o120_000 => LineKind::Leaf(EntryKind::Symlink),
        0o160_000 => LineKind::Leaf(EntryKind::Submodule),
        _ if mode & 0o111 != 0 => LineKind::Leaf(EntryKind::Executable),
        _ => LineKind::Leaf(EntryKind::File),
    }
}

/// Everything below one folder of one commit, sorted by path.
///
/// Paths start at the root of the repository and are bytes: a foreign file need not be UTF-8.
#[derive(Default)]
pub struct TreeSnapshot {
    // One buffer for all paths: a vector of strings would take twice the memory.
    paths: Vec<u8>,
    rows: Vec<Row>,
}

struct Row {
    start: u32,
    len: u32,
    kind: EntryKind,
    id: [u8; 20],
}

/// One file of a [`TreeSnapshot`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotEntry<'a> {
    /// From the root of the repository.
    pub path: &'a [u8],
    /// What stands there.
    pub kind: EntryKind,
    /// Its content; none for a submodule.
    pub blob: Option<BlobId>,
}

impl TreeSnapshot {
    /// How many files there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All files, sorted by path.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = SnapshotEntry<'_>> {
        self.rows.iter().map(|row| self.entry(row))
    }

    /// What stands at `path`.
    #[must_use]
    pub fn get(&self, path: &RepoPath) -> Option<SnapshotEntry<'_>> {
        let wanted = path.as_str().as_bytes();
        let found = self.rows.binary_search_by(|row| self.path(row).cmp(wanted));
        found.ok().map(|index| self.entry(&self.rows[index]))
    }

    fn path(&self, row: &Row) -> &[u8] {
        &self.paths[row.start as usize..][..row.len as usize]
    }

    fn entry(&self, row: &Row) -> SnapshotEntry<'_> {
        let blob = (row.kind != EntryKind::Submodule).then_some(BlobId::from_bytes(row.id));
        SnapshotEntry {
            path: self.path(row),
            kind: row.kind,
            blob,
        }
    }

    fn push(&mut self, path: &[u8], kind: EntryKind, id: [u8; 20]) -> Option<()> {
        let start = u32::try_from(self.paths.len()).ok()?;
        let len = u32::try_from(path.len()).ok()?;
        self.paths.extend_from_slice(path);
        self.rows.push(Row {
            start,
            len,
            kind,
            id,
        });
        Some(())
    }
}

impl fmt::Debug for TreeSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreeSnapshot")
            .field("files", &self.len())
            .finish_non_exhaustive()
    }
}

/// Why a folder could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SnapshotFailure {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("`{path}` is {kind} in the repository, not a folder")]
    NotAFolder { path: String, kind: EntryKind },
    #[error("the folder's paths take more than 4 GiB")]
    TooLarge,
}

/// Reads everything below `folder`, or below the root. A folder that does not exist is empty.
pub(crate) fn read_snapshot(
    store: &ObjectStore,
    root: TreeId,
    folder: Option<&FolderPath>,
) -> Result<TreeSnapshot, SnapshotFailure> {
    let mut snapshot = TreeSnapshot::default();
    let mut path = Vec::new();
    let start = match folder {
        None => Some(root),
        Some(folder) => {
            path.extend_from_slice(folder.as_str().as_bytes());
            descend(store, root, folder)?
        }
    };
    if let Some(tree) = start {
        walk(store, tree, &mut path, &mut snapshot)?;
    }
    // Git writes trees in this order; a tree from elsewhere may not be.
    let mut rows = std::mem::take(&mut snapshot.rows);
    rows.sort_by(|a, b| snapshot.path(a).cmp(snapshot.path(b)));
    rows.shrink_to_fit();
    snapshot.rows = rows;
    snapshot.paths.shrink_to_fit();
    Ok(snapshot)
}

/// Reads what stands at these paths, and nothing else: only the folders above them are looked into.
pub(crate) fn read_paths(
    store: &ObjectStore,
    root: TreeId,
    paths: &[RepoPath],
) -> Result<TreeSnapshot, SnapshotFailure> {
    let mut wanted: Vec<&[u8]> = paths.iter().map(|path| path.as_str().as_bytes()).collect();
    // As in a folder-wise walk: everything below a folder lies together.
    wanted.sort_unstable();
    wanted.dedup();
    let mut snapshot = TreeSnapshot::default();
    pick(store, root, 0, &wanted, &mut snapshot)?;
    let mut rows = std::mem::take(&mut snapshot.rows);
    rows.sort_by(|a, b| snapshot.path(a).cmp(snapshot.path(b)));
    snapshot.rows = rows;
    Ok(snapshot)
}

/// Finds `wanted` in a tree whose own path is so many bytes of each of them.
fn pick(
    store: &ObjectStore,
    tree: TreeId,
    depth: usize,
    wanted: &[&[u8]],
    snapshot: &mut TreeSnapshot,
) -> Result<(), SnapshotFailure> {
    let mut below: HashMap<&[u8], Vec<&[u8]>> = HashMap::new();
    for path in wanted {
        let rest = &path[depth..];
        let end = rest.iter().position(|byte| *byte == b'/');
        let name = &rest[..end.unwrap_or(rest.len())];
        below.entry(name).or_default().push(path);
    }
    let mut buffer = Vec::new();
    store.tree(tree, &mut buffer)?;
    for entry in entries(&buffer) {
        let entry = entry?;
        let Some(wanted) = below.get(entry.name) else {
            continue;
        };
        let end = depth + entry.name.len();
        let (here, deeper): (Vec<&[u8]>, Vec<&[u8]>) =
            wanted.iter().partition(|path| path.len() == end);
        match line_kind(entry.mode) {
            LineKind::Folder if deeper.is_empty() => {}
            LineKind::Folder => {
                let tree = TreeId::from_bytes(entry.id);
                pick(store, tree, end + 1, &deeper, snapshot)?;
            }
            LineKind::Leaf(kind) => {
                for path in here {
                    snapshot
                        .push(path, kind, entry.id)
                        .ok_or(SnapshotFailure::TooLarge)?;
                }
            }
        }
    }
    Ok(())
}

/// The tree at `folder`, if there is one.
fn descend(
    store: &ObjectStore,
    root: TreeId,
    folder: &FolderPath,
) -> Result<Option<TreeId>, SnapshotFailure> {
    let mut tree = root;
    let mut buffer = Vec::new();
    let mut end = 0;
    for component in folder.as_str().split('/').filter(|part| !part.is_empty()) {
        end += component.len();
        store.tree(tree, &mut buffer)?;
        let mut next = None;
        for entry in entries(&buffer) {
            let entry = entry?;
            if entry.name == component.as_bytes() {
                next = Some((line_kind(entry.mode), entry.id));
            }
        }
        match next {
            None => return Ok(None),
            Some((LineKind::Folder, id)) => tree = TreeId::from_bytes(id),
            Some((LineKind::Leaf(kind), _)) => {
                let path = folder.as_str()[..end].to_owned();
                return Err(SnapshotFailure::NotAFolder { path, kind });
            }
        }
        end += 1;
    }
    Ok(Some(tree))
}

fn walk(
    store: &ObjectStore,
    tree: TreeId,
    path: &mut Vec<u8>,
    snapshot: &mut TreeSnapshot,
) -> Result<(), SnapshotFailure> {
    let mut buffer = Vec::new();
    store.tree(tree, &mut buffer)?;
    for entry in entries(&buffer) {
        let entry = entry?;
        let parent = path.len();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(entry.name);
        match line_kind(entry.mode) {
            LineKind::Folder => walk(store, TreeId::from_bytes(entry.id), path, snapshot)?,
            LineKind::Leaf(kind) => {
                snapshot
                    .push(path, kind, entry.id)
                    .ok_or(SnapshotFailure::TooLarge)?;
            }
        }
        path.truncate(parent);
    }
    Ok(())
}
