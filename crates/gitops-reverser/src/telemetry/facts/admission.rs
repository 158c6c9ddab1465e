//! What the API server asks, and how it is answered.

use std::time::Duration;

use jiff::Timestamp;
use tracing::{debug, info, trace, warn};

use super::Fact;
use crate::telemetry::labels::{AdmissionLabels, AdmissionOutcome};
use crate::telemetry::metrics::Metrics;

/// The API server asked before it stored a change, and was answered.
#[derive(Debug)]
pub struct AdmissionAnswered<'a> {
    /// What became of the question.
    pub outcome: AdmissionOutcome,
    /// How long that took, without the time in which the question arrived.
    pub took: Duration,
    /// Why nothing was noted, if so.
    pub why: &'a str,
}

impl Fact for AdmissionAnswered<'_> {
    fn log(&self) {
        let Self { outcome, took, why } = self;
        trace!(
            ?outcome,
            took_seconds = took.as_secs_f64(),
            why,
            "admission answered"
        );
    }

    fn count(&self, metrics: &Metrics) {
        let labels = AdmissionLabels {
            outcome: self.outcome,
        };
        metrics.admission_reviews.get_or_create(&labels).inc();
        if self.outcome != AdmissionOutcome::Refused {
            metrics.admission_duration.observe(self.took.as_secs_f64());
        }
    }
}

/// Somebody wanted to talk to the webhook and may not, or did not say anything.
#[derive(Debug)]
pub struct ConnectionRefused<'a> {
    /// Why.
    pub reason: &'a str,
}

impl Fact for ConnectionRefused<'_> {
    fn log(&self) {
        // Anybody can cause as many as they like.
        debug!(reason = self.reason, "connection to the webhook refused");
    }

    fn count(&self, metrics: &Metrics) {
        metrics.admission_connections_refused.inc();
    }
}

/// The certificates of the webhook were made or replaced.
#[derive(Debug)]
pub struct CertificatesChanged<'a> {
    /// What is new.
    pub change: &'a str,
    /// When the serving certificate ends.
    pub until: Option<Timestamp>,
}

impl Fact for CertificatesChanged<'_> {
    fn log(&self) {
        let Self { change, until } = self;
        let until = until.map(|until| until.to_string());
        info!(change, until, "certificates of the webhook changed");
    }

    fn count(&self, _: &Metrics) {}
}

/// The webhook shows another certificate from now on.
#[derive(Debug)]
pub struct CertificateLoaded {
    /// When it ends.
    pub until: Option<Timestamp>,
}

impl Fact for CertificateLoaded {
    fn log(&self) {
        let until = self.until.map(|until| until.to_string());
        info!(until, "the webhook shows a new certificate");
    }

    fn count(&self, metrics: &Metrics) {
        let seconds = self.until.map_or(0, Timestamp::as_second);
        metrics.webhook_certificate_end.set(seconds);
    }
}

/// Certificates that cannot be used. Those that are in use stay.
#[derive(Debug)]
pub struct CertificateUnusable<'a> {
    /// Why, without anything of a key.
    pub reason: &'a str,
}

impl Fact for CertificateUnusable<'_> {
    fn log(&self) {
        warn!(
            reason = self.reason,
            "the certificate of the webhook cannot be used; the one before stays"
        );
    }

    fn count(&self, _: &Metrics) {}
}

/// The API server asks the webhook about these types from now on.
#[derive(Debug)]
pub struct WebhookRegistered<'a> {
    /// The name of the configuration.
    pub name: &'a str,
    /// How many types.
    pub types: usize,
}

impl Fact for WebhookRegistered<'_> {
    fn log(&self) {
        let Self { name, types } = self;
        info!(name, types, "webhook registered");
    }

    fn count(&self, metrics: &Metrics) {
        metrics.webhook_registered.set(1);
    }
}

/// Nothing is watched that the API server could ask about, or it does not know yet whom to trust.
#[derive(Debug)]
pub struct NobodyAsked;

impl Fact for NobodyAsked {
    fn log(&self) {
        info!("the API server asks about nothing for now");
    }

    fn count(&self, metrics: &Metrics) {
        metrics.webhook_registered.set(0);
    }
}

/// The API server does not ask the webhook, or not about the right types.
#[derive(Debug)]
pub struct WebhookNotRegistered<'a> {
    /// Why, and what would help.
    pub reason: &'a str,
}

impl Fact for WebhookNotRegistered<'_> {
    fn log(&self) {
        warn!(
            reason = self.reason,
            "the webhook is not registered: authors are unknown, everything else goes on"
        );
    }

    fn count(&self, metrics: &Metrics) {
        metrics.webhook_registered.set(0);
    }
}
