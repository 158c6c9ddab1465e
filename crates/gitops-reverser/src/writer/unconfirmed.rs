//! Files that are not known to be in the branch as they are wanted.

use std::collections::{BTreeMap, HashMap};

use reverser_core::blob_id::BlobId;
use reverser_core::plan::Wanted;
use reverser_core::repo_path::RepoPath;

/// The paths where something else is wanted than what the remote has confirmed, with that: an object
/// that changes often counts once, and one that came and went meanwhile does not count.
#[derive(Debug, Default)]
pub(super) struct Unconfirmed {
    waiting: HashMap<RepoPath, Option<BlobId>>,
    /// Those of the attempt that is under way.
    taken: HashMap<RepoPath, Option<BlobId>>,
}

impl Unconfirmed {
    /// What is wanted at a path has changed.
    pub(super) fn note(&mut self, path: &RepoPath, before: Option<BlobId>, now: Option<BlobId>) {
        let confirmed = self.waiting.get(path).copied().unwrap_or(before);
        if confirmed == now {
            self.waiting.remove(path);
        } else {
            self.waiting.insert(path.clone(), confirmed);
        }
    }

    /// An attempt takes them.
    pub(super) fn take(&mut self) {
        for (path, before) in self.waiting.drain() {
            self.taken.entry(path).or_insert(before);
        }
    }

    /// The remote has them.
    pub(super) fn confirm(&mut self) {
        self.taken.clear();
    }

    /// It does not have them, and this is wanted now.
    pub(super) fn put_back(&mut self, wanted: &BTreeMap<RepoPath, Wanted>) {
        for (path, before) in self.taken.drain() {
            if wanted.get(&path).map(|wanted| wanted.blob) == before {
                self.waiting.remove(&path);
            } else {
                self.waiting.insert(path, before);
            }
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.waiting.len() + self.taken.len()
    }
}

#[cfg(test)]
mod tests {
    use reverser_core::object_key::{ObjectKey, TypeKey};
    use reverser_core::plan::Operations;

    use super::*;

    fn path(name: &str) -> RepoPath {
        let maps = TypeKey::new("", "v1", "configmaps").unwrap();
        RepoPath::of(&ObjectKey::new(maps, Some("shop".into()), name).unwrap())
    }

    fn blob(text: &str) -> BlobId {
        BlobId::of(text.as_bytes())
    }

    fn wanted(text: &str) -> Wanted {
        Wanted {
            blob: blob(text),
            operations: Operations {
                create: true,
                update: true,
                delete: true,
            },
        }
    }

    #[test]
    fn files_are_counted_and_not_changes() {
        let mut files = Unconfirmed::default();
        for change in 0..500 {
            let (old, new) = (change.to_string(), (change + 1).to_string());
            files.note(&path("busy"), Some(blob(&old)), Some(blob(&new)));
        }
        assert_eq!(files.count(), 1);
        files.note(&path("brief"), None, Some(blob("x")));
        files.note(&path("brief"), Some(blob("x")), None);
        assert_eq!(files.count(), 1, "it came and went");
        files.note(&path("busy"), Some(blob("500")), Some(blob("0")));
        assert_eq!(files.count(), 0, "it is as it was");
    }

    #[test]
    fn what_an_attempt_could_not_push_waits_on_unless_it_is_as_it_was() {
        let mut files = Unconfirmed::default();
        files.note(&path("a"), Some(blob("1")), Some(blob("2")));
        files.note(&path("b"), Some(blob("1")), Some(blob("2")));
        files.take();
        files.note(&path("b"), Some(blob("2")), Some(blob("1")));
        files.note(&path("c"), None, Some(blob("1")));
        let now = BTreeMap::from([
            (path("a"), wanted("2")),
            (path("b"), wanted("1")),
            (path("c"), wanted("1")),
        ]);
        files.put_back(&now);
        assert_eq!(files.count(), 2);
        files.take();
        files.confirm();
        assert_eq!(files.count(), 0);
    }
}
