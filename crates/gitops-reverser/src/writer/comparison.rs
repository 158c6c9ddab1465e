//! What a destination wants, compared with what the tip of its branch holds.

use std::collections::BTreeSet;
use std::sync::Arc;

use reverser_core::blob_id::BlobId;
use reverser_core::canon::say_the_same;
use reverser_core::plan::{Plan, TreeFile, plan};
use reverser_core::repo_path::RepoPath;
use reverser_git::{EntryKind, Mirror};

use super::attempt::Job;
use super::doubt::Doubt;
use super::places::{folder_path, git_id, git_path};
use super::refusals::{self, local};
use crate::routing::Refusal;

/// What a job has to do; nothing if it alone cannot be done, which it then says.
pub(super) fn plan_job(mirror: &mut Mirror, job: &mut Job) -> Result<Option<Plan>, Refusal> {
    let Some(plan) = plan_on_tip(mirror, job)? else {
        return Ok(None);
    };
    if keep_equal_forms(mirror, job, &plan)? {
        return plan_on_tip(mirror, job);
    }
    Ok(Some(plan))
}

/// The difference between what a destination wants and what the tip holds.
fn plan_on_tip(mirror: &mut Mirror, job: &mut Job) -> Result<Option<Plan>, Refusal> {
    let snapshot = match &job.doubt {
        Doubt::Whole => mirror.snapshot(&folder_path(&job.folder)?),
        Doubt::At(paths) => {
            let paths = paths.keys().map(|path| git_path(&job.folder, path));
            mirror.files_at(&paths.collect::<Result<Vec<_>, _>>()?)
        }
    };
    let snapshot = match snapshot {
        Ok(snapshot) => snapshot,
        Err(error) => {
            let refusal = refusals::of_one_folder(&error).ok_or_else(|| local(&error))?;
            job.done.failure = Some(refusal);
            return Ok(None);
        }
    };
    let folder = job.folder.as_str();
    // The root of a repository has no name and no slash behind it.
    let skip = if folder.is_empty() {
        0
    } else {
        folder.len() + 1
    };
    let files = snapshot.iter().filter_map(|entry| {
        let path = std::str::from_utf8(entry.path).ok()?.get(skip..)?;
        let blob = entry.blob.filter(|_| entry.kind == EntryKind::File)?;
        Some(TreeFile {
            path,
            blob: BlobId::from_bytes(*blob.as_bytes()),
        })
    });
    Ok(Some(plan_of(job, files)))
}

/// Looks into files that are to be replaced: one that says the same in another form stays. Tells
/// whether there was one.
fn keep_equal_forms(mirror: &mut Mirror, job: &mut Job, plan: &Plan) -> Result<bool, Refusal> {
    let doubtful: Vec<(&RepoPath, BlobId, BlobId)> = plan
        .puts
        .iter()
        .filter_map(|put| Some((&put.path, put.replaces?, put.blob)))
        .filter(|(path, there, _)| !job.doubt.is_own(path, *there))
        .collect();
    if doubtful.is_empty() {
        return Ok(false);
    }
    // What was pushed before is not kept, but the clone may still have it.
    let ids: Vec<reverser_git::BlobId> = doubtful
        .iter()
        .flat_map(|(_, there, wanted)| [*there, *wanted])
        .filter(|blob| job.contents.get(*blob).is_none())
        .map(git_id)
        .collect();
    let blobs = mirror
        .blobs(&ids)
        .map_err(|error| refusals::fetch(&error))?;
    let content = |blob: BlobId| match job.contents.get(blob) {
        Some(content) => Some(content),
        None => std::str::from_utf8(blobs.found.get(&git_id(blob))?).ok(),
    };
    let says_the_same = |(_, there, wanted): &&(&RepoPath, BlobId, BlobId)| {
        let pair = content(*there).zip(content(*wanted));
        pair.is_some_and(|(file, wanted)| say_the_same(file, wanted))
    };
    let equal: Vec<_> = doubtful
        .iter()
        .filter(says_the_same)
        .map(|(path, there, wanted)| ((*path).clone(), (*there, *wanted)))
        .collect();
    if equal.is_empty() {
        return Ok(false);
    }
    let known = Arc::make_mut(&mut job.equal_in_form);
    if job.doubt.is_whole() {
        known.retain(|path, (_, blob)| {
            let wanted = job.wanted.get(path);
            wanted.is_some_and(|wanted| wanted.blob == *blob)
        });
    }
    known.extend(equal);
    Ok(true)
}

/// The difference for a job, without files that differ only in form and without what is refused.
fn plan_of<'t>(job: &mut Job, tree: impl IntoIterator<Item = TreeFile<'t>>) -> Plan {
    let mut plan = plan(&job.wanted, tree, &job.proofs, &job.policy);
    let mut refused: BTreeSet<RepoPath> = plan.refused.drain(..).collect();
    plan.retain_puts(|put| {
        let known = job.equal_in_form.get(&put.path);
        let differs =
            put.replaces.is_none() || known != put.replaces.map(|there| (there, put.blob)).as_ref();
        let aside = job.set_aside.get(&put.path);
        let is_aside = aside.is_some_and(|aside| {
            aside.blob == Some(put.blob) && !(aside.by_branch && job.doubt.is_whole())
        });
        if differs && is_aside {
            refused.insert(put.path.clone());
        }
        differs && !is_aside
    });
    // Somebody else may have brought the others where they belong.
    job.done.still_refused = job.doubt.is_whole().then_some(refused);
    plan
}
