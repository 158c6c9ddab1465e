//! From a plan to commits: trees are rewritten along the changed paths, on top of a known base.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use crate::commit_plan::{Change, CommitPlan, Committed, Prepared, RefusedChange, Tip};
use crate::object_id::{BlobId, CommitId, ObjectKind, TreeId};
use crate::objects::{ObjectSink, ObjectStore, ReadError};
use crate::signing::{Signer, SigningFailed};
use crate::tree_edit::{Edited, PathRefusal, TreeEdit};
use crate::tree_snapshot::{SnapshotFailure, read_snapshot};

/// Why no commit could be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommitFailure {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the objects could not be written")]
    Write(#[from] io::Error),
    #[error(transparent)]
    Sign(#[from] SigningFailed),
}

/// Builds the commits of `plans` on `base`.
pub(crate) fn build(
    store: &ObjectStore,
    objects: &Path,
    base: Tip,
    plans: &[CommitPlan],
    signer: Option<&dyn Signer>,
) -> Result<Committed, CommitFailure> {
    let mut tree = base
        .base()
        .map(|commit| store.tree_of(commit))
        .transpose()?;
    let mut builder = Builder {
        store,
        base_tree: tree,
        edit: TreeEdit::new(store, tree)?,
        sink: ObjectSink::new(objects),
        in_base: None,
        refused: Vec::new(),
    };
    let mut parent = base.base();
    let mut commits = Vec::with_capacity(plans.len());
    for (index, plan) in plans.iter().enumerate() {
        let next = builder.apply(index, plan)?;
        // A root commit without a file says nothing either.
        if next == tree || next.is_none() {
            commits.push(None);
            continue;
        }
        let content = commit_bytes(next.expect("checked above"), parent, plan, signer)?;
        let id = CommitId::from_bytes(builder.sink.add(ObjectKind::Commit, &content)?);
        (tree, parent) = (next, Some(id));
        commits.push(Some(id));
    }
    let refused = builder.refused;
    let head = commits.iter().rev().find_map(|commit| *commit);
    if head.is_some() {
        builder.sink.finish()?;
    }
    let prepared = head.map(|head| Prepared { base, head });
    Ok(Committed {
        prepared,
        commits,
        refused,
    })
}

struct Builder<'a> {
    store: &'a ObjectStore,
    base_tree: Option<TreeId>,
    edit: TreeEdit,
    sink: ObjectSink,
    /// The blobs of the whole base, read only if one is asked for that is not here.
    in_base: Option<HashSet<BlobId>>,
    refused: Vec<RefusedChange>,
}

impl Builder<'_> {
    /// Applies one plan and says the tree that results, if anything changed.
    fn apply(&mut self, commit: usize, plan: &CommitPlan) -> Result<Option<TreeId>, CommitFailure> {
        let deletes = plan
            .changes
            .iter()
            .filter(|change| matches!(change, Change::Delete { .. }));
        let puts = plan
            .changes
            .iter()
            .filter(|change| matches!(change, Change::Put { .. }));
        let mut changed = false;
        for change in deletes.chain(puts) {
            let why = match self.apply_change(plan, change)? {
                Edited::Changed => {
                    changed = true;
                    continue;
                }
                Edited::Unchanged => continue,
                Edited::Refused(why) => why,
            };
            self.refused.push(RefusedChange {
                commit,
                path: change.path().clone(),
                why,
            });
        }
        if !changed {
            return Ok(None);
        }
        Ok(Some(self.edit.write(&mut self.sink)?))
    }

    fn apply_change(
        &mut self,
        plan: &CommitPlan,
        change: &Change,
    ) -> Result<Edited, CommitFailure> {
        let path = change.path();
        if !plan.folder.contains(path) {
            let folder = plan.folder.to_string();
            return Ok(Edited::Refused(PathRefusal::OutsideFolder { folder }));
        }
        match change {
            Change::Delete { path } => Ok(self.edit.delete(self.store, path)?),
            Change::Put { path, blob } => {
                if !self.knows(*blob)? {
                    return Ok(Edited::Refused(PathRefusal::ContentMissing { blob: *blob }));
                }
                Ok(self.edit.put(self.store, path, *blob)?)
            }
        }
    }

    /// Whether a commit may name this blob: it is here, or the remote has it because the base
    /// names it (and then a push does not need it).
    fn knows(&mut self, blob: BlobId) -> Result<bool, CommitFailure> {
        if self.store.has_blob(blob) {
            return Ok(true);
        }
        if self.in_base.is_none() {
            self.in_base = Some(match self.base_tree {
                None => HashSet::new(),
                Some(tree) => blobs_below(self.store, tree)?,
            });
        }
        Ok(self
            .in_base
            .as_ref()
            .is_some_and(|blobs| blobs.contains(&blob)))
    }
}

/// All blobs that a tree names.
pub(crate) fn blobs_below(store: &ObjectStore, tree: TreeId) -> Result<HashSet<BlobId>, ReadError> {
    match read_snapshot(store, tree, None) {
        Ok(snapshot) => Ok(snapshot.iter().filter_map(|entry| entry.blob).collect()),
        Err(SnapshotFailure::Read(error)) => Err(error),
        // Only folders can be something else, and this is the root; too large to be told is unknown.
        Err(SnapshotFailure::NotAFolder { .. } | SnapshotFailure::TooLarge) => Ok(HashSet::new()),
    }
}

fn commit_bytes(
    tree: TreeId,
    parent: Option<CommitId>,
    plan: &CommitPlan,
    signer: Option<&dyn Signer>,
) -> Result<Vec<u8>, SigningFailed> {
    let CommitPlan {
        author,
        committer,
        message,
        ..
    } = plan;
    let parent = parent
        .map(|parent| format!("parent {parent}\n"))
        .unwrap_or_default();
    let header = format!("tree {tree}\n{parent}author {author}\ncommitter {committer}\n");
    // Git forbids NUL in a message and ends it with a newline.
    let message = format!("{}\n", message.replace('\0', "\u{fffd}").trim_end());
    let unsigned = format!("{header}\n{message}");
    let Some(signer) = signer else {
        return Ok(unsigned.into_bytes());
    };
    let signature = signer.sign(unsigned.as_bytes())?;
    // A header of several lines: each further one starts with a space.
    let signature = signature.trim_end().replace('\n', "\n ");
    Ok(format!("{header}gpgsig {signature}\n\n{message}").into_bytes())
}
