//! Whose changes they are.

use tracing::{debug, info, warn};

use super::Fact;
use crate::telemetry::labels::{BranchLabels, DestinationLabels};
use crate::telemetry::metrics::Metrics;

/// Records of who tried what had to go before their time.
#[derive(Debug)]
pub struct RecordsEvicted {
    /// How many.
    pub records: usize,
}

impl Fact for RecordsEvicted {
    fn log(&self) {
        debug!(
            records = self.records,
            "more is tried than can be kept; some changes will have no author"
        );
    }

    fn count(&self, metrics: &Metrics) {
        metrics.kv_evictions.inc_by(self.records as u64);
    }
}

/// It was found out who made changes, or not.
#[derive(Debug)]
pub struct ChangesAttributed {
    /// How many have a user.
    pub named: usize,
    /// How many have none.
    pub unknown: usize,
}

impl Fact for ChangesAttributed {
    fn log(&self) {
        let Self { named, unknown } = self;
        debug!(named, unknown, "changes attributed");
    }

    fn count(&self, metrics: &Metrics) {
        metrics.enrich_hits.inc_by(self.named as u64);
        metrics.enrich_misses.inc_by(self.unknown as u64);
    }
}

/// A server does not take an author.
#[derive(Debug)]
pub struct AuthorRefused<'a> {
    /// Where.
    pub branch: &'a BranchLabels,
    /// Whose files.
    pub destination: &'a DestinationLabels,
    /// What the server said.
    pub reason: &'a str,
}

impl Fact for AuthorRefused<'_> {
    fn log(&self) {
        let Self {
            branch,
            destination,
            reason,
        } = self;
        warn!(
            repo = branch.repo(),
            branch = branch.branch(),
            destination = destination.as_str(),
            reason,
            "the server refuses an author; the operator is the author instead"
        );
    }

    fn count(&self, _: &Metrics) {}
}

/// The real names of users were read.
#[derive(Debug)]
pub struct AuthorMapRead<'a> {
    /// From which ConfigMap.
    pub from: &'a str,
    /// How many users it names.
    pub users: usize,
    /// Lines that say nothing, with their place.
    pub bad: &'a [String],
}

impl Fact for AuthorMapRead<'_> {
    fn log(&self) {
        let Self { from, users, bad } = self;
        if let Some(first) = bad.first() {
            let lines = bad.len();
            warn!(
                from,
                users, lines, first, "names of authors were read, but for some lines"
            );
        } else {
            info!(from, users, "names of authors were read");
        }
    }

    fn count(&self, _: &Metrics) {}
}
