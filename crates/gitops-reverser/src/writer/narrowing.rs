//! A server that refuses a push: which destination, and which object of it?
//!
//! Each destination is tried by itself, then halves of its changes, down to single objects. What
//! passes on the way is written, so that also an attempt that runs out of pushes gets somewhere.
//!
//! A server that refuses everything looks the same as one that refuses each object. Objects are set
//! aside only where something shows that it is about them: another push passed, or the server names
//! their content. Otherwise the push as a whole counts as refused, and is tried again.

use std::collections::BTreeMap;

use reverser_core::plan::DeleteProof;
use reverser_core::transition_log::{Share, without_steps};
use reverser_git::RefusalKind;

use super::attempt::{Attempt, Part, Tried};
use super::refusals::{by_server, depends_on_content, names_content};
use super::state::SetAside;
use crate::routing::Refusal;

/// So many pushes one attempt makes. One refused object among 10,000 takes about 30.
const MOST_PUSHES: usize = 48;
/// So many if none passes.
const MOST_IN_VAIN: usize = 20;

/// A single change that is refused.
struct Refused {
    part: Part,
    kind: RefusalKind,
    sentence: String,
}

impl Part {
    fn is_single(&self) -> bool {
        self.share.puts.len() + self.share.deletes.len() < 2
    }

    /// Both halves; nothing if it is a single change.
    fn halve(mut self) -> Option<(Self, Self)> {
        let Share {
            credit,
            puts,
            deletes,
        } = &mut self.share;
        let changes = puts.len() + deletes.len();
        if changes < 2 {
            return None;
        }
        let half = changes / 2;
        let later_deletes = if half <= puts.len() {
            std::mem::take(deletes)
        } else {
            deletes.split_off(half - puts.len())
        };
        let share = Share {
            credit: credit.clone(),
            puts: puts.split_off(half.min(puts.len())),
            deletes: later_deletes,
        };
        let second = Self {
            job: self.job,
            share,
        };
        Some((self, second))
    }
}

impl Attempt {
    /// Finds what a server refuses, and writes the rest.
    pub(super) fn narrow(
        &mut self,
        parts: Vec<Part>,
        refusal: &reverser_git::Refusal,
    ) -> Result<Tried, Refusal> {
        let mut sentence = refusal.reason.clone();
        let parts = Self::without_steps(parts);
        let (parts, whole): (Vec<Part>, Vec<Part>) = parts
            .into_iter()
            .partition(|part| depends_on_content(refusal.kind) && self.jobs[part.job].narrow);
        for part in whole {
            self.refuse_whole(part.job, &refusal.reason);
        }
        let mut open = Vec::new();
        let mut singles = Vec::new();
        let one_destination = parts.len() == 1;
        for part in parts.into_iter().rev() {
            if one_destination {
                divide(part, refusal, &mut open, &mut singles);
            } else {
                open.push(part);
            }
        }
        let mut passed = false;
        while let Some(mut part) = open.pop() {
            let most = if passed { MOST_PUSHES } else { MOST_IN_VAIN };
            if self.pushes >= most {
                open.push(part);
                break;
            }
            // An object that moved keeps its old file until the new one is there.
            if singles
                .iter()
                .any(|single: &Refused| single.part.job == part.job)
            {
                part.share
                    .deletes
                    .retain(|delete| delete.proof() != DeleteProof::Moved);
            }
            let mut tried = self.push(std::slice::from_ref(&part))?;
            if part.is_single()
                && let Tried::Refused(refusal) = &tried
                && depends_on_content(refusal.kind)
                && !names_content(refusal.kind)
            {
                tried = self.push_without_author(&part, refusal.clone())?;
            }
            match tried {
                Tried::Written => passed = true,
                Tried::Moved => return Ok(Tried::Moved),
                Tried::NotOurTurn => return Ok(Tried::NotOurTurn),
                Tried::Refused(refusal) if depends_on_content(refusal.kind) => {
                    sentence.clone_from(&refusal.reason);
                    divide(part, &refusal, &mut open, &mut singles);
                }
                Tried::Refused(refusal) => self.refuse_whole(part.job, &refusal.reason),
            }
        }
        self.judge(open, singles, passed, &sentence);
        Ok(Tried::Written)
    }

    /// The same changes with each file in one commit, so that one can be refused without the others.
    fn without_steps(parts: Vec<Part>) -> Vec<Part> {
        let mut of_jobs: BTreeMap<usize, Vec<Share>> = BTreeMap::new();
        for Part { job, share } in parts {
            of_jobs.entry(job).or_default().push(share);
        }
        let of_job = |(job, shares)| {
            let shares = without_steps(shares).into_iter();
            shares.map(move |share| Part { job, share })
        };
        of_jobs.into_iter().flat_map(of_job).collect()
    }

    fn judge(&mut self, open: Vec<Part>, singles: Vec<Refused>, passed: bool, sentence: &str) {
        let unproven = self.jobs.iter().flat_map(|job| job.set_aside.values());
        let unproven = unproven.filter(|set_aside| !set_aside.proven).count();
        let named = singles.iter().all(|single| names_content(single.kind));
        let only_one = singles.len() + unproven == 1 && self.has_pushed;
        let about_objects = passed || (open.is_empty() && (named || only_one));
        for Refused {
            part,
            kind,
            sentence,
        } in singles
        {
            if !about_objects {
                self.refuse_whole(part.job, &sentence);
                continue;
            }
            let Share { puts, deletes, .. } = part.share;
            let puts = puts.into_iter().map(|put| (put.path, Some(put.blob)));
            let deletes = deletes.into_iter();
            let deletes = deletes.map(|delete| (delete.path().clone(), None));
            let done = &mut self.jobs[part.job].done;
            for (path, blob) in puts.chain(deletes) {
                let set_aside = SetAside {
                    blob,
                    message: sentence.clone(),
                    proven: passed || names_content(kind),
                };
                done.deletes.retain(|deleted| *deleted != path);
                done.set_aside.push((path, set_aside));
            }
        }
        for part in open {
            if passed {
                // The next attempt goes on from here.
                self.jobs[part.job].done.failure = Some(by_server(sentence));
            } else {
                self.refuse_whole(part.job, sentence);
            }
        }
    }

    fn refuse_whole(&mut self, job: usize, sentence: &str) {
        let done = &mut self.jobs[job].done;
        done.failure = Some(by_server(sentence));
        done.refused_whole = true;
    }
}

/// Halves a refused part, or notes the single change that is refused.
fn divide(
    part: Part,
    refusal: &reverser_git::Refusal,
    open: &mut Vec<Part>,
    singles: &mut Vec<Refused>,
) {
    match part.clone().halve() {
        Some((first, second)) => {
            open.push(second);
            open.push(first);
        }
        None => singles.push(Refused {
            part,
            kind: refusal.kind,
            sentence: refusal.reason.clone(),
        }),
    }
}
