//! Deletions that look like a wrong cluster, and not like work.

use std::collections::HashSet;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::{Delete, DeleteProof, Plan, PrunePolicy};
use crate::repo_path::RepoPath;

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
    pub(super) id: String,
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

impl Plan {
    /// Stops the deletions of a cycle that would leave nothing behind, if they follow from what was
    /// not seen and not from what was.
    pub(super) fn guard_deletes(&mut self, ours: usize, policy: &PrunePolicy) {
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
