//! Who may write: the leader of an installation, and the installation whose turn a branch is.
//!
//! Both are Leases of the API server, kept by the same pure [`claim::Claim`]. What one holds is a local
//! fact: until when, counted from the start of the last renewal that succeeded, on a clock that also
//! runs while the machine sleeps. Times in documents are never compared with a clock of ours, so that
//! clocks may differ and jump.
//!
//! Leases are an optimisation. What keeps two writers from losing each other's commits is the Git
//! server, which compares the tip that each push states.

/// A clock that runs while the machine sleeps.
pub mod boot_time;
/// What to do about a lease: pure.
pub mod claim;
/// One Lease of the API server, with short deadlines.
mod document;
/// What is held, as those ask who are about to write.
pub mod hold;
/// Does what the claim says.
mod keeper;
/// Whose turn a branch is, among installations.
pub mod branch;
/// One leader among the replicas of an installation.
pub mod leader;
/// The label by which a Service finds the leader's pod.
pub mod pod_label;
/// Whether other installations are there.
pub mod presence;

#[cfg(test)]
mod model;

use std::time::Duration;

/// How leases are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseSettings {
    /// How often a lease that is held is renewed.
    pub renew: Duration,
    /// How long a lease lasts after its last renewal.
    pub length: Duration,
}

impl LeaseSettings {
    /// How soon one that is not held is looked at again: so a clean hand-over takes about a second.
    fn look(&self) -> Duration {
        self.renew.min(Duration::from_millis(500))
    }

    /// The same after so many failures in a row: less and less often, and not all replicas at once.
    fn look_after(&self, failures: u32) -> Duration {
        let doubled = self.look().saturating_mul(1 << failures.min(10));
        let jitter = if failures == 0 {
            1.0
        } else {
            0.8 + 0.2 * fastrand::f64()
        };
        doubled.min(self.renew).mul_f64(jitter)
    }

    /// No call may take so long that a renewal could not be tried again.
    fn deadline(&self) -> Duration {
        (self.length / 4).clamp(Duration::from_millis(500), Duration::from_secs(5))
    }
}
