//! What becomes of branches.

use std::time::Duration;

use reverser_git::CommitId;
use tracing::{debug, info, trace, warn};

use super::Fact;
use crate::telemetry::labels::{BranchLabels, DestinationLabels, NotReadyLabels, TypeLabels};
use crate::telemetry::metrics::Metrics;

/// The remote has confirmed a commit.
#[derive(Debug)]
pub struct CommitPushed<'a> {
    /// Where.
    pub branch: &'a BranchLabels,
    /// Whose files.
    pub destination: &'a DestinationLabels,
    /// Which commit.
    pub commit: &'a CommitId,
    /// How many files were created or changed, by the type of their objects.
    pub written: &'a [(TypeLabels, usize)],
    /// How many files were removed.
    pub deleted: usize,
    /// The content of the files that were created or changed.
    pub bytes: usize,
}

impl Fact for CommitPushed<'_> {
    fn log(&self) {
        let Self {
            branch,
            destination,
            commit,
            written,
            deleted,
            bytes,
        } = self;
        let written: usize = written.iter().map(|(_, files)| files).sum();
        info!(
            repo = branch.repo(),
            branch = branch.branch(),
            destination = destination.as_str(),
            %commit,
            written,
            deleted,
            bytes,
            "commit pushed"
        );
    }

    fn count(&self, metrics: &Metrics) {
        metrics.commits.inc();
        metrics.commit_bytes.inc_by(self.bytes as u64);
        for (of, files) in self.written {
            let written = metrics.objects_written.get_or_create(of);
            written.inc_by(*files as u64);
        }
        if self.deleted > 0 {
            let deleted = metrics.files_deleted.get_or_create(self.destination);
            deleted.inc_by(self.deleted as u64);
        }
    }
}

/// The remote has confirmed a batch, of one commit or several.
#[derive(Debug)]
pub struct BatchPushed<'a> {
    /// Where.
    pub branch: &'a BranchLabels,
    /// How many commits.
    pub commits: usize,
    /// How long the push took.
    pub took: Duration,
    /// For each change that a watch event brought, how long ago that was.
    pub since_events: &'a [Duration],
}

impl Fact for BatchPushed<'_> {
    fn log(&self) {
        let Self {
            branch,
            commits,
            took,
            since_events,
        } = self;
        let oldest = since_events.iter().max().copied().unwrap_or_default();
        debug!(
            repo = branch.repo(),
            branch = branch.branch(),
            commits,
            push_seconds = took.as_secs_f64(),
            oldest_event_seconds = oldest.as_secs_f64(),
            "batch pushed"
        );
    }

    fn count(&self, metrics: &Metrics) {
        metrics.commit_batches.inc();
        metrics.push_duration.observe(self.took.as_secs_f64());
        for since in self.since_events {
            metrics.event_to_push.observe(since.as_secs_f64());
        }
    }
}

/// A destination's folder was found to hold what the cluster holds, for the first time since the start.
#[derive(Debug)]
pub struct DestinationInSync<'a> {
    /// Where.
    pub branch: &'a BranchLabels,
    /// Which destination.
    pub destination: &'a DestinationLabels,
    /// How many objects.
    pub objects: usize,
}

impl Fact for DestinationInSync<'_> {
    fn log(&self) {
        let Self {
            branch,
            destination,
            objects,
        } = self;
        info!(
            repo = branch.repo(),
            branch = branch.branch(),
            destination = destination.as_str(),
            objects,
            "in sync"
        );
    }

    fn count(&self, _: &Metrics) {}
}

/// Somebody else moved the branch: the difference is computed again, onto the new tip.
#[derive(Debug)]
pub struct BranchMoved<'a> {
    /// Which branch.
    pub branch: &'a BranchLabels,
    /// The how manieth time for this batch, from 1.
    pub attempt: usize,
}

impl Fact for BranchMoved<'_> {
    fn log(&self) {
        let Self { branch, attempt } = self;
        info!(
            repo = branch.repo(),
            branch = branch.branch(),
            attempt,
            "the branch has moved; computing the difference again"
        );
    }

    fn count(&self, metrics: &Metrics) {
        metrics.rebase_retries.inc();
    }
}

/// A push failed and is tried again.
#[derive(Debug)]
pub struct PushRetried<'a> {
    /// Where to.
    pub branch: &'a BranchLabels,
    /// The how manieth time for this batch, from 1.
    pub attempt: usize,
    /// When.
    pub after: Duration,
    /// What went wrong, without credentials.
    pub reason: &'a str,
}

impl Fact for PushRetried<'_> {
    fn log(&self) {
        let Self {
            branch,
            attempt,
            after,
            reason,
        } = self;
        warn!(
            repo = branch.repo(),
            branch = branch.branch(),
            attempt,
            after_seconds = after.as_secs_f64(),
            reason,
            "push failed; trying again"
        );
    }

    fn count(&self, metrics: &Metrics) {
        metrics.push_retries.get_or_create(self.branch).inc();
    }
}

/// How an object of ours stands cannot be written into it; it is tried again.
#[derive(Debug)]
pub struct StatusNotWritten<'a> {
    /// Which object.
    pub of: &'a str,
    /// Why.
    pub reason: &'a str,
}

impl Fact for StatusNotWritten<'_> {
    fn log(&self) {
        let Self { of, reason } = self;
        warn!(
            of,
            "the status cannot be written, and is tried again: {reason}"
        );
    }

    fn count(&self, _: &Metrics) {}
}

/// So many objects of one of our own kinds are not Ready for one reason; none means no more.
#[derive(Debug)]
pub struct ObjectsNotReady<'a> {
    /// The kind.
    pub kind: &'static str,
    /// The reason.
    pub reason: &'a str,
    /// How many.
    pub objects: usize,
}

impl Fact for ObjectsNotReady<'_> {
    fn log(&self) {
        let Self {
            kind,
            reason,
            objects,
        } = self;
        trace!(kind, reason, objects, "not ready");
    }

    fn count(&self, metrics: &Metrics) {
        let labels = NotReadyLabels::new(self.kind, self.reason);
        let family = &metrics.objects_not_ready;
        match i64::try_from(self.objects) {
            Ok(0) => {
                family.remove(&labels);
            }
            Ok(objects) => {
                family.get_or_create(&labels).set(objects);
            }
            Err(_more_than_any_cluster_has) => {}
        }
    }
}
