//! A tree that is being changed: folders are read only along the changed paths, and only those are
//! written again.

use std::collections::BTreeMap;
use std::io;

use crate::object_id::{BlobId, ObjectKind, TreeId};
use crate::objects::{ObjectSink, ObjectStore, ReadError, damaged, entries};
use crate::repo_path::RepoPath;
use crate::tree_snapshot::{EntryKind, LineKind, line_kind};

const FILE_MODE: u32 = 0o100_644;
const FOLDER_MODE: u32 = 0o040_000;

/// Why a path was left as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathRefusal {
    /// A parent of the path is no folder. Writing there would follow a link or remove a file.
    #[error("`{parent}` is {kind}, and nothing is written through it")]
    Through {
        /// The parent, from the root of the repository.
        parent: String,
        /// What stands there.
        kind: EntryKind,
    },
    /// The path itself is a folder, whose content is not ours.
    #[error("a folder stands at this path")]
    IsFolder,
    /// The path itself is a submodule, which is not ours.
    #[error("a submodule stands at this path")]
    IsSubmodule,
    /// The path is not below the folder of its commit.
    #[error("the path is outside of the folder `{folder}`")]
    OutsideFolder {
        /// The folder.
        folder: String,
    },
    /// The content is neither staged nor in the branch; it has to be staged again.
    #[error("the content {blob} is not known here any more")]
    ContentMissing {
        /// The content.
        blob: BlobId,
    },
}

/// What an edit did.
pub(crate) enum Edited {
    Changed,
    Unchanged,
    Refused(PathRefusal),
}

/// One folder that was read.
#[derive(Default)]
struct Folder {
    lines: BTreeMap<Box<[u8]>, Line>,
    /// Its name as long as it is unchanged.
    id: Option<TreeId>,
}

enum Line {
    Leaf { mode: u32, id: [u8; 20] },
    Unread(TreeId),
    Read(Folder),
}

/// The root of a tree that is being changed.
pub(crate) struct TreeEdit {
    root: Folder,
}

impl TreeEdit {
    /// Starts from a tree, or from nothing.
    pub(crate) fn new(store: &ObjectStore, root: Option<TreeId>) -> Result<Self, ReadError> {
        let root = match root {
            Some(id) => Folder::read(store, id)?,
            None => Folder::default(),
        };
        Ok(Self { root })
    }

    /// Makes `path` a plain file with this content.
    pub(crate) fn put(
        &mut self,
        store: &ObjectStore,
        path: &RepoPath,
        blob: BlobId,
    ) -> Result<Edited, ReadError> {
        self.root.edit(store, path.as_str(), 0, Some(blob))
    }

    /// Makes sure that no file is at `path`.
    pub(crate) fn delete(
        &mut self,
        store: &ObjectStore,
        path: &RepoPath,
    ) -> Result<Edited, ReadError> {
        self.root.edit(store, path.as_str(), 0, None)
    }

    /// Writes the changed folders and says the name of the whole. Empty folders vanish.
    pub(crate) fn write(&mut self, sink: &mut ObjectSink) -> io::Result<TreeId> {
        self.root.write(sink)
    }
}

impl Folder {
    fn read(store: &ObjectStore, id: TreeId) -> Result<Self, ReadError> {
        let mut buffer = Vec::new();
        store.tree(id, &mut buffer)?;
        let mut lines = BTreeMap::new();
        for entry in entries(&buffer) {
            let entry = entry?;
            let line = match line_kind(entry.mode) {
                LineKind::Folder => Line::Unread(TreeId::from_bytes(entry.id)),
                LineKind::Leaf(_) => Line::Leaf {
                    mode: entry.mode,
                    id: entry.id,
                },
            };
            if lines.insert(entry.name.into(), line).is_some() {
                // Writing it again would silently drop one of the two.
                return Err(damaged(id.as_bytes(), "it names a file twice"));
            }
        }
        Ok(Self {
            lines,
            id: Some(id),
        })
    }

    /// Puts a blob at the path that starts at `from`, or deletes what is there.
    fn edit(
        &mut self,
        store: &ObjectStore,
        path: &str,
        from: usize,
        blob: Option<BlobId>,
    ) -> Result<Edited, ReadError> {
        let rest = &path[from..];
        let Some(slash) = rest.find('/') else {
            return Ok(self.edit_line(rest.as_bytes(), blob));
        };
        let (name, end) = (&rest.as_bytes()[..slash], from + slash);
        if !self.lines.contains_key(name) {
            if blob.is_none() {
                return Ok(Edited::Unchanged);
            }
            self.lines.insert(name.into(), Line::Read(Self::default()));
        }
        let line = self
            .lines
            .get_mut(name)
            .expect("it was there or has just been made");
        if let Line::Unread(id) = line {
            *line = Line::Read(Self::read(store, *id)?);
        }
        let edited = match line {
            Line::Leaf { mode, .. } => {
                let LineKind::Leaf(kind) = line_kind(*mode) else {
                    unreachable!("leaves are no folders")
                };
                let parent = path[..end].to_owned();
                return Ok(match blob {
                    Some(_) => Edited::Refused(PathRefusal::Through { parent, kind }),
                    // Behind a link or a file there is nothing of ours to delete.
                    None => Edited::Unchanged,
                });
            }
            Line::Read(folder) => folder.edit(store, path, end + 1, blob)?,
            Line::Unread(_) => unreachable!("read above"),
        };
        if matches!(edited, Edited::Changed) {
            self.id = None;
        }
        Ok(edited)
    }

    fn edit_line(&mut self, name: &[u8], blob: Option<BlobId>) -> Edited {
        match (self.lines.get(name), blob) {
            (None, None) => return Edited::Unchanged,
            // A folder of which nothing is left after earlier deletions is none.
            (Some(Line::Read(folder)), Some(_)) if folder.is_empty() => {}
            (Some(Line::Unread(_) | Line::Read(_)), _) => {
                return Edited::Refused(PathRefusal::IsFolder);
            }
            (Some(Line::Leaf { mode, .. }), _)
                if line_kind(*mode) == LineKind::Leaf(EntryKind::Submodule) =>
            {
                return Edited::Refused(PathRefusal::IsSubmodule);
            }
            (
                Some(Line::Leaf {
                    mode: FILE_MODE,
                    id,
                }),
                Some(blob),
            ) if id == blob.as_bytes() => {
                return Edited::Unchanged;
            }
            _ => {}
        }
        match blob {
            Some(blob) => {
                self.lines.insert(
                    name.into(),
                    Line::Leaf {
                        mode: FILE_MODE,
                        id: *blob.as_bytes(),
                    },
                );
            }
            None => {
                self.lines.remove(name);
            }
        }
        self.id = None;
        Edited::Changed
    }

    fn is_empty(&self) -> bool {
        self.id.is_none()
            && self
                .lines
                .values()
                .all(|line| matches!(line, Line::Read(folder) if folder.is_empty()))
    }

    fn write(&mut self, sink: &mut ObjectSink) -> io::Result<TreeId> {
        if let Some(id) = self.id {
            return Ok(id);
        }
        self.lines
            .retain(|_, line| !matches!(line, Line::Read(folder) if folder.is_empty()));
        let mut lines = Vec::with_capacity(self.lines.len());
        let mut len = 0;
        for (name, line) in &mut self.lines {
            let (mode, id) = match line {
                Line::Leaf { mode, id } => (*mode, *id),
                Line::Unread(id) => (FOLDER_MODE, *id.as_bytes()),
                Line::Read(folder) => (FOLDER_MODE, *folder.write(sink)?.as_bytes()),
            };
            len += name.len() + 28;
            lines.push((&**name, mode, id));
        }
        // Git sorts a folder as if its name ended with a slash.
        let key = |name: &[u8], at: usize, mode: u32| {
            name.get(at)
                .copied()
                .or_else(|| (at == name.len() && mode == FOLDER_MODE).then_some(b'/'))
        };
        lines.sort_by(|(a, a_mode, _), (b, b_mode, _)| {
            let common = a.len().min(b.len());
            a[..common]
                .cmp(&b[..common])
                .then_with(|| key(a, common, *a_mode).cmp(&key(b, common, *b_mode)))
        });
        let mut content = Vec::with_capacity(len);
        for (name, mode, id) in lines {
            content.extend_from_slice(format!("{mode:o} ").as_bytes());
            content.extend_from_slice(name);
            content.push(0);
            content.extend_from_slice(&id);
        }
        let id = TreeId::from_bytes(sink.add(ObjectKind::Tree, &content)?);
        self.id = Some(id);
        Ok(id)
    }
}
