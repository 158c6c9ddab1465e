//! Takes turns at the branch with other installations.

use std::time::Instant;

use super::Writer;
use super::attempt::Job;
use super::state::DestinationState;
use crate::leases::branch::{BranchLease, Gate};
use crate::leases::hold::Wish;
use crate::telemetry::facts::OwnershipConflict;

/// How it stands with the turn of a writer.
#[derive(Default)]
pub(super) struct Turns {
    /// An attempt found something to write when it was not our turn.
    refused: bool,
    /// Since when it has been waited for, and whether anybody was told.
    waiting: Option<(Instant, bool)>,
}

impl Writer {
    /// What the next attempt waits for: a turn, if there is something to write. A mere look at the
    /// remote needs none.
    pub(super) fn turn_to_await(&mut self) -> Option<Gate> {
        let lease = self.lease.as_ref()?;
        let writes = self.destinations.values().any(DestinationState::is_waiting);
        if !writes && !self.turns.refused {
            return None;
        }
        lease.want(Wish::Write);
        self.turns.waiting = Some((Instant::now(), false));
        Some(lease.gate())
    }

    /// An attempt has come to something that only the holder of the branch's lease may do.
    pub(super) fn was_refused(&mut self, jobs: Vec<Job>) {
        self.put_back(jobs);
        self.turns.refused = true;
        self.must_fetch = true;
        for state in self.destinations.values_mut() {
            state.look_again(Instant::now());
        }
    }

    /// An attempt has done all that it had to: others may have the branch if they ask.
    pub(super) fn is_content(&mut self) {
        self.turns.refused = false;
        let wish = if self.destinations.is_empty() {
            Wish::Nothing
        } else {
            Wish::Keep
        };
        if let Some(lease) = &self.lease {
            lease.want(wish);
        }
    }

    /// The turn has come.
    pub(super) fn turn_came(&mut self) {
        self.turns.waiting = None;
    }

    /// When somebody has to be told that the turn does not come.
    pub(super) fn patience_ends(&self) -> Option<Instant> {
        let (since, told) = self.turns.waiting?;
        let patience = self.lease.as_ref()?.patience();
        (!told).then(|| since + patience)
    }

    /// Says that the turn does not come.
    pub(super) fn tell_conflict(&mut self) {
        if let Some((_, told)) = &mut self.turns.waiting {
            *told = true;
        }
        let refusal = self.lease.as_ref().and_then(BranchLease::refusal);
        let Some(refusal) = refusal else {
            return;
        };
        self.common.telemetry.emit(OwnershipConflict {
            branch: &self.labels,
            reason: &refusal.message,
        });
        for state in self.destinations.values_mut() {
            state.fail(&refusal);
        }
        self.report_all();
    }
}
