//! A server that refuses a push: which destination, and which object of it?
//!
//! Each destination is tried by itself, then halves of its changes, down to single objects. What
//! passes on the way is written, so that also an attempt that runs out of pushes gets somewhere, and
//! what it found out is kept for the next one. It never waits for the pace of the repository: others
//! may write the branch meanwhile.
//!
//! A server that refuses everything looks the same as one that refuses each object. Objects are set
//! aside only where something shows that it is about them: another push passed, or the server names
//! their content. Otherwise the push as a whole counts as refused, and is tried again.

use reverser_core::transition_log::Share;
use reverser_git::RefusalKind;

use super::attempt::{Attempt, Part, Tried};
use super::refusals::{by_server, depends_on_content, names_content, searching};
use super::search::{Refused, Search, flat};
use super::state::SetAside;
use crate::routing::Refusal;

/// So many pushes one attempt makes. One refused object among 10,000 takes about 30.
const MOST_PUSHES: usize = 48;

impl Attempt {
    /// Finds what a server refuses, and writes the rest.
    pub(super) fn narrow(
        &mut self,
        parts: Vec<Part>,
        refusal: &reverser_git::Refusal,
    ) -> Result<Tried, Refusal> {
        if !depends_on_content(refusal.kind) {
            for part in parts {
                self.fail(part.job, &refusal.reason);
            }
            return Ok(Tried::Written);
        }
        let (parts, whole): (Vec<Part>, Vec<Part>) = flat(parts)
            .into_iter()
            .partition(|part| self.jobs[part.job].narrow);
        // Pushed with others, it may be refused because of them.
        let alone = whole.is_empty() && parts.len() == 1;
        for part in whole {
            self.refuse_whole(part.job, &refusal.reason);
        }
        let mut search = Search::begin(parts, refusal);
        if let Some((part, without_author)) = search.next().filter(|_| alone) {
            self.refuse(&mut search, &part, without_author, refusal);
        }
        self.search(search)
    }

    /// Goes on with a search until it has come to its end, or may make no more pushes for now.
    pub(super) fn search(&mut self, mut search: Search) -> Result<Tried, Refusal> {
        let tried = self.push_and_divide(&mut search);
        if let Ok(tried @ (Tried::Written | Tried::Later)) = &tried {
            self.judge(&mut search, matches!(tried, Tried::Later));
        }
        let found = search.keep(self.jobs.len());
        for (job, found) in self.jobs.iter_mut().zip(found) {
            job.found = found;
        }
        tried
    }

    fn push_and_divide(&mut self, search: &mut Search) -> Result<Tried, Refusal> {
        while let Some((part, without_author)) = search.next() {
            if self.pushes >= MOST_PUSHES {
                break;
            }
            let before = self.pushes;
            let tried = if without_author {
                self.push_without_author(&part)?
            } else {
                self.push(std::slice::from_ref(&part))?
            };
            match tried {
                Tried::Written if self.pushes > before => search.pass(),
                // Nothing of it could be pushed, which its job says.
                Tried::Written => search.give_up(),
                Tried::Refused(refusal) => {
                    self.refuse(search, &part, without_author, &refusal);
                }
                ends => return Ok(ends),
            }
        }
        Ok(Tried::Written)
    }

    /// What follows from a push that was refused.
    fn refuse(
        &mut self,
        search: &mut Search,
        part: &Part,
        without_author: bool,
        refusal: &reverser_git::Refusal,
    ) {
        if refusal.kind == RefusalKind::Author && self.refuse_author(part, &refusal.reason) {
            // The same is tried again, now with the operator as its author.
            return;
        }
        if !depends_on_content(refusal.kind) {
            self.fail(part.job, &refusal.reason);
            return search.give_up();
        }
        if !self.jobs[part.job].narrow {
            self.refuse_whole(part.job, &refusal.reason);
            return search.give_up();
        }
        let perhaps_its_author = part.is_single() && !names_content(refusal.kind);
        if perhaps_its_author && !without_author && self.has_author(part) {
            return search.retry_without_author(refusal);
        }
        search.refuse(refusal);
    }

    /// What is known now: objects that are set aside, and destinations whose changes are refused or
    /// still looked through.
    fn judge(&mut self, search: &mut Search, paused: bool) {
        let unproven = self.jobs.iter().flat_map(|job| job.set_aside.values());
        let unproven = unproven.filter(|set_aside| !set_aside.proven).count();
        let named = search.refused.iter();
        let named = named.map(|refused| refused.by.kind).all(names_content);
        let only_one = search.refused.len() + unproven == 1 && self.has_pushed;
        let ends = search.open.is_empty() || search.is_in_vain();
        let about_objects = search.is_about_objects();
        if about_objects || (search.open.is_empty() && (named || only_one)) {
            for refused in search.refused.drain(..) {
                self.put_aside(refused, about_objects);
            }
        }
        if ends {
            for Refused { part, by } in search.refused.drain(..) {
                self.refuse_whole(part.job, &by.sentence);
            }
            for open in search.open.drain(..) {
                self.refuse_whole(open.part.job, &search.sentence);
            }
        }
        for (job, left) in search.left() {
            let done = &mut self.jobs[job].done;
            done.failure = Some(searching(&search.sentence, left));
            done.paused = paused;
            done.planned = left;
        }
    }

    fn put_aside(&mut self, refused: Refused, passed: bool) {
        let Refused { part, by } = refused;
        let Share { puts, deletes, .. } = part.share;
        let puts = puts.into_iter().map(|put| (put.path, Some(put.blob)));
        let deletes = deletes.into_iter();
        let deletes = deletes.map(|delete| (delete.path().clone(), None));
        let done = &mut self.jobs[part.job].done;
        for (path, blob) in puts.chain(deletes) {
            let set_aside = SetAside {
                blob,
                message: by.sentence.clone(),
                proven: passed || names_content(by.kind),
                by_branch: false,
            };
            done.deletes.retain(|deleted| *deleted != path);
            done.set_aside.push((path, set_aside));
        }
    }

    /// Nothing shows that it is about single objects.
    fn refuse_whole(&mut self, job: usize, sentence: &str) {
        self.fail(job, sentence);
        self.jobs[job].done.refused_whole = true;
    }

    fn fail(&mut self, job: usize, sentence: &str) {
        self.jobs[job].done.failure = Some(by_server(sentence));
    }
}
