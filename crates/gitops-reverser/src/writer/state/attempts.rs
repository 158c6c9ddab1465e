//! What an attempt is given, and what comes back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reverser_core::plan::{Proofs, PruneMode, PrunePolicy, Wanted};
use reverser_core::repo_path::RepoPath;
use reverser_git::{CommitId, Person};

use super::{DestinationState, EVENT_TIMES, SetAside};
use crate::identity::Id;
use crate::routing::Refusal;
use crate::writer::WriterSettings;
use crate::writer::attempt::{Done, Gone, Job};
use crate::writer::doubt::Doubt;
use crate::writer::owner::Owner;
use crate::writer::pace::after_failures;

impl DestinationState {
    /// What an attempt needs to know; nothing while writing is stopped.
    pub(in crate::writer) fn begin(
        &mut self,
        id: &Id,
        settings: &WriterSettings,
        now: Instant,
    ) -> Option<Job> {
        if self.pending || self.not_before.is_some_and(|earliest| earliest > now) {
            return None;
        }
        self.taken.put_back(self.window.take());
        if self.destination.suspend {
            return None;
        }
        if self.stopped.is_some() {
            self.doubt = Doubt::Whole;
        }
        self.unwritten.begin();
        self.unconfirmed.take();
        let doubt = std::mem::take(&mut self.doubt);
        let holds_back =
            settings.deletes_cap.is_some() || self.destination.prune == PruneMode::Never;
        let doubt = doubt.settle(&self.proofs, holds_back);
        let all_is_known = self.unknown.is_empty();
        let wanted_now = &self.wanted;
        let gone = self
            .absences
            .gone(now, |path| wanted_now.contains_key(path));
        let refused = self.set_aside.iter();
        let refused = refused.filter(|(_, aside)| aside.blob.is_none() && !aside.by_branch);
        let refused = refused.map(|(path, _)| path.clone()).collect();
        let (wanted, proofs) = match &doubt {
            Doubt::Whole => (self.wanted.clone(), self.proofs.clone()),
            Doubt::At(paths) => self.only(paths.keys()),
        };
        Some(Job {
            id: id.clone(),
            folder: self.destination.folder.clone(),
            wanted,
            proofs,
            doubt,
            policy: PrunePolicy {
                mode: self.destination.prune,
                cap: settings.deletes_cap,
                guard: self.destination.guard,
                acknowledged: self.destination.acknowledged.clone(),
                shown: self.shown.clone(),
                other_cluster: None,
                gone,
                holds_absent: self.absences.holds(all_is_known, now) && self.destination.guard,
                refused,
            },
            contents: std::mem::take(&mut self.contents),
            equal_in_form: self.equal_in_form.clone(),
            set_aside: self.set_aside.clone(),
            first_mirror: !self.is_mirrored(),
            round: self.round,
            commit: self.destination.commit.clone(),
            log: self.log.take(),
            refused_authors: self.refused_authors.clone(),
            committer: self.committer(&settings.committer),
            narrow: !self.refused_whole,
            settings: self.settings,
            found: std::mem::take(&mut self.found),
            events: std::mem::take(&mut self.events),
            owner: Owner::new(&self.destination, self.foreign_owner.clone()),
            done: Done::default(),
        })
    }

    /// What is wanted and known of these paths alone.
    fn only<'p>(
        &self,
        paths: impl Iterator<Item = &'p RepoPath>,
    ) -> (Arc<BTreeMap<RepoPath, Wanted>>, Proofs) {
        let mut wanted = BTreeMap::new();
        let mut proofs = Proofs::default();
        for path in paths {
            if let Some(content) = self.wanted.get(path) {
                wanted.insert(path.clone(), *content);
            }
            if let Some(proof) = self.proofs.of_file.get(path) {
                proofs.of_file.insert(path.clone(), *proof);
            }
        }
        (Arc::new(wanted), proofs)
    }

    fn committer(&self, default: &Person) -> Person {
        let own = &self.destination.commit;
        let name = own.committer_name.as_deref().unwrap_or(default.name());
        let email = own.committer_email.as_deref().unwrap_or(default.email());
        // Routing lets only those through that a commit can carry.
        Person::new(name, email).unwrap_or_else(|_| default.clone())
    }

    /// The attempt ended before it came to this destination: its batch waits on.
    pub(in crate::writer) fn put_back(&mut self, job: Job) {
        let may_have_written = job.done.may_have_written;
        self.unwritten
            .end(may_have_written, &self.wanted, &mut self.proofs);
        let taken = self.taken.take();
        self.window.put_back(taken);
        self.unconfirmed.put_back(&self.wanted);
        // Nobody knows what the branch holds now, so also a quiet one has to be looked at.
        self.doubt = Doubt::Whole;
        if self.window.files() == 0 {
            self.window.add(0, Instant::now());
        }
        self.contents.merge(job.contents);
        self.log.put_back(job.log);
        if job.settings == self.settings {
            self.refused_authors = job.refused_authors;
            self.found = job.found;
        }
        self.put_back_events(job.events);
        self.note_gone(job.done.gone, Instant::now());
        self.note_pushed(job.done.pushed);
    }

    /// What a person has released does not count any more, and neither does what went before it.
    fn note_gone(&mut self, gone: Gone, now: Instant) {
        if gone.released && !gone.files.is_empty() {
            self.absences.forget_gone();
        } else {
            self.absences.went(gone.files, now);
        }
    }

    fn put_back_events(&mut self, events: Vec<Instant>) {
        self.events.splice(0..0, events);
        self.events.truncate(EVENT_TIMES);
    }

    fn note_pushed(&mut self, pushed: Option<(CommitId, i64)>) {
        if let Some((commit, time)) = pushed {
            self.last_commit = Some(commit);
            self.last_push = Some(time);
        }
    }

    /// Takes what an attempt did; tells whether contents are missing.
    pub(in crate::writer) fn finish(&mut self, job: Job, now: Instant) -> bool {
        let Job {
            mut contents,
            equal_in_form,
            events,
            proofs,
            policy,
            log,
            refused_authors,
            found,
            round,
            settings,
            mut done,
            ..
        } = job;
        if settings == self.settings {
            self.refused_authors = refused_authors;
            self.found = found;
        } else {
            // Whether what was refused is still so has to be found out anew.
            done.set_aside.clear();
            done.refused_whole = false;
            self.doubt = Doubt::Whole;
            self.window.add(0, now);
        }
        let is_written = done.failure.is_none() && !done.paused;
        let may_have_written = done.may_have_written || is_written;
        self.unwritten
            .end(may_have_written, &self.wanted, &mut self.proofs);
        let _batch = self.taken.take();
        self.compared = true;
        self.equal_in_form = equal_in_form;
        self.note_gone(done.gone, now);
        let put_off = done.capped + done.awaiting_lists;
        if put_off + done.content_missing > 0 || !is_written {
            self.doubt = Doubt::Whole;
        }
        // What was to move in the same search has kept its old files.
        if !done.set_aside.is_empty() {
            self.doubt = Doubt::Whole;
            self.window.add(0, now);
        }
        let all_decided = put_off == 0 && done.stopped.is_none();
        self.stopped = done.stopped;
        let ends = all_decided && is_written;
        self.shown = policy.shown.filter(|_| !ends);
        self.foreign_owner = done.foreign_owner;
        if let Some(unselected) = done.unselected {
            self.unselected = unselected;
        }
        if let Some(held_back) = done.held_back {
            self.held_back = held_back;
        }
        self.note_pushed(done.pushed);
        if let Some(still) = done.still_refused.filter(|_| !self.set_aside.is_empty()) {
            Arc::make_mut(&mut self.set_aside).retain(|path, _| still.contains(path));
        }
        self.set_aside(done.set_aside, done.refused_whole, done.pushed.is_some());
        self.failure = done.failure;
        if is_written {
            self.failures = 0;
            self.not_before = None;
            self.unconfirmed.confirm();
            self.waiting = done.content_missing + done.awaiting_lists;
            if self.waiting == 0 {
                self.written_round = Some(round);
            }
            for path in &done.deletes {
                self.proofs.of_file.remove(path);
            }
            // What was decided is decided, also about files that were not there.
            if all_decided {
                self.forget_proofs(&proofs);
            }
            // An object that is set aside may have to be tried again as it is.
            let aside = self.set_aside.values().filter_map(|aside| aside.blob);
            contents.retain(&aside.collect());
            // A cap of zero lets nothing go, however often it is tried.
            if done.capped > 0 && !done.deletes.is_empty() {
                self.window.add(0, now);
            }
        } else {
            // What only waits for its time is not failing more and more.
            if done.paused {
                self.not_before = None;
            } else {
                self.failures += 1;
                self.not_before = Some(now + after_failures(self.failures));
            }
            self.refused_whole = done.refused_whole;
            self.waiting = done.planned;
            self.unconfirmed.put_back(&self.wanted);
            self.put_back_events(events);
            self.log.put_back(log);
            // What the server refuses is tried again, but not at once.
            self.window.add(0, now);
        }
        self.contents.merge(contents);
        done.content_missing > 0
    }

    /// Also of those that the mode does not accept, whose files stay: names come and go without end.
    /// Where another mode accepts more one day, lists tell what is gone.
    fn forget_proofs(&mut self, used: &Proofs) {
        for (path, proof) in &used.of_file {
            if self.proofs.of_file.get(path) == Some(proof) && !self.set_aside.contains_key(path) {
                self.proofs.of_file.remove(path);
            }
        }
        // What appears at such a place later is somebody else's.
        let withdrawn = &mut self.proofs.withdrawn;
        withdrawn.retain(|type_key, now| used.withdrawn.get(type_key) != Some(now));
    }

    /// Remembers refused changes, unless the object has become another one meanwhile.
    fn set_aside(&mut self, new: Vec<(RepoPath, SetAside)>, refused_whole: bool, passed: bool) {
        if new.is_empty() && self.set_aside.is_empty() {
            return;
        }
        let wanted = self.wanted.clone();
        let known = Arc::make_mut(&mut self.set_aside);
        if refused_whole {
            known.retain(|_, set_aside| set_aside.proven);
        }
        if passed {
            for aside in known.values_mut() {
                aside.proven = true;
            }
        }
        for (path, set_aside) in new {
            if wanted.get(&path).map(|wanted| wanted.blob) == set_aside.blob {
                known.insert(path, set_aside);
            }
        }
    }

    /// So many files could not be written because the branch does not stand still.
    pub(in crate::writer) fn cannot_keep_up(&mut self, files: usize, refusal: &Refusal) {
        self.failure = Some(refusal.clone());
        self.waiting = files;
    }

    /// The whole branch failed: what is waiting waits on.
    pub(in crate::writer) fn fail(&mut self, refusal: &Refusal) {
        self.failure = Some(refusal.clone());
        if self.window.files() == 0 {
            self.window.add(0, Instant::now());
        }
    }

    /// How long until it may be tried again, for those who are told of a failure. A destination that
    /// waits for the pace of the repository knows how long.
    pub(in crate::writer) fn retries_after(
        &self,
        paused: Option<Duration>,
        now: Instant,
    ) -> Option<(u32, Duration, &Refusal)> {
        let not_before = self.not_before;
        let wait = not_before.map(|earliest| earliest.saturating_duration_since(now));
        Some((
            self.failures.max(1),
            paused.or(wait)?,
            self.failure.as_ref()?,
        ))
    }
}
