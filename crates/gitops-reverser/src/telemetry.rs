//! What happened, for those who look from outside.
//!
//! A fact is a struct in [`facts`]. Whoever knows it says `telemetry.emit(CommitPushed { … })`, and
//! that logs it and counts it: nothing is logged but not counted, or counted under two names. What
//! *is*, in contrast to what happened, is not told at all but read when somebody asks: see
//! [`Telemetry::read_state_from`].

use std::sync::Arc;

use prometheus_client::registry::Registry;

/// One struct per fact: what it says in the log, and what it counts.
pub mod facts;
/// The labels of metrics: few values, and none of them secret.
pub mod labels;
/// Where log lines go and how they look.
pub mod logging;
/// Every metric with its name, its unit and its meaning.
pub mod metrics;
/// Parts of the work that take time.
pub mod spans;
/// What the operator is doing, read at each scrape.
pub mod state;
/// Spans for a collector, in builds that can send them.
pub mod traces;

use facts::Fact;
use labels::{BranchLabels, DestinationLabels, WorkerLabels};
use metrics::Metrics;
use state::{OperatorState, StateReader};

/// Where facts go. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Telemetry {
    metrics: Arc<Metrics>,
    state: Arc<StateReader>,
}

impl Telemetry {
    /// Puts every metric into a registry, whose prefix is its owner's choice.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Arc::new(Metrics::new());
        let state = Arc::new(StateReader::default());
        registry.register_collector(Box::new(metrics::Scrape {
            metrics: Arc::clone(&metrics),
            state: Arc::clone(&state),
        }));
        Self { metrics, state }
    }

    /// Logs and counts a fact.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "`emit(CommitPushed { .. })` reads better than with a reference to it"
    )]
    pub fn emit(&self, fact: impl Fact) {
        fact.log();
        fact.count(&self.metrics);
    }

    /// Shows nothing more of a branch that is not written any more.
    pub fn forget_branch(&self, branch: &BranchLabels) {
        self.metrics.push_retries.remove(branch);
    }

    /// Shows nothing more of a destination that is not written any more.
    pub fn forget_destination(&self, destination: &DestinationLabels) {
        self.metrics.files_deleted.remove(destination);
        self.metrics.marker_conflicts.remove(destination);
    }

    /// Shows nothing more of a lease that is not kept any more.
    pub fn forget_lease(&self, lease: &str) {
        let worker = WorkerLabels::new(lease);
        self.metrics.lease_acquire_failures.remove(&worker);
    }

    /// What the operator is doing.
    #[must_use]
    pub fn state(&self) -> OperatorState {
        self.state.read()
    }

    /// Says how to find out what the operator is doing. It is asked at each scrape, should not wait
    /// for anything, and replaces what was said before.
    pub fn read_state_from(&self, read: impl Fn() -> OperatorState + Send + Sync + 'static) {
        self.state.replace(read);
    }
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
