//! What follows from an attempt that has ended.

use std::time::Instant;

use reverser_api::conditions::reason;

use super::attempt::{End, Finished, Job};
use super::common::Shown;
use super::messages::{FromWriter, RemoteAnswer};
use super::pace::{after_failures, after_moves};
use super::state::DestinationState;
use super::{Writer, refusals};
use crate::identity::Id;
use crate::routing::Refusal;
use crate::telemetry::facts::{BranchMoved, DestinationInSync, PushRetried};
use crate::telemetry::labels::DestinationLabels;

/// After so many attempts in a row under which the branch moved, somebody has to be told.
const MOVES_UNTIL_TOLD: u32 = 5;
/// After so many pushes what was staged for them is cleared away.
const PUSHES_UNTIL_CLEARED: usize = 50;

impl Writer {
    pub(super) async fn finish(&mut self, finished: Finished) {
        let Finished {
            mirror,
            end,
            jobs,
            pushes,
            permits,
            remote,
        } = finished;
        self.mirror = mirror;
        if self.attempted == self.repo_state {
            self.remote = remote.or(self.remote.take());
        }
        self.common.show_attempt(&self.target, false);
        let pushed = jobs.iter().any(|job| job.done.pushed.is_some());
        self.has_pushed |= pushed;
        // Those that went while it ran may have been counted for since.
        let gone = jobs.iter().map(|job| &job.id);
        for id in gone.filter(|id| !self.destinations.contains_key(id)) {
            self.forget_series(id);
        }
        match end {
            End::Done => {
                self.failures = 0;
                self.moves = 0;
                // Another repository may have been described while it ran.
                self.must_fetch = self.attempted != self.repo_state;
                self.not_before = None;
                self.take_results(jobs);
                self.is_content();
            }
            End::NotOurTurn => self.was_refused(jobs),
            End::Moved => self.moved(jobs),
            End::Failed(refusal) => {
                self.put_back(jobs);
                self.fail(&refusal);
            }
        }
        if pushed {
            self.pushes_since_cleared += pushes;
            if self.pushes_since_cleared >= PUSHES_UNTIL_CLEARED {
                self.clear_staged().await;
            }
        }
        self.show_depth(pushed);
        self.report_all();
        drop(permits);
    }

    /// Somebody else moved the branch: the batch is written on the new tip. If that never comes to an
    /// end, it is told.
    fn moved(&mut self, jobs: Vec<Job>) {
        self.moves += 1;
        self.must_fetch = true;
        let after = after_moves(self.moves);
        self.not_before = Some(Instant::now() + after);
        self.common.telemetry.emit(BranchMoved {
            branch: &self.labels,
            attempt: self.moves as usize,
        });
        let planned: Vec<(Id, usize)> = jobs
            .iter()
            .map(|job| (job.id.clone(), job.done.planned))
            .collect();
        self.put_back(jobs);
        if self.moves < MOVES_UNTIL_TOLD {
            return;
        }
        let refusal = refusals::moves(self.moves);
        for (id, files) in planned.into_iter().filter(|(_, files)| *files > 0) {
            if let Some(state) = self.destinations.get_mut(&id) {
                state.cannot_keep_up(files, &refusal);
            }
        }
    }

    fn take_results(&mut self, jobs: Vec<Job>) {
        let now = Instant::now();
        for job in jobs {
            let id = job.id.clone();
            let Some(state) = self.destinations.get_mut(&id) else {
                continue;
            };
            let was_in_sync = state.is_in_sync();
            let paused = job.done.paused;
            let content_missing = state.finish(job, now);
            if !was_in_sync && state.is_in_sync() {
                self.common.telemetry.emit(DestinationInSync {
                    branch: &self.labels,
                    destination: &DestinationLabels::new(&id.namespace, &id.name),
                    objects: state.objects(),
                });
            }
            let ready = self.repo.ready_at(&self.target.repo);
            let ready = ready.saturating_duration_since(now);
            if let Some((attempt, after, refusal)) =
                state.retries_after(paused.then_some(ready), now)
            {
                // What is in the way may have been removed by somebody else, and a push to a branch
                // that has moved would be one too many.
                self.must_fetch = true;
                self.common.telemetry.emit(PushRetried {
                    branch: &self.labels,
                    attempt: attempt as usize,
                    after,
                    reason: &refusal.message,
                });
            }
            if content_missing {
                let _ = self.reports.send(FromWriter::ContentMissing(id));
            }
        }
    }

    pub(super) fn put_back(&mut self, jobs: Vec<Job>) {
        for job in jobs {
            if let Some(state) = self.destinations.get_mut(&job.id) {
                state.put_back(job);
            }
        }
    }

    pub(super) fn fail(&mut self, refusal: &Refusal) {
        self.failures += 1;
        let after = after_failures(self.failures);
        self.not_before = Some(Instant::now() + after);
        self.common.telemetry.emit(PushRetried {
            branch: &self.labels,
            attempt: self.failures as usize,
            after,
            reason: &refusal.message,
        });
        for state in self.destinations.values_mut() {
            state.fail(refusal);
        }
        self.report_all();
    }

    pub(super) fn report_all(&mut self) {
        let remote = self.remote.clone().zip(self.repo_state.clone());
        let remote = remote.map(|(result, of)| RemoteAnswer { of, result });
        for (id, state) in &mut self.destinations {
            if let Some(report) = state.changed_report(remote.as_ref()) {
                // Nobody listens only while the process ends.
                let _ = self
                    .reports
                    .send(FromWriter::Report(id.clone(), Box::new(report)));
            }
        }
    }

    pub(super) fn show_depth(&self, pushed: bool) {
        let states = || self.destinations.values();
        let shown = Shown {
            waiting: states().map(DestinationState::waiting_files).sum(),
            held_back: states().map(|state| state.held_back.files()).sum(),
            pushed,
        };
        self.common.show_branch(&self.target, &shown);
    }
}

impl Finished {
    /// An attempt that ended without a result: the clone is opened anew, and contents are asked for.
    pub(super) fn broken(error: &tokio::task::JoinError) -> Self {
        Self {
            mirror: None,
            end: End::Failed(Refusal {
                reason: reason::PROGRESSING,
                message: format!("writing broke down: {error}"),
            }),
            jobs: Vec::new(),
            pushes: 0,
            permits: None,
            remote: None,
        }
    }
}
