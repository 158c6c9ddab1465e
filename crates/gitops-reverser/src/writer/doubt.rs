//! Where a folder may differ from what is wanted.

use std::collections::BTreeMap;

use reverser_core::blob_id::BlobId;
use reverser_core::plan::Proofs;
use reverser_core::repo_path::RepoPath;

/// So many paths are remembered; beyond that comparing everything costs no more.
const MOST_PATHS: usize = 10_000;

/// What the next attempt has to compare. While the branch stays where this operator left it, only
/// what has changed since can differ, and a batch costs as much as it changes, however many files
/// there are.
#[derive(Debug)]
pub(super) enum Doubt {
    /// Anywhere: somebody else moved the branch, or what is known has changed.
    Whole,
    /// At these paths, with what was wanted there before.
    At(BTreeMap<RepoPath, Option<BlobId>>),
}

impl Default for Doubt {
    fn default() -> Self {
        Self::At(BTreeMap::new())
    }
}

impl Doubt {
    /// What is wanted at a path has changed.
    pub(super) fn add(&mut self, path: RepoPath, before: Option<BlobId>) {
        if let Self::At(paths) = self {
            paths.entry(path).or_insert(before);
            if paths.len() > MOST_PATHS {
                *self = Self::Whole;
            }
        }
    }

    /// How many deletions are held back can be counted only where all are known that could go.
    pub(super) fn settle(self, proofs: &Proofs, holds_back: bool) -> Self {
        match self {
            Self::At(paths)
                if holds_back && paths.keys().any(|path| proofs.of_file.contains_key(path)) =>
            {
                Self::Whole
            }
            doubt => doubt,
        }
    }

    /// Whether a file that is there is one that this operator has written, in its own form.
    pub(super) fn is_own(&self, path: &RepoPath, there: BlobId) -> bool {
        match self {
            Self::Whole => false,
            Self::At(paths) => paths.get(path).copied().flatten() == Some(there),
        }
    }

    pub(super) fn is_whole(&self) -> bool {
        matches!(self, Self::Whole)
    }
}

#[cfg(test)]
mod tests {
    use reverser_core::object_key::{ObjectKey, TypeKey};
    use reverser_core::plan::DeleteProof;

    use super::*;

    fn path(name: &str) -> RepoPath {
        let maps = TypeKey::new("", "v1", "configmaps").unwrap();
        RepoPath::of(&ObjectKey::new(maps, Some("shop".into()), name).unwrap())
    }

    #[test]
    fn a_file_is_ours_if_it_is_what_was_wanted_before_the_batch() {
        let mut doubt = Doubt::default();
        let blob = |text: &str| BlobId::of(text.as_bytes());
        doubt.add(path("a"), Some(blob("1")));
        doubt.add(path("a"), Some(blob("2")));
        doubt.add(path("b"), None);
        assert!(doubt.is_own(&path("a"), blob("1")));
        assert!(!doubt.is_own(&path("a"), blob("2")));
        assert!(!doubt.is_own(&path("b"), blob("1")));
        assert!(!Doubt::Whole.is_own(&path("a"), blob("1")));
    }

    #[test]
    fn capped_deletions_are_counted_over_all_files() {
        let mut proofs = Proofs::default();
        proofs.of_file.insert(path("b"), DeleteProof::Deleted);
        let mut doubt = Doubt::default();
        doubt.add(path("a"), None);
        let doubt = doubt.settle(&proofs, true);
        assert!(!doubt.is_whole());
        let mut doubt = doubt.settle(&proofs, true);
        doubt.add(path("b"), None);
        assert!(doubt.settle(&proofs, true).is_whole());
    }
}
