//! Who may write.

use tracing::{debug, info, warn};

use super::Fact;
use crate::telemetry::labels::{BranchLabels, DestinationLabels, WorkerLabels};
use crate::telemetry::metrics::Metrics;

/// This replica does not lead, and waits.
#[derive(Debug)]
pub struct StandingBy;

impl Fact for StandingBy {
    fn log(&self) {
        info!("standing by: another replica may lead");
    }

    fn count(&self, metrics: &Metrics) {
        metrics.leader.set(0);
    }
}

/// This replica leads.
#[derive(Debug)]
pub struct Leading;

impl Fact for Leading {
    fn log(&self) {
        info!("leading");
    }

    fn count(&self, metrics: &Metrics) {
        metrics.leader.set(1);
    }
}

/// There is no election: this replica is the only one.
#[derive(Debug)]
pub struct LeadingAlone;

impl Fact for LeadingAlone {
    fn log(&self) {
        debug!("leading without an election");
    }

    fn count(&self, metrics: &Metrics) {
        metrics.leader.set(1);
    }
}

/// A lease could be neither taken nor renewed; it is tried again.
#[derive(Debug)]
pub struct LeaseFailed<'a> {
    /// The name of the lease.
    pub worker: &'a str,
    /// Why.
    pub reason: &'a str,
}

impl Fact for LeaseFailed<'_> {
    fn log(&self) {
        let Self { worker, reason } = self;
        warn!(lease = worker, reason, "lease not taken; trying again");
    }

    fn count(&self, metrics: &Metrics) {
        let worker = WorkerLabels::new(self.worker);
        metrics.lease_acquire_failures.get_or_create(&worker).inc();
    }
}

/// Another installation has the branch, and what waits here waits on.
#[derive(Debug)]
pub struct OwnershipConflict<'a> {
    /// Which branch.
    pub branch: &'a BranchLabels,
    /// Who has it.
    pub reason: &'a str,
}

impl Fact for OwnershipConflict<'_> {
    fn log(&self) {
        let Self { branch, reason } = self;
        warn!(
            repo = branch.repo(),
            branch = branch.branch(),
            reason,
            "not our turn to write"
        );
    }

    fn count(&self, metrics: &Metrics) {
        metrics.ownership_conflicts.inc();
    }
}

/// A folder carries the mark of another installation.
#[derive(Debug)]
pub struct MarkerConflict<'a> {
    /// Whose folder it was to be.
    pub destination: &'a DestinationLabels,
    /// Whose it is.
    pub reason: &'a str,
    /// Whether it is left alone.
    pub refused: bool,
}

impl Fact for MarkerConflict<'_> {
    fn log(&self) {
        let Self {
            destination,
            reason,
            refused,
        } = self;
        let destination = destination.as_str();
        warn!(destination, reason, refused, "the folder has another owner");
    }

    fn count(&self, metrics: &Metrics) {
        let conflicts = &metrics.marker_conflicts;
        conflicts.get_or_create(self.destination).inc();
        if self.refused {
            metrics.ownership_conflicts.inc();
        }
    }
}

/// The label of the leader's pod could not be moved; it is tried again.
#[derive(Debug)]
pub struct PodLabelFailed<'a> {
    /// The pod.
    pub pod: &'a str,
    /// Why.
    pub reason: &'a str,
}

impl Fact for PodLabelFailed<'_> {
    fn log(&self) {
        let Self { pod, reason } = self;
        warn!(pod, reason, "the pod of the leader could not be labelled");
    }

    fn count(&self, _: &Metrics) {}
}
