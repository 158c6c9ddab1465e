//! The search for what a server refuses, as far as it can be thought through without a server.
//!
//! A refused push is divided until single changes are left. Each step is one push, and what was found
//! out between two of them is a value: it outlives the attempt, so that a search that the pace of the
//! repository interrupts goes on where it was, and what has changed meanwhile is tried anew.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use reverser_core::blob_id::BlobId;
use reverser_core::plan::DeleteProof;
use reverser_core::repo_path::RepoPath;
use reverser_core::transition_log::{Share, without_steps};
use reverser_git::{Refusal, RefusalKind};

use super::attempt::Part;

/// After so many pushes of which none passed, it is not about single objects.
const MOST_IN_VAIN: usize = 20;
/// Where some have passed before, it may be about many objects beside one another.
const MOST_SINCE_ONE_PASSED: usize = 200;

/// A change as it is known again in a later attempt: the file, and its content unless it is to go.
type Known = (RepoPath, Option<BlobId>);

/// What attempts have found out so far about the changes of one destination.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Changes that are to be tried together, the next ones last.
    open: Vec<Group>,
    /// Single changes that are refused.
    refused: Vec<(Known, Complaint)>,
    passed: bool,
    in_vain: usize,
    fresh_first: bool,
    sentence: String,
    /// The server refuses authors, which are tried one by one; so many pushes were made for that.
    pub(super) authors: Option<(Refusal, usize)>,
}

#[derive(Debug)]
struct Group {
    changes: Vec<Known>,
    without_author: bool,
}

/// What a server said of a change.
#[derive(Clone, Debug)]
pub(super) struct Complaint {
    pub(super) kind: RefusalKind,
    pub(super) sentence: String,
}

/// Changes that are tried in one push.
pub(super) struct Open {
    pub(super) part: Part,
    /// It was refused with its author.
    pub(super) without_author: bool,
}

/// A single change that is refused.
pub(super) struct Refused {
    pub(super) part: Part,
    pub(super) by: Complaint,
}

/// A search that is under way.
#[derive(Default)]
pub(super) struct Search {
    /// The next one last.
    pub(super) open: Vec<Open>,
    pub(super) refused: Vec<Refused>,
    /// Whether the server has taken anything since it began.
    pub(super) passed: bool,
    /// How many pushes were refused since then, or since the last one that passed.
    in_vain: usize,
    /// Whether what nobody has tried yet comes before what is left of earlier attempts. In turns: where
    /// there is time for one push, changes that keep coming would leave none for the others.
    fresh_first: bool,
    /// What the server said last.
    pub(super) sentence: String,
}

impl Part {
    pub(super) fn is_single(&self) -> bool {
        self.share.puts.len() + self.share.deletes.len() < 2
    }

    fn changes(&self) -> Vec<Known> {
        let Share { puts, deletes, .. } = &self.share;
        let puts = puts.iter().map(|put| (put.path.clone(), Some(put.blob)));
        let deletes = deletes.iter().map(|delete| (delete.path().clone(), None));
        puts.chain(deletes).collect()
    }

    /// The same author's, without any change yet.
    fn emptied(&self) -> Self {
        Self {
            job: self.job,
            share: Share {
                credit: self.share.credit.clone(),
                puts: Vec::new(),
                deletes: Vec::new(),
            },
        }
    }

    /// Both halves; nothing if it is a single change.
    fn halve(mut self) -> Result<(Self, Self), Self> {
        let mut second = self.emptied();
        let Share { puts, deletes, .. } = &mut self.share;
        let changes = puts.len() + deletes.len();
        if changes < 2 {
            return Err(self);
        }
        let half = changes / 2;
        second.share.deletes = if half <= puts.len() {
            std::mem::take(deletes)
        } else {
            deletes.split_off(half - puts.len())
        };
        second.share.puts = puts.split_off(half.min(puts.len()));
        Ok((self, second))
    }
}

/// The same changes with each file in one commit, so that one can be refused without the others.
pub(super) fn flat(parts: Vec<Part>) -> Vec<Part> {
    let mut of_jobs: BTreeMap<usize, Vec<Share>> = BTreeMap::new();
    for Part { job, share } in parts {
        of_jobs.entry(job).or_default().push(share);
    }
    let of_job = |(job, shares)| {
        let shares = without_steps(shares).into_iter();
        shares.map(move |share| Part { job, share })
    };
    let parts = of_jobs.into_iter().flat_map(of_job);
    parts.filter(|part| !part.changes().is_empty()).collect()
}

impl Found {
    /// Whether there is no search for changes to go on with.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.refused.is_empty()
    }

    /// Whether the next attempt goes on with a search, for changes or for authors.
    pub(super) fn is_under_way(&self) -> bool {
        !self.is_empty() || self.authors.is_some()
    }
}

/// What became of changes in earlier attempts.
enum Spot {
    /// They are to be tried together, perhaps without their author.
    Open(bool),
    Refused(Complaint),
}

/// Where the search was with each change of each job.
#[derive(Default)]
struct Places {
    spots: Vec<Spot>,
    of: HashMap<(usize, Known), usize>,
}

impl Places {
    fn add(&mut self, job: usize, changes: Vec<Known>, spot: Spot) {
        let place = self.spots.len();
        let changes = changes.into_iter().map(|change| ((job, change), place));
        self.of.extend(changes);
        self.spots.push(spot);
    }

    /// The changes of each place; what nobody has tried yet has the place behind all others.
    fn divide(&self, part: Part) -> BTreeMap<usize, Part> {
        let mut divided = BTreeMap::new();
        let none = part.emptied();
        let Part { job, share } = part;
        let place = |path: &RepoPath, blob| {
            let known = self.of.get(&(job, (path.clone(), blob)));
            known.copied().unwrap_or(self.spots.len())
        };
        for put in share.puts {
            let there = divided.entry(place(&put.path, Some(put.blob)));
            there.or_insert_with(|| none.clone()).share.puts.push(put);
        }
        for delete in share.deletes {
            let there = divided.entry(place(delete.path(), None));
            let there = there.or_insert_with(|| none.clone());
            there.share.deletes.push(delete);
        }
        divided
    }
}

impl Search {
    /// These were refused together.
    pub(super) fn begin(parts: Vec<Part>, refusal: &Refusal) -> Self {
        let open = parts.into_iter().rev().map(|part| Open {
            part,
            without_author: false,
        });
        Self {
            open: open.collect(),
            sentence: refusal.reason.clone(),
            ..Self::default()
        }
    }

    /// Goes on with what was found out for each job, where it is about changes that are still to be
    /// made; nothing if it is about none of them.
    pub(super) fn go_on(found: Vec<Found>, parts: &[Part]) -> Option<Self> {
        let mut search = Self::default();
        let mut places = Places::default();
        for (job, found) in found.into_iter().enumerate() {
            if found.is_empty() {
                continue;
            }
            search.passed |= found.passed;
            search.in_vain = search.in_vain.max(found.in_vain);
            search.fresh_first = !found.fresh_first;
            search.sentence = found.sentence;
            for group in found.open {
                places.add(job, group.changes, Spot::Open(group.without_author));
            }
            for (change, by) in found.refused {
                places.add(job, vec![change], Spot::Refused(by));
            }
        }
        if places.spots.is_empty() {
            return None;
        }
        let parts = flat(parts.to_vec()).into_iter();
        let mut divided: Vec<_> = parts.flat_map(|part| places.divide(part)).collect();
        let fresh = places.spots.len();
        if divided.iter().all(|(place, _)| *place == fresh) {
            return None;
        }
        // The next one is the last.
        divided.sort_by_key(|(place, _)| ((*place == fresh) == search.fresh_first, *place));
        for (place, part) in divided {
            let without_author = match places.spots.get(place) {
                Some(Spot::Refused(by)) => {
                    let by = by.clone();
                    search.refused.push(Refused { part, by });
                    continue;
                }
                Some(Spot::Open(without_author)) => *without_author,
                None => false,
            };
            search.open.push(Open {
                part,
                without_author,
            });
        }
        Some(search)
    }

    /// What is pushed next; nothing when all is found, or when it is in vain.
    pub(super) fn next(&self) -> Option<(Part, bool)> {
        let next = self.open.last().filter(|_| !self.is_in_vain())?;
        let mut part = next.part.clone();
        // An object that moved keeps its old file until the new one is there.
        let mut refused = self.refused.iter();
        if refused.any(|refused| refused.part.job == part.job) {
            let deletes = &mut part.share.deletes;
            deletes.retain(|delete| delete.proof() != DeleteProof::Moved);
        }
        Some((part, next.without_author))
    }

    /// So many pushes were refused that it is not about single objects.
    pub(super) fn is_in_vain(&self) -> bool {
        let most = if self.passed {
            MOST_SINCE_ONE_PASSED
        } else {
            MOST_IN_VAIN
        };
        self.in_vain >= most
    }

    /// Whether what was refused was refused for what it is: the server took something else lately, or
    /// all of it was looked through before it would have been in vain.
    pub(super) fn is_about_objects(&self) -> bool {
        self.passed && (self.in_vain < MOST_IN_VAIN || self.open.is_empty())
    }

    /// The next one is not tried any more.
    pub(super) fn give_up(&mut self) {
        self.open.pop();
    }

    /// The server has taken the next one.
    pub(super) fn pass(&mut self) {
        self.open.pop();
        self.passed = true;
        self.in_vain = 0;
    }

    /// The server has refused the next one, but perhaps only its author.
    pub(super) fn retry_without_author(&mut self, refusal: &Refusal) {
        self.note(refusal);
        if let Some(next) = self.open.last_mut() {
            next.without_author = true;
        }
    }

    fn note(&mut self, refusal: &Refusal) {
        self.in_vain += 1;
        self.sentence.clone_from(&refusal.reason);
    }

    /// The server has refused the next one: both halves are tried, or the single change is found.
    pub(super) fn refuse(&mut self, refusal: &Refusal) {
        self.note(refusal);
        let Some(Open { part, .. }) = self.open.pop() else {
            return;
        };
        match part.halve() {
            Ok((first, second)) => {
                let halves = [second, first].map(|part| Open {
                    part,
                    without_author: false,
                });
                self.open.extend(halves);
            }
            Err(part) => self.refused.push(Refused {
                part,
                by: Complaint {
                    kind: refusal.kind,
                    sentence: refusal.reason.clone(),
                },
            }),
        }
    }

    /// How many files of each job are not settled.
    pub(super) fn left(&self) -> BTreeMap<usize, usize> {
        let mut left = BTreeMap::new();
        let open = self.open.iter().map(|open| &open.part);
        let refused = self.refused.iter().map(|refused| &refused.part);
        for part in open.chain(refused) {
            *left.entry(part.job).or_default() += part.changes().len();
        }
        left
    }

    /// What the next attempt needs to know to go on, for each of so many jobs.
    pub(super) fn keep(self, jobs: usize) -> Vec<Found> {
        let Self {
            open,
            refused,
            passed,
            in_vain,
            fresh_first,
            sentence,
        } = self;
        let mut found: Vec<Found> = Vec::new();
        found.resize_with(jobs, || Found {
            passed,
            in_vain,
            fresh_first,
            sentence: sentence.clone(),
            ..Found::default()
        });
        for Open {
            part,
            without_author,
        } in open
        {
            let changes = part.changes();
            found[part.job].open.push(Group {
                changes,
                without_author,
            });
        }
        for Refused { part, by } in refused {
            let changes = part.changes().into_iter();
            let refused = changes.map(|change| (change, by.clone()));
            found[part.job].refused.extend(refused);
        }
        found
    }
}
