//! What a branch needs to become equal to the cluster.
//!
//! A plan is the difference between what is wanted and what the branch's tree holds, computed anew
//! each time: nothing depends on a queue. A file goes only with a proof; what nobody can prove to be
//! gone stays, and so does every file that the layout could not have produced.

mod guard;
mod proofs;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};

pub use self::guard::{MassDelete, ShownStop};
pub use self::proofs::{DeleteProof, Proofs, Prunable, Withdrawn};
use crate::blob_id::BlobId;
use crate::object_key::TypeKey;
use crate::repo_path::RepoPath;

/// Which differences a rule lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operations {
    /// New files appear.
    pub create: bool,
    /// Files change.
    pub update: bool,
    /// Files go.
    pub delete: bool,
}

impl Operations {
    /// What either lets through.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            create: self.create || other.create,
            update: self.update || other.update,
            delete: self.delete || other.delete,
        }
    }
}

/// The content that a file should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The content's id.
    pub blob: BlobId,
    /// What may be done about a difference.
    pub operations: Operations,
}

/// A file that is in the branch, below the destination's folder.
#[derive(Clone, Copy, Debug)]
pub struct TreeFile<'a> {
    /// The path below the folder.
    pub path: &'a str,
    /// The content's id.
    pub blob: BlobId,
}

/// When files are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PruneMode {
    /// With any proof.
    Always,
    /// Only if the object's deletion was seen.
    OnEvent,
    /// Never.
    Never,
}

/// What limits deletions.
#[derive(Clone, Debug)]
pub struct PrunePolicy {
    /// Which proofs count.
    pub mode: PruneMode,
    /// How many files go in one cycle, at most.
    pub cap: Option<usize>,
    /// Whether deletions that look like a mistake are stopped.
    pub guard: bool,
    /// The id of the stop that a person has released.
    pub acknowledged: Option<String>,
    /// The stop that was shown last, if it has not come to its end.
    pub shown: Option<ShownStop>,
    /// The mark of the folder, if it is that of another cluster.
    pub other_cluster: Option<String>,
    /// How many files went lately because their objects were not seen any more: what goes now is judged
    /// together with them.
    pub gone: usize,
    /// Whether what lists lack stays for now, because more lists are about to come.
    pub holds_absent: bool,
    /// Files whose deletion the server refuses: they stay.
    pub refused: HashSet<RepoPath>,
}

impl PrunePolicy {
    /// Whatever is proven goes at once.
    #[must_use]
    pub fn unlimited() -> Self {
        Self {
            mode: PruneMode::Always,
            cap: None,
            guard: false,
            acknowledged: None,
            shown: None,
            other_cluster: None,
            gone: 0,
            holds_absent: false,
            refused: HashSet::new(),
        }
    }
}

/// What to do.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Files to write, sorted by path.
    pub puts: Vec<Put>,
    /// Files to delete, sorted by path.
    pub deletes: Vec<Delete>,
    /// Deletions that the guard stops.
    pub stopped: Option<MassDelete>,
    /// Deletions that wait for the next cycle because of the cap.
    pub capped: usize,
    /// Deletions that wait for more lists.
    pub awaiting_lists: usize,
    /// Deletions that the mode does not let pass, although they are proven.
    pub held_by_mode: usize,
    /// Files of our layout that nobody can prove to be gone, or that the mode or the server keeps: they
    /// stay.
    pub unproven: usize,
    /// Those of them whose deletion the server refuses.
    pub refused: Vec<RepoPath>,
    /// Deletions go that the guard would have stopped, had nobody released them.
    pub released: bool,
    /// What the guard stops, or would have.
    pub shown: Option<ShownStop>,
    /// How many of those are of types that no rule of the destination selects.
    pub unselected: BTreeMap<TypeKey, usize>,
}

/// A file to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    /// Where.
    pub path: RepoPath,
    /// The content.
    pub blob: BlobId,
    /// What is there now.
    pub replaces: Option<BlobId>,
}

/// A file to delete. Only [`plan`] makes one, and only from a proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delete {
    path: RepoPath,
    blob: BlobId,
    proof: DeleteProof,
    moved_to: Option<RepoPath>,
}

impl Put {
    /// The deletion of what is there, for an object that was seen to be deleted before another took
    /// its place and name: the file is replaced in any case.
    #[must_use]
    pub fn delete_before(&self) -> Option<Delete> {
        Some(Delete {
            path: self.path.clone(),
            blob: self.replaces?,
            proof: DeleteProof::Deleted,
            moved_to: None,
        })
    }
}

impl Delete {
    /// Where.
    #[must_use]
    pub fn path(&self) -> &RepoPath {
        &self.path
    }

    /// What is there now.
    #[must_use]
    pub fn blob(&self) -> BlobId {
        self.blob
    }

    /// Why it may go.
    #[must_use]
    pub fn proof(&self) -> DeleteProof {
        self.proof
    }
}

/// The difference between what is wanted and what is there.
#[must_use]
pub fn plan<'t>(
    wanted: &BTreeMap<RepoPath, Wanted>,
    tree: impl IntoIterator<Item = TreeFile<'t>>,
    proofs: &Proofs,
    policy: &PrunePolicy,
) -> Plan {
    let mut plan = Plan::default();
    let mut there: HashMap<&str, BlobId> = HashMap::new();
    let mut ours = 0;
    for file in tree {
        // Most files are wanted, and what an object's path says is found out from the others only.
        if wanted.contains_key(file.path) {
            ours += 1;
            there.insert(file.path, file.blob);
            continue;
        }
        let Ok(identity) = RepoPath::parse(file.path) else {
            continue;
        };
        if proofs.is_foreign(&identity) {
            continue;
        }
        ours += 1;
        there.insert(file.path, file.blob);
        let path = RepoPath::of_parsed(file.path, &identity);
        let proof = proofs.of(&path, &identity);
        let moved_to = if proof.is_some_and(DeleteProof::is_inferred) {
            proofs.moved_to(file.path, &identity.type_key, wanted)
        } else {
            None
        };
        let proof = moved_to.map_or(proof, |_| Some(DeleteProof::Moved));
        if policy.refused.contains(&path) {
            plan.unproven += 1;
            plan.refused.push(path);
            continue;
        }
        if let Some(proof) = proof.filter(|proof| policy.mode.accepts(*proof)) {
            plan.deletes.push(Delete {
                path,
                blob: file.blob,
                proof,
                moved_to: moved_to.cloned(),
            });
            continue;
        }
        // Objects that are merely not selected any more are not gone.
        let is_gone = proof.is_some_and(|proof| {
            !matches!(proof, DeleteProof::Deselected | DeleteProof::RuleDeleted)
        });
        plan.held_by_mode += usize::from(is_gone);
        plan.unproven += 1;
        if !proofs.needed.contains(&identity.type_key) {
            *plan.unselected.entry(identity.type_key).or_default() += 1;
        }
    }
    for (path, Wanted { blob, operations }) in wanted {
        let replaces = there.get(path.as_str()).copied();
        let allowed = if replaces.is_some() {
            operations.update
        } else {
            operations.create
        };
        if allowed && replaces != Some(*blob) {
            plan.puts.push(Put {
                path: path.clone(),
                blob: *blob,
                replaces,
            });
        }
    }
    plan.deletes.sort_by(|one, other| one.path.cmp(&other.path));
    plan.keep_what_cannot_move(|path| there.contains_key(path.as_str()));
    plan.guard_deletes(ours, policy);
    if policy.holds_absent {
        plan.hold_absent();
    }
    plan.cap_deletes(policy.cap);
    plan
}

impl PruneMode {
    /// Whether this proof counts.
    #[must_use]
    pub fn accepts(self, proof: DeleteProof) -> bool {
        match self {
            Self::Always => true,
            Self::OnEvent => proof == DeleteProof::Deleted,
            Self::Never => false,
        }
    }
}

impl Plan {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.puts.is_empty() && self.deletes.is_empty()
    }

    /// Takes out files to write. A file that one of them was to take the place of stays.
    pub fn retain_puts(&mut self, mut keep: impl FnMut(&Put) -> bool) {
        let mut dropped = HashSet::new();
        self.puts.retain(|put| {
            let keeps = keep(put);
            if !keeps && put.replaces.is_none() {
                dropped.insert(put.path.clone());
            }
            keeps
        });
        self.deletes.retain(|delete| {
            let moved_to = delete.moved_to.as_ref();
            moved_to.is_none_or(|path| !dropped.contains(path))
        });
    }

    /// An object is somewhere: its old file stays where the new one may not be written.
    fn keep_what_cannot_move(&mut self, is_there: impl Fn(&RepoPath) -> bool) {
        let written: HashSet<&RepoPath> = self.puts.iter().map(|put| &put.path).collect();
        let before = self.deletes.len();
        self.deletes.retain(|delete| {
            let moved_to = delete.moved_to.as_ref();
            moved_to.is_none_or(|path| is_there(path) || written.contains(path))
        });
        self.unproven += before - self.deletes.len();
    }

    /// Keeps what only lists say to be gone.
    fn hold_absent(&mut self) {
        let before = self.deletes.len();
        let absent = |delete: &Delete| delete.proof == DeleteProof::AbsentFromList;
        self.deletes.retain(|delete| !absent(delete));
        self.awaiting_lists = before - self.deletes.len();
    }

    fn cap_deletes(&mut self, cap: Option<usize>) {
        let is_move = |delete: &Delete| delete.proof == DeleteProof::Moved;
        if let Some(cap) = cap {
            // A move is no loss, and both halves belong into one commit.
            let (moved, mut gone): (Vec<_>, Vec<_>) = std::mem::take(&mut self.deletes)
                .into_iter()
                .partition(is_move);
            self.capped = gone.len().saturating_sub(cap);
            gone.truncate(cap);
            self.deletes = moved;
            self.deletes.append(&mut gone);
            self.deletes.sort_by(|one, other| one.path.cmp(&other.path));
        }
    }
}
