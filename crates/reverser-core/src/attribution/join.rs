//! Which record is of which change.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::store::Stored;
use crate::admission_record::{AdmittedChange, FormId, Requester};
use crate::blob_id::BlobId;

/// So long after the question a deletion or a scaling may be seen. They have no content by which the
/// one that came true could be told from one that was refused, so that a record must not wait for
/// somebody else's.
const WITHOUT_CONTENT: Duration = Duration::from_secs(10);

/// What the watch showed of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transition {
    /// It was made just now.
    Created {
        /// In this form.
        new: FormId,
    },
    /// It changed just now.
    Updated {
        /// The version that the watch showed before.
        replaced: Box<str>,
        /// The form that it has now.
        new: FormId,
        /// The number of replicas that it has now, if nothing else is different from before.
        scaled_to: Option<i64>,
    },
    /// It was marked as being deleted just now, or is gone without having been marked.
    Deleting {
        /// The version that the watch showed before.
        version: Box<str>,
        /// The uids of the objects that own it.
        owners: Box<[Box<str>]>,
        /// Where it is.
        namespace: Option<Box<str>>,
    },
    /// A list shows it in another form than it had, and single changes were not seen.
    Listed {
        /// What was known before.
        before: Before,
        /// The form that it has now.
        new: FormId,
    },
}

/// What was known of an object before a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Before {
    /// Nothing: what the branch holds tells.
    Unknown,
    /// That it was not there.
    Absent,
    /// Its form.
    Form {
        /// The form.
        blob: BlobId,
        /// The version of that time.
        version: Box<str>,
    },
}

/// How it is known whose change it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum How {
    /// The record is of this very change.
    Exact,
    /// All changes since what was known before are by the same user.
    Coalesced,
}

/// Whose change it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// This user's.
    Named(Arc<Requester>, How),
    /// One of several users'.
    Ambiguous,
    /// No record fits.
    Unseen,
}

/// Whose change it is that was seen at this time, by the records of its object.
pub(super) fn join<'r>(
    transition: &Transition,
    seen: Instant,
    records: impl Iterator<Item = &'r Stored>,
) -> Verdict {
    match transition {
        Transition::Listed {
            before: Before::Unknown,
            ..
        } => Verdict::Unseen,
        Transition::Listed {
            before: Before::Absent,
            new,
        } => Chain::leading_to(*new, records).from(None),
        Transition::Listed {
            before: Before::Form { blob, version },
            new,
        } => {
            let since = records.filter(|stored| !replaced_before(stored, version));
            Chain::leading_to(*new, since).from(Some(*blob))
        }
        live => one_user(
            records
                .filter(|stored| is_timely(stored, seen) && fits(live, &stored.change))
                .map(|stored| &stored.user),
            How::Exact,
        ),
    }
}

fn is_timely(stored: &Stored, seen: Instant) -> bool {
    stored.change.has_content() || seen.saturating_duration_since(stored.since) <= WITHOUT_CONTENT
}

fn fits(transition: &Transition, change: &AdmittedChange) -> bool {
    match (transition, change) {
        (Transition::Created { new }, AdmittedChange::Create { new: asked }) => new == asked,
        (
            Transition::Updated { replaced, new, .. },
            AdmittedChange::Update {
                replaced: asked_of,
                new: asked,
                ..
            },
        ) => **replaced == **asked_of && new == asked,
        (
            Transition::Updated {
                replaced,
                scaled_to,
                ..
            },
            AdmittedChange::Scale {
                replaced: asked_of,
                replicas,
            },
        ) => **replaced == **asked_of && *scaled_to == Some(*replicas),
        (Transition::Deleting { version, .. }, AdmittedChange::Delete { version: asked_of }) => {
            **version == **asked_of
        }
        _ => false,
    }
}

/// Whether an attempt was about an older version than this one. Where versions are no numbers, that
/// cannot be told.
fn replaced_before(stored: &Stored, version: &str) -> bool {
    let AdmittedChange::Update { replaced, .. } = &stored.change else {
        return false;
    };
    let number = |version: &str| version.parse::<u64>().ok();
    number(replaced)
        .zip(number(version))
        .is_some_and(|(replaced, version)| replaced < version)
}

fn one_user<'r>(mut users: impl Iterator<Item = &'r Arc<Requester>>, how: How) -> Verdict {
    let Some(first) = users.next() else {
        return Verdict::Unseen;
    };
    if users.all(|user| user.name() == first.name()) {
        Verdict::Named(first.clone(), how)
    } else {
        Verdict::Ambiguous
    }
}

/// Attempts that may have led to a form, one after the other.
#[derive(Debug)]
pub(super) struct Chain {
    steps: Vec<Step>,
    end: BlobId,
}

#[derive(Debug)]
struct Step {
    /// Nothing for a creation.
    from: Option<BlobId>,
    to: BlobId,
    user: Arc<Requester>,
}

impl Chain {
    /// The attempts that can lead to this form. The last of them has to be the one that left its mark
    /// on the object.
    pub(super) fn leading_to<'r>(end: FormId, records: impl Iterator<Item = &'r Stored>) -> Self {
        let steps = records.filter_map(|stored| {
            let (from, to) = match &stored.change {
                AdmittedChange::Create { new } => (None, new),
                AdmittedChange::Update { old, new, .. } => (Some(*old), new),
                AdmittedChange::Scale { .. } | AdmittedChange::Delete { .. } => return None,
            };
            let usable = to.blob != end.blob || to.managers == end.managers;
            usable.then(|| Step {
                from,
                to: to.blob,
                user: stored.user.clone(),
            })
        });
        Self {
            steps: steps.collect(),
            end: end.blob,
        }
    }

    /// Whose changes they are that lead from one form to the end, whichever way they went.
    pub(super) fn from(&self, start: Option<BlobId>) -> Verdict {
        if start == Some(self.end) {
            return Verdict::Unseen;
        }
        let after = self.reached(start, |step| (step.from, Some(step.to)));
        let before = self.reached(Some(self.end), |step| (Some(step.to), step.from));
        let on_the_way = self
            .steps
            .iter()
            .filter(|step| after.contains(&step.from) && before.contains(&Some(step.to)));
        one_user(on_the_way.map(|step| &step.user), How::Coalesced)
    }

    /// Everything that can be reached by such steps.
    fn reached(
        &self,
        start: Option<BlobId>,
        ends: impl Fn(&Step) -> (Option<BlobId>, Option<BlobId>),
    ) -> HashSet<Option<BlobId>> {
        let mut reached = HashSet::from([start]);
        loop {
            let known = reached.len();
            for step in &self.steps {
                let (from, to) = ends(step);
                if reached.contains(&from) {
                    reached.insert(to);
                }
            }
            if reached.len() == known {
                return reached;
            }
        }
    }
}
