//! The changes that a destination was told of since its last push, in order, and the commits that
//! they become on top of what the branch holds.
//!
//! What is written is always the whole difference between what is wanted and what is there; the log
//! only says in which steps and by whom. What it does not explain is the operator's, and a log that is
//! lost loses names and never state.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::admission_record::Requester;
use crate::attribution::{How, Origin, Verdict};
use crate::blob_id::BlobId;
use crate::plan::{Delete, DeleteProof, Plan, Put};
use crate::repo_path::RepoPath;

/// So many changes are kept for one destination. While a remote is down for hours, the oldest lose
/// their names.
pub const MOST_CHANGES: usize = 5_000;
/// So many commits back, a commit of the same author is looked for that can take one more change.
const LOOK_BACK: usize = 32;

/// One change to one file.
#[derive(Clone, Debug)]
pub struct Change {
    /// Which file.
    pub path: RepoPath,
    /// What it was to hold before.
    pub old: Option<BlobId>,
    /// What it is to hold now.
    pub new: Option<BlobId>,
    /// Whose change it is.
    pub origin: Arc<Origin>,
    /// When it was told.
    pub at: Instant,
}

/// Changes since the last push.
#[derive(Debug, Default)]
pub struct TransitionLog(VecDeque<Change>);

impl TransitionLog {
    /// One more change.
    pub fn push(&mut self, change: Change) {
        self.0.push_back(change);
        if self.0.len() > MOST_CHANGES {
            self.0.pop_front();
        }
    }

    /// Until when it is worth waiting for the names of changes, if that is later than a given time.
    /// What changed after that time is not waited for: there would be no end of it.
    #[must_use]
    pub fn worth_waiting(&self, due: Instant, grace: Duration) -> Instant {
        let mut young = self
            .0
            .iter()
            .rev()
            .skip_while(|change| change.at > due)
            .take_while(|change| change.at + grace > due);
        let nameless = young.find(|change| !change.origin.is_settled());
        nameless.map_or(due, |change| change.at + grace)
    }

    /// Takes all changes out.
    #[must_use]
    pub fn take(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.0).into()
    }

    /// These changes were not written: they stand before the newer ones again.
    pub fn put_back(&mut self, changes: Vec<Change>) {
        for change in changes.into_iter().rev() {
            if self.0.len() == MOST_CHANGES {
                break;
            }
            self.0.push_front(change);
        }
    }
}

/// Whose changes a commit holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credit {
    /// A user's.
    User {
        /// Who.
        user: Arc<Requester>,
        /// How that is known.
        how: How,
        /// On whose behalf a controller deleted something.
        behalf: Option<Arc<Requester>>,
    },
    /// Somebody's.
    Unknown {
        /// The name that the client gave itself.
        manager: Option<String>,
    },
    /// Nobody's in particular: the branch is brought in line with the cluster.
    Reconcile,
}

impl Credit {
    fn of(origin: &Origin, there: Option<BlobId>) -> Self {
        match origin.verdict(there) {
            (Verdict::Named(user, how), behalf) => Self::User { user, how, behalf },
            (Verdict::Ambiguous | Verdict::Unseen, _) => Self::Unknown {
                manager: origin.manager().map(str::to_owned),
            },
        }
    }
}

/// The changes of one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Whose they are.
    pub credit: Credit,
    /// Files to write.
    pub puts: Vec<Put>,
    /// Files to delete.
    pub deletes: Vec<Delete>,
}

/// What the branch allows to be said about single changes.
pub struct Ground<'a> {
    /// Files that say the same as what is wanted in another form: (there, wanted).
    pub equal_in_form: &'a HashMap<RepoPath, (BlobId, BlobId)>,
    /// The contents that can still be written.
    pub available: &'a dyn Available,
    /// Whether a file may go for a moment before another object of that name takes its place.
    pub deletes_between: bool,
}

/// Contents that can still be written.
pub trait Available {
    /// Whether this one can.
    fn has(&self, blob: BlobId) -> bool;
}

/// How far one file has come.
struct Course<'p> {
    /// What the commits so far have made of it.
    laid: Option<BlobId>,
    /// What the next change in the log has to begin with.
    known: Option<BlobId>,
    end: End<'p>,
}

#[derive(Clone, Copy)]
enum End<'p> {
    Put(&'p Put),
    Delete(&'p Delete),
}

impl End<'_> {
    fn blob(self) -> Option<BlobId> {
        match self {
            Self::Put(put) => Some(put.blob),
            Self::Delete(_) => None,
        }
    }

    /// The deletion of what is there, if the file may go.
    fn delete(self, deletes_between: bool) -> Option<Delete> {
        match self {
            Self::Delete(delete) => Some(delete.clone()),
            Self::Put(put) if deletes_between => put.delete_before(),
            Self::Put(_) => None,
        }
    }
}

/// One commit while it grows.
struct Draft {
    credit: Credit,
    files: BTreeMap<RepoPath, Step>,
}

struct Step {
    from: Option<BlobId>,
    to: Option<BlobId>,
    /// The deletion, if that is what it is.
    delete: Option<Delete>,
}

/// The commits that bring a branch in line, in order: each user's changes by themselves, several
/// changes to one file in the order in which they happened.
#[must_use]
pub fn lay(log: &[Change], plan: &Plan, ground: &Ground<'_>) -> Vec<Share> {
    let moved = moved_files(plan);
    let mut courses: HashMap<&RepoPath, Course<'_>> = HashMap::new();
    for put in &plan.puts {
        courses.insert(&put.path, Course::of(put.replaces, End::Put(put)));
    }
    for delete in &plan.deletes {
        courses.insert(
            delete.path(),
            Course::of(Some(delete.blob()), End::Delete(delete)),
        );
    }
    let mut drafts: Vec<Draft> = Vec::new();
    for change in log {
        if moved.contains(change.path.as_str()) {
            continue;
        }
        if let Some(course) = courses.get_mut(&change.path)
            && let Some(step) = course.take(change, ground)
        {
            let credit = Credit::of(&change.origin, step.from);
            add(&mut drafts, credit, &change.path, step);
        }
    }
    let mut rest = Draft {
        credit: Credit::Reconcile,
        files: BTreeMap::new(),
    };
    for (path, course) in courses {
        if course.laid != course.end.blob() {
            let step = Step {
                from: course.laid,
                to: course.end.blob(),
                delete: course.end.delete(false),
            };
            rest.files.insert(path.clone(), step);
        }
    }
    drafts.push(rest);
    drafts
        .into_iter()
        .map(Draft::finish)
        .filter(|share| !share.puts.is_empty() || !share.deletes.is_empty())
        .collect()
}

/// The same changes with each file in one commit only: what several users did to one file is nobody's
/// then. The commits can be written in any order, or without each other.
#[must_use]
pub fn without_steps(shares: Vec<Share>) -> Vec<Share> {
    let mut files: BTreeMap<RepoPath, (Credit, Step)> = BTreeMap::new();
    for Share {
        credit,
        puts,
        deletes,
    } in shares
    {
        let puts = puts.into_iter().map(|put| {
            let step = Step {
                from: put.replaces,
                to: Some(put.blob),
                delete: None,
            };
            (put.path, step)
        });
        let deletes = deletes.into_iter().map(|delete| {
            let path = delete.path().clone();
            let step = Step {
                from: Some(delete.blob()),
                to: None,
                delete: Some(delete),
            };
            (path, step)
        });
        for (path, step) in puts.chain(deletes) {
            match files.get_mut(&path) {
                Some((known, before)) => {
                    if *known != credit {
                        *known = Credit::Unknown { manager: None };
                    }
                    before.to = step.to;
                    before.delete = step.delete;
                }
                None => {
                    files.insert(path, (credit.clone(), step));
                }
            }
        }
    }
    let mut drafts: Vec<Draft> = Vec::new();
    for (path, (credit, step)) in files {
        match drafts.iter_mut().find(|draft| draft.credit == credit) {
            Some(draft) => {
                draft.files.insert(path, step);
            }
            None => drafts.push(Draft {
                credit,
                files: BTreeMap::from([(path, step)]),
            }),
        }
    }
    drafts.into_iter().map(Draft::finish).collect()
}

impl<'p> Course<'p> {
    fn of(there: Option<BlobId>, end: End<'p>) -> Self {
        Self {
            laid: there,
            known: there,
            end,
        }
    }

    /// One change of the log, if it goes on from here.
    fn take(&mut self, change: &Change, ground: &Ground<'_>) -> Option<Step> {
        let equal = |there: Option<BlobId>, wanted: Option<BlobId>| {
            let pair = ground.equal_in_form.get(&change.path);
            there == wanted || (pair.copied() == there.zip(wanted) && pair.is_some())
        };
        // An object that is gone is gone, whatever its file said; and where only the branch tells what
        // there was before, a change begins with that.
        let goes_on = change.new.is_none()
            || change.origin.begins_with_the_branch()
            || equal(self.known, change.old);
        if !goes_on {
            return None;
        }
        let delete = match change.new {
            None => self.end.delete(ground.deletes_between),
            Some(blob) => {
                let is_end = self.end.blob() == Some(blob);
                if !is_end && !ground.available.has(blob) {
                    return None;
                }
                None
            }
        };
        self.known = change.new;
        if self.laid == change.new || (change.new.is_none() && delete.is_none()) {
            return None;
        }
        let from = std::mem::replace(&mut self.laid, change.new);
        Some(Step {
            from,
            to: change.new,
            delete,
        })
    }
}

/// Adds a change to the latest commit of the same author, unless a later one has the same file.
fn add(drafts: &mut Vec<Draft>, credit: Credit, path: &RepoPath, step: Step) {
    for draft in drafts.iter_mut().rev().take(LOOK_BACK) {
        if draft.credit == credit {
            let from = draft
                .files
                .get(path)
                .map_or(step.from, |before| before.from);
            draft.files.insert(path.clone(), Step { from, ..step });
            return;
        }
        if draft.files.contains_key(path) {
            break;
        }
    }
    drafts.push(Draft {
        credit,
        files: BTreeMap::from([(path.clone(), step)]),
    });
}

impl Draft {
    fn finish(self) -> Share {
        let mut share = Share {
            credit: self.credit,
            puts: Vec::new(),
            deletes: Vec::new(),
        };
        for (path, Step { from, to, delete }) in self.files {
            match to {
                Some(blob) if from != to => share.puts.push(Put {
                    path,
                    blob,
                    replaces: from,
                }),
                Some(_) => {}
                None => share.deletes.extend(delete.filter(|_| from.is_some())),
            }
        }
        share
    }
}

/// Files whose objects live at another path now: both halves belong into one commit.
fn moved_files(plan: &Plan) -> HashSet<String> {
    let mut moved = HashSet::new();
    let resource_and_rest = |path: &str| {
        let mut components = path.splitn(3, '/');
        let (group, _, rest) = (components.next()?, components.next()?, components.next()?);
        Some(format!("{group}/{rest}"))
    };
    let deletes = plan.deletes.iter();
    let from: HashSet<String> = deletes
        .filter(|delete| delete.proof() == DeleteProof::Moved)
        .filter_map(|delete| resource_and_rest(delete.path().as_str()))
        .collect();
    if from.is_empty() {
        return moved;
    }
    let puts = plan.puts.iter().map(|put| put.path.as_str());
    let deletes = plan.deletes.iter().map(|delete| delete.path().as_str());
    for path in puts.chain(deletes) {
        if resource_and_rest(path).is_some_and(|place| from.contains(&place)) {
            moved.insert(path.to_owned());
        }
    }
    moved
}
