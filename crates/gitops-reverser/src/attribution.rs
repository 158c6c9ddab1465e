//! Who made changes: here meet what the webhook learns and what the watch shows.

mod author_map;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use reverser_core::admission_record::AdmissionRecord;
use reverser_core::attribution::{Attributor, Origin, StoreLimits, Transition};

pub use self::author_map::{AuthorMapName, follow as follow_author_map};
use crate::telemetry::Telemetry;
use crate::telemetry::facts::RecordsEvicted;

/// The records and the changes that wait for theirs. Cheap to clone: all clones are the same one.
#[derive(Clone)]
pub struct Attribution {
    attributor: Arc<Mutex<Attributor>>,
    listening: Arc<AtomicBool>,
    telemetry: Option<Telemetry>,
}

impl Default for Attribution {
    /// Nothing is ever recorded, so nothing is waited for.
    fn default() -> Self {
        Self {
            attributor: Arc::new(Mutex::new(Attributor::new(StoreLimits::default()))),
            listening: Arc::default(),
            telemetry: None,
        }
    }
}

impl Attribution {
    /// Keeps so much, and counts what has to go before its time.
    #[must_use]
    pub fn new(limits: StoreLimits, telemetry: Telemetry) -> Self {
        Self {
            attributor: Arc::new(Mutex::new(Attributor::new(limits))),
            listening: Arc::default(),
            telemetry: Some(telemetry),
        }
    }

    /// Whether a webhook is registered: only then is a change worth waiting for its record.
    pub fn listen(&self, listening: bool) {
        self.listening.store(listening, Ordering::Relaxed);
        self.attributor().listen(listening);
    }

    /// Whether records are to be expected.
    #[must_use]
    pub fn is_listening(&self) -> bool {
        self.listening.load(Ordering::Relaxed)
    }

    /// Takes what a webhook has learnt. Waits for nothing.
    pub fn record(&self, record: AdmissionRecord) {
        self.listening.store(true, Ordering::Relaxed);
        let evicted = self.attributor().record(record, Instant::now());
        if evicted > 0
            && let Some(telemetry) = &self.telemetry
        {
            telemetry.emit(RecordsEvicted { records: evicted });
        }
    }

    /// Whose change it is, as far as it is known by now.
    pub(crate) fn attribute(
        &self,
        uid: &str,
        transition: Transition,
        manager: Option<String>,
    ) -> Arc<Origin> {
        let now = Instant::now();
        self.attributor().attribute(uid, transition, manager, now)
    }

    /// Whether anybody is known to have tried anything with an object.
    pub(crate) fn knows(&self, uid: &str) -> bool {
        self.is_listening() && self.attributor().knows(uid)
    }

    fn attributor(&self) -> MutexGuard<'_, Attributor> {
        // It is not held across anything that could panic half-way.
        self.attributor
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
