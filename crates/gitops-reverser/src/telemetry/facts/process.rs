//! The process: it begins, is asked something, ends.

use std::net::SocketAddr;

use tracing::{error, info, warn};

use super::Fact;
use crate::telemetry::metrics::Metrics;

/// The operator begins.
#[derive(Debug)]
pub struct Started<'a> {
    /// The name of the installation.
    pub instance_id: &'a str,
    /// The version of the program.
    pub version: &'a str,
}

impl Fact for Started<'_> {
    fn log(&self) {
        let Self {
            instance_id,
            version,
        } = self;
        info!(instance_id, version, "started");
    }

    fn count(&self, _: &Metrics) {}
}

/// The operator was asked to end, and does.
#[derive(Debug)]
pub struct Stopping<'a> {
    /// What asked.
    pub signal: &'a str,
}

impl Fact for Stopping<'_> {
    fn log(&self) {
        info!(signal = self.signal, "stopping");
    }

    fn count(&self, _: &Metrics) {}
}

/// Somebody asked for more of the log, or for as much as before.
#[derive(Debug)]
pub struct LogLevelChanged<'a> {
    /// What is logged from now on.
    pub filter: &'a str,
}

impl Fact for LogLevelChanged<'_> {
    fn log(&self) {
        error!(filter = self.filter, "log level changed");
    }

    fn count(&self, _: &Metrics) {}
}

/// A server can be reached.
#[derive(Debug)]
pub struct Serving<'a> {
    /// What it serves.
    pub paths: &'a str,
    /// Where.
    pub address: SocketAddr,
}

impl Fact for Serving<'_> {
    fn log(&self) {
        info!(paths = self.paths, address = %self.address, "serving");
    }

    fn count(&self, _: &Metrics) {}
}

/// The operator ends before it could push all that waits: the next one computes it anew.
#[derive(Debug)]
pub struct WorkLeftBehind;

impl Fact for WorkLeftBehind {
    fn log(&self) {
        warn!("not all that waits could be pushed in time; the next leader pushes it");
    }

    fn count(&self, _: &Metrics) {}
}
