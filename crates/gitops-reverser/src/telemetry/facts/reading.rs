//! What is read of the cluster.

use reverser_core::object_key::TypeKey;
use tracing::{trace, warn};

use super::Fact;
use crate::telemetry::labels::TypeLabels;
use crate::telemetry::metrics::Metrics;

/// An object was read from a list.
#[derive(Debug)]
pub struct ObjectListed<'a> {
    /// Of which type.
    pub of: &'a TypeLabels,
}

impl Fact for ObjectListed<'_> {
    fn log(&self) {
        trace!(gvk = self.of.gvk(), "object listed");
    }

    fn count(&self, metrics: &Metrics) {
        metrics.objects_scanned.get_or_create(self.of).inc();
    }
}

/// A watch event of an object was processed.
#[derive(Debug)]
pub struct EventProcessed<'a> {
    /// The type of the object.
    pub of: &'a TypeLabels,
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub event: &'a str,
    /// The namespace of the object, if it has one.
    pub namespace: Option<&'a str>,
    /// The name of the object.
    pub name: &'a str,
}

impl EventProcessed<'_> {
    /// Whether anybody reads its name.
    pub fn is_logged() -> bool {
        tracing::enabled!(tracing::Level::TRACE)
    }
}

impl Fact for EventProcessed<'_> {
    fn log(&self) {
        let Self {
            of,
            event,
            namespace,
            name,
        } = self;
        trace!(gvk = of.gvk(), event, namespace, name, "event processed");
    }

    fn count(&self, metrics: &Metrics) {
        metrics.events_processed.inc();
        metrics.objects_scanned.get_or_create(self.of).inc();
    }
}

/// The types of a group, or of the whole cluster, could not be found out. The last known ones stay.
#[derive(Debug)]
pub struct DiscoveryFailed<'a> {
    /// `group/version`, or nothing where all of it failed.
    pub group: &'a str,
    /// Why.
    pub reason: &'a str,
}

impl Fact for DiscoveryFailed<'_> {
    fn log(&self) {
        let Self { group, reason } = self;
        warn!(
            group,
            reason, "discovery failed; the types that are known stay"
        );
    }

    fn count(&self, metrics: &Metrics) {
        metrics.discovery_errors.inc();
    }
}

/// Our own objects, or what else says what is to be done, cannot be read. What is known stays.
#[derive(Debug)]
pub struct ConfigurationUnreadable<'a> {
    /// Which of them.
    pub what: &'a str,
    /// Why.
    pub reason: &'a str,
    /// What a person can do about it, or nothing.
    pub cure: &'a str,
}

impl Fact for ConfigurationUnreadable<'_> {
    fn log(&self) {
        let Self { what, reason, cure } = self;
        warn!(what, "cannot be read: {reason}{cure}");
    }

    fn count(&self, _: &Metrics) {}
}

/// Objects of a type cannot be read: their files stay as they are.
#[derive(Debug)]
pub struct ObjectsUnreadable<'a> {
    /// The type.
    pub type_key: &'a TypeKey,
    /// Which, and why.
    pub sentence: &'a str,
}

impl Fact for ObjectsUnreadable<'_> {
    fn log(&self) {
        let Self { type_key, sentence } = self;
        warn!(%type_key, "{sentence}; their files stay, and the type is listed again");
    }

    fn count(&self, _: &Metrics) {}
}
