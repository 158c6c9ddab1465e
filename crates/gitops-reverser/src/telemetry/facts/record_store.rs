//! What becomes of records that replicas share.

use std::fmt::Display;

use tracing::{debug, info, warn};

use super::Fact;
use crate::telemetry::metrics::Metrics;

/// The store cannot be used: what other replicas heard of has no author.
#[derive(Debug)]
pub struct RecordStoreFailed<'a> {
    /// Which store, and why.
    pub reason: &'a str,
    /// Whether that was not known before.
    pub news: bool,
}

impl Fact for RecordStoreFailed<'_> {
    fn log(&self) {
        let reason = self.reason;
        if self.news {
            warn!(
                reason,
                "the attribution store cannot be used: changes that another replica heard of have no \
                 author"
            );
        } else {
            debug!(reason, "the attribution store still cannot be used");
        }
    }

    fn count(&self, metrics: &Metrics) {
        metrics.attribution_store_errors.inc();
    }
}

/// The store can be used again.
#[derive(Debug)]
pub struct RecordStoreWorks<S> {
    /// Which store.
    pub store: S,
}

impl<S: Display> Fact for RecordStoreWorks<S> {
    fn log(&self) {
        info!(store = %self.store, "the attribution store can be used again");
    }

    fn count(&self, _: &Metrics) {}
}

/// More was learnt than the store takes.
#[derive(Debug)]
pub struct RecordNotShared;

impl Fact for RecordNotShared {
    fn log(&self) {
        debug!("a record is not shared: too many wait for the attribution store");
    }

    fn count(&self, metrics: &Metrics) {
        metrics.attribution_store_dropped.inc();
    }
}

/// The store holds something that nobody of this installation has sealed.
#[derive(Debug)]
pub struct RecordUnreadable;

impl Fact for RecordUnreadable {
    fn log(&self) {
        debug!("the attribution store holds a record that is not sealed by this installation");
    }

    fn count(&self, metrics: &Metrics) {
        metrics.attribution_store_errors.inc();
    }
}
