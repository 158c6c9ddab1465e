//! Files that the branch cannot hold yet.
//!
//! While nothing can be written, names of objects come and go without end. Of one that came after
//! everything was listed, and went before any attempt could have written it, nothing has to be
//! remembered.

use std::collections::{BTreeMap, HashSet};

use reverser_core::plan::{Proofs, Wanted};
use reverser_core::repo_path::RepoPath;

#[derive(Debug, Default)]
pub(super) struct Unwritten {
    new: HashSet<RepoPath>,
    /// Those that the attempt under way may write.
    tried: HashSet<RepoPath>,
}

impl Unwritten {
    /// A file is wanted that was not. It is new if a complete list has shown before that there is no
    /// such object, and would let a file of that name go.
    pub(super) fn add(&mut self, path: &RepoPath, proofs: &Proofs) {
        let Ok(identity) = RepoPath::parse(path.as_str()) else {
            return;
        };
        let namespace = identity.namespace.as_deref();
        if proofs.show(&identity.type_key, namespace) {
            self.new.insert(path.clone());
        }
    }

    /// A file is not wanted any more; tells whether it never was in the branch.
    pub(super) fn remove(&mut self, path: &RepoPath) -> bool {
        self.new.remove(path)
    }

    /// An attempt begins.
    pub(super) fn begin(&mut self) {
        // One of which nobody heard again may have written them.
        self.tried = std::mem::take(&mut self.new);
    }

    /// The attempt has ended. If it has written nothing, its files are as new as before, and nothing
    /// has to be known of those that are not wanted any more.
    pub(super) fn end(
        &mut self,
        may_have_written: bool,
        wanted: &BTreeMap<RepoPath, Wanted>,
        proofs: &mut Proofs,
    ) {
        let tried = std::mem::take(&mut self.tried);
        if may_have_written {
            return;
        }
        for path in tried {
            if wanted.contains_key(&path) {
                self.new.insert(path);
            } else {
                proofs.of_file.remove(&path);
            }
        }
    }
}
