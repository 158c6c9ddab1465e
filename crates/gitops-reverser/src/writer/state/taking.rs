//! What a destination is told.

use std::sync::Arc;
use std::time::Instant;

use reverser_core::attribution::Origin;
use reverser_core::blob_id::BlobId;
use reverser_core::plan::{DeleteProof, PruneMode};
use reverser_core::repo_path::RepoPath;
use reverser_core::transition_log::Change;

use super::{DestinationState, EVENT_TIMES};
use crate::dispatch::{Knowledge, ToWriter};
use crate::writer::doubt::Doubt;

impl DestinationState {
    pub(in crate::writer) fn take(
        &mut self,
        message: ToWriter,
        now: Instant,
        since: Option<Instant>,
    ) {
        match message {
            ToWriter::Put {
                path,
                wanted,
                content,
                origin,
            } => {
                self.note_change(&path, Some(wanted.blob), since);
                let is_to_go = self.proofs.of_file.remove(&path).is_some();
                self.window.add(content.len(), now);
                self.contents.insert(wanted.blob, content);
                let old = Arc::make_mut(&mut self.wanted).insert(path.clone(), wanted);
                let old = old.map(|old| old.blob);
                // A file of an object that went unseen stays where only what was seen counts.
                let shown_by_lists = self.destination.prune == PruneMode::Always;
                if old.is_none() && !is_to_go && shown_by_lists {
                    self.unwritten.add(&path, &self.proofs);
                }
                self.note_unconfirmed(&path, old, Some(wanted.blob));
                self.log_change(&path, old, Some(wanted.blob), origin, now);
                // It may stand where a deletion was held back.
                if old.is_none() && self.held_back.files() > 0 {
                    self.doubt = Doubt::Whole;
                }
                self.doubt.add(path, old);
            }
            ToWriter::Remove {
                path,
                proof,
                origin,
            } => {
                self.note_change(&path, None, since);
                let old = Arc::make_mut(&mut self.wanted).remove(&path);
                let origin = origin.filter(|_| proof.is_some());
                let before = old.map(|old| old.blob);
                self.note_unconfirmed(&path, before, None);
                self.log_change(&path, before, None, origin, now);
                if proof == Some(DeleteProof::AbsentFromList) {
                    self.absences.note(now);
                }
                let never_written = self.unwritten.remove(&path);
                if let Some(proof) = proof.filter(|_| !never_written) {
                    self.proofs.of_file.insert(path.clone(), proof);
                }
                // Whether the others may go depends on how many go.
                if proof.is_none_or(|proof| proof == DeleteProof::Deleted) {
                    self.doubt.add(path, before);
                } else {
                    self.doubt = Doubt::Whole;
                }
                self.window.add(0, now);
            }
            ToWriter::Knowledge(knowledge) => {
                let Knowledge {
                    complete,
                    deletable,
                    needed,
                    gone,
                    unknown,
                    pending,
                    round,
                } = *knowledge;
                self.round = round;
                let withdrawn = &mut self.proofs.withdrawn;
                withdrawn.retain(|type_key, _| !needed.contains(type_key));
                self.proofs.complete = complete;
                self.proofs.deletable = deletable;
                self.proofs.needed = needed;
                self.proofs.gone_types = gone;
                self.doubt = Doubt::Whole;
                self.pending = !pending.is_empty();
                self.unknown = unknown
                    .iter()
                    .map(|(scope, why)| format!("{}: {why}", scope.type_key))
                    .collect();
                self.window.add(0, now);
            }
            ToWriter::Withdraw(type_key, withdrawn) => {
                self.proofs.withdrawn.insert(type_key, withdrawn);
                self.doubt = Doubt::Whole;
                self.window.add(0, now);
            }
            ToWriter::Together(messages) => {
                for message in messages {
                    self.take(message, now, since);
                }
            }
            ToWriter::Settings(_) | ToWriter::Forget => {}
        }
    }

    /// Before the first comparison everything waits that is wanted.
    fn note_unconfirmed(&mut self, path: &RepoPath, old: Option<BlobId>, new: Option<BlobId>) {
        if self.compared {
            self.unconfirmed.note(path, old, new);
        }
    }

    fn log_change(
        &mut self,
        path: &RepoPath,
        old: Option<BlobId>,
        new: Option<BlobId>,
        origin: Option<Arc<Origin>>,
        at: Instant,
    ) {
        if let Some(origin) = origin
            && old != new
        {
            self.log.push(Change {
                path: path.clone(),
                old,
                new,
                origin,
                at,
            });
        }
    }

    fn note_change(&mut self, path: &RepoPath, blob: Option<BlobId>, since: Option<Instant>) {
        if let Some(since) = since
            && self.events.len() < EVENT_TIMES
        {
            self.events.push(since);
        }
        self.refused_whole = false;
        let known = self.set_aside.get(path);
        if known.is_some_and(|set_aside| set_aside.blob != blob) {
            Arc::make_mut(&mut self.set_aside).remove(path);
        }
    }
}
