//! What a branch needs to become equal to the cluster.
//!
//! A plan is the difference between what is wanted and what the branch's tree holds, computed anew
//! each time: nothing depends on a queue. A file goes only with a proof; what nobody can prove to be
//! gone stays, and so does every file that the layout could not have produced.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::blob_id::BlobId;
use crate::definitions::GoneTypes;
use crate::object_key::TypeKey;
use crate::repo_path::{PathIdentity, RepoPath};
use crate::scope::CompleteScopes;
use crate::selection::Reach;

#[cfg(test)]
mod tests;

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

/// Why a file may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeleteProof {
    /// The object was seen to be deleted.
    Deleted,
    /// A complete list of its scope lacks it.
    AbsentFromList,
    /// The object was seen, and no rule selects it any more.
    Deselected,
    /// The same, because a person deleted the one rule that selected it.
    RuleDeleted,
    /// Its type is not served any more: its CRD is gone, and no APIService serves its group.
    TypeGone,
    /// The same object lives at another path now.
    Moved,
}

impl DeleteProof {
    /// Whether it follows from what was not seen, and not from what was.
    #[must_use]
    pub fn is_inferred(self) -> bool {
        match self {
            Self::AbsentFromList | Self::Deselected => true,
            Self::Deleted | Self::RuleDeleted | Self::TypeGone | Self::Moved => false,
        }
    }
}

/// Everything that is known about objects that are gone.
#[derive(Clone, Debug, Default)]
pub struct Proofs {
    /// Scopes of which everything is known.
    pub complete: CompleteScopes,
    /// Types for which a rule of this destination lets files go, and where.
    pub deletable: HashMap<TypeKey, Prunable>,
    /// Files of which it is known one by one.
    pub of_file: HashMap<RepoPath, DeleteProof>,
    /// Types that a rule of this destination selects, whether or not all is known of them.
    pub needed: HashSet<TypeKey>,
    /// Types that are not served any more.
    pub gone_types: GoneTypes,
    /// Types that a rule of this destination was seen to select, and none does any more.
    pub withdrawn: HashMap<TypeKey, Withdrawn>,
}

/// A type that the last rule of a destination has let go of. What is there of it goes without a list:
/// an object that exists is not selected any more, and one that does not is gone anyway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withdrawn {
    /// Where its rules reached, and let files go.
    pub reached: Prunable,
    /// How it came.
    pub proof: DeleteProof,
}

/// Where files of a type may go when a complete list lacks them: only where every rule that reaches
/// there lets them go. A rule without DELETE keeps its files, whatever its neighbours say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prunable {
    namespaced: bool,
    everywhere: Option<bool>,
    namespaces: BTreeMap<String, bool>,
}

impl Prunable {
    /// Of a type whose objects live in namespaces, or in none.
    #[must_use]
    pub fn new(namespaced: bool) -> Self {
        Self {
            namespaced,
            ..Self::default()
        }
    }

    /// A rule reaches there, and lets files go or not.
    pub fn add(&mut self, reach: &Reach, deletes: bool) {
        match reach {
            Reach::Namespace(namespace) => {
                let known = self.namespaces.entry(namespace.clone()).or_insert(true);
                *known &= deletes;
            }
            // Which namespaces a selector reaches changes; it may be any.
            Reach::Namespaces(_) | Reach::Cluster => {
                *self.everywhere.get_or_insert(true) &= deletes;
            }
        }
    }

    /// Whether there is a place where files may go.
    #[must_use]
    pub fn lets_any_go(&self) -> bool {
        let here = self.namespaces.values().any(|deletes| *deletes);
        self.everywhere.unwrap_or(here)
    }

    fn allows(&self, namespace: Option<&str>) -> bool {
        let here = namespace
            .and_then(|namespace| self.namespaces.get(namespace))
            .copied();
        self.fits(namespace) && self.everywhere.unwrap_or(true) && here.unwrap_or(true)
    }

    /// Whether a rule reaches there.
    fn reaches(&self, namespace: Option<&str>) -> bool {
        let here = namespace.is_some_and(|namespace| self.namespaces.contains_key(namespace));
        self.everywhere.is_some() || here
    }

    /// Whether an object of this type could have such a path.
    fn fits(&self, namespace: Option<&str>) -> bool {
        namespace.is_some() == self.namespaced
    }
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

/// Deletions that look like a wrong cluster, and not like work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MassDelete {
    /// What a person has to say to release them.
    pub id: String,
    /// How many files would go.
    pub deletions: usize,
}

/// A mass deletion as it was shown to a person. Its id stands for these files, also when they become
/// fewer: they may go in several cycles, and no others go with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownStop {
    id: String,
    elsewhere: Option<String>,
    paths: Arc<HashSet<RepoPath>>,
}

impl ShownStop {
    fn of(deletes: &[Delete], elsewhere: Option<&str>) -> Self {
        let paths = deletes.iter().map(|delete| delete.path.clone());
        Self {
            id: stop_id(deletes, elsewhere),
            elsewhere: elsewhere.map(str::to_owned),
            paths: Arc::new(paths.collect()),
        }
    }

    fn covers<'d>(
        &self,
        mut deletes: impl Iterator<Item = &'d Delete>,
        elsewhere: Option<&str>,
    ) -> bool {
        self.elsewhere.as_deref() == elsewhere
            && deletes.all(|delete| self.paths.contains(&delete.path))
    }
}

/// A destination that had no more files than this is never guarded: emptying it is everyday work.
const GUARDED_ABOVE: usize = 10;

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

impl Proofs {
    /// Whether no object of this type has such a path: one in a namespace where there are none, or
    /// the other way round.
    fn is_foreign(&self, identity: &PathIdentity) -> bool {
        let prunable = self.deletable.get(&identity.type_key);
        prunable.is_some_and(|prunable| !prunable.fits(identity.namespace.as_deref()))
    }

    /// Whether lists show which files may go there, without anything being known of them one by one.
    #[must_use]
    pub fn show(&self, type_key: &TypeKey, namespace: Option<&str>) -> bool {
        let prunable = self.deletable.get(type_key);
        prunable.is_some_and(|prunable| prunable.allows(namespace))
            && self.complete.covers(type_key, namespace)
    }

    /// Why a file that nobody wants may go.
    fn of(&self, path: &RepoPath, identity: &PathIdentity) -> Option<DeleteProof> {
        if let Some(proof) = self.of_file.get(path) {
            return Some(*proof);
        }
        let type_key = &identity.type_key;
        if self
            .gone_types
            .contain(type_key, identity.namespace.as_deref())
        {
            return Some(DeleteProof::TypeGone);
        }
        let lacks = |type_key: &TypeKey| self.show(type_key, identity.namespace.as_deref());
        // All versions of a resource show the same objects: where the file's own is not followed
        // any more, the list of another one tells as much.
        let absent = if self.needed.contains(type_key) {
            lacks(type_key)
        } else {
            lacks(type_key) || self.other_versions(type_key).any(lacks)
        };
        let absent = absent.then_some(DeleteProof::AbsentFromList);
        absent.or_else(|| self.of_withdrawn(identity))
    }

    /// Why a file of a type that no rule selects any more may go.
    fn of_withdrawn(&self, identity: &PathIdentity) -> Option<DeleteProof> {
        let Withdrawn { reached, proof } = self.withdrawn.get(&identity.type_key)?;
        let namespace = identity.namespace.as_deref();
        let selected = self.needed.contains(&identity.type_key);
        (!selected && reached.reaches(namespace) && reached.allows(namespace)).then_some(*proof)
    }

    fn other_versions(&self, type_key: &TypeKey) -> impl Iterator<Item = &TypeKey> {
        let needed = self.needed.iter();
        needed.filter(move |other| other.is_other_version_of(type_key))
    }

    /// Where the object of a file is wanted in another version.
    fn moved_to<'w>(
        &self,
        path: &str,
        type_key: &TypeKey,
        wanted: &'w BTreeMap<RepoPath, Wanted>,
    ) -> Option<&'w RepoPath> {
        let mut components = path.splitn(3, '/');
        let (Some(group), Some(_), Some(rest)) =
            (components.next(), components.next(), components.next())
        else {
            return None;
        };
        self.other_versions(type_key).find_map(|other| {
            let path = format!("{group}/{}/{rest}", other.version());
            wanted.get_key_value(&*path).map(|(path, _)| path)
        })
    }
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

    /// Stops the deletions of a cycle that would leave nothing behind, if they follow from what was
    /// not seen and not from what was.
    fn guard_deletes(&mut self, ours: usize, policy: &PrunePolicy) {
        let elsewhere = policy.other_cluster.as_deref();
        // What another cluster has written is never seen here: only what was seen to go may go.
        let looks_wrong = |delete: &Delete| match delete.proof {
            DeleteProof::TypeGone | DeleteProof::RuleDeleted => elsewhere.is_some(),
            proof => proof.is_inferred(),
        };
        let suspicious = || self.deletes.iter().filter(|delete| looks_wrong(delete));
        let deletions = suspicious().count();
        // Had what went lately gone now, there would have been more files, and as few would be left.
        let had = ours + policy.gone;
        let leaves_none = had > GUARDED_ABOVE && self.deletes.len() + self.unproven >= ours;
        if !policy.guard || deletions == 0 || !(leaves_none || elsewhere.is_some()) {
            return;
        }
        let known = policy.shown.clone();
        let known = known.filter(|shown| shown.covers(suspicious(), elsewhere));
        let shown = known.unwrap_or_else(|| ShownStop::of(&self.deletes, elsewhere));
        let id = shown.id.clone();
        self.shown = Some(shown);
        if policy.acknowledged.as_ref() == Some(&id) {
            self.released = true;
            return;
        }
        self.stopped = Some(MassDelete { id, deletions });
        self.deletes.retain(|delete| !looks_wrong(delete));
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

/// The same for the same files, so that a release holds across restarts.
fn stop_id(deletes: &[Delete], elsewhere: Option<&str>) -> String {
    let mut hash = Sha256::new();
    hash.update(elsewhere.unwrap_or_default());
    for delete in deletes {
        hash.update(delete.path.as_str());
        hash.update([0]);
    }
    let hash = hash.finalize();
    let first = hash[..8].try_into().expect("SHA-256 is longer than that");
    format!("{:016x}", u64::from_be_bytes(first))
}
