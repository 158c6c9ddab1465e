//! Who made changes: here meet what the webhook learns and what the watch shows.

mod author_map;
/// Records that all replicas share.
pub mod shared_records;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use reverser_core::admission_record::AdmissionRecord;
use reverser_core::attribution::{Attributor, Origin, StoreLimits, Transition};
use tokio::sync::{oneshot, watch};

pub use self::author_map::{AuthorMapName, follow as follow_author_map};
use crate::telemetry::Telemetry;
use crate::telemetry::facts::RecordsEvicted;

/// Where it is remembered who tried what. Two do: [`Attribution`] for this replica alone, and
/// [`shared_records::SharedRecords`] for all of them.
pub trait TakeRecords: Send + Sync {
    /// Takes a record, at once. If somebody else shall keep it too, gives what tells that it does.
    fn take(&self, record: AdmissionRecord) -> Option<Kept>;
}

impl TakeRecords for Attribution {
    fn take(&self, record: AdmissionRecord) -> Option<Kept> {
        self.record(record);
        None
    }
}

/// Whoever wants to see records.
impl<F: Fn(AdmissionRecord) + Send + Sync> TakeRecords for F {
    fn take(&self, record: AdmissionRecord) -> Option<Kept> {
        self(record);
        None
    }
}

/// Tells when a record is kept elsewhere.
pub struct Kept {
    kept: oneshot::Receiver<()>,
    answers: Arc<AtomicBool>,
}

impl Kept {
    fn new(kept: oneshot::Receiver<()>, answers: Arc<AtomicBool>) -> Self {
        Self { kept, answers }
    }

    /// Waits for that, but not for long; whoever waited in vain spares others the wait.
    pub async fn wait(self) {
        let wait = tokio::time::timeout(shared_records::LONGEST_WAIT_FOR_STORE, self.kept);
        if wait.await.is_err() {
            self.answers.store(false, Ordering::Relaxed);
        }
    }
}

/// The records and the changes that wait for theirs. Cheap to clone: all clones are the same one.
#[derive(Clone)]
pub struct Attribution {
    attributor: Arc<Mutex<Attributor>>,
    listening: Arc<AtomicBool>,
    store_trouble: Arc<watch::Sender<Option<String>>>,
    telemetry: Option<Telemetry>,
}

impl Default for Attribution {
    /// Nothing is ever recorded, so nothing is waited for.
    fn default() -> Self {
        Self {
            attributor: Arc::new(Mutex::new(Attributor::new(StoreLimits::default()))),
            listening: Arc::default(),
            store_trouble: Arc::new(watch::channel(None).0),
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
            store_trouble: Arc::new(watch::channel(None).0),
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

    /// Why the store that replicas share cannot be used, while it cannot.
    #[must_use]
    pub fn store_trouble(&self) -> watch::Receiver<Option<String>> {
        self.store_trouble.subscribe()
    }

    fn set_store_trouble(&self, trouble: Option<String>) {
        let begins = trouble.is_some() && self.store_trouble.borrow().is_none();
        self.store_trouble
            .send_if_modified(|known| std::mem::replace(known, trouble) != *known);
        if begins {
            self.attributor().forget_without_content();
        }
    }

    /// Takes what a webhook has learnt. Waits for nothing.
    pub fn record(&self, record: AdmissionRecord) {
        self.record_of_age(record, Duration::ZERO);
    }

    /// Takes what another has learnt, so long ago.
    fn record_of_age(&self, record: AdmissionRecord, age: Duration) {
        self.listening.store(true, Ordering::Relaxed);
        // Another may have asked for the same, of another replica, and only theirs came true.
        if self.store_trouble.borrow().is_some() && !record.change.has_content() {
            return;
        }
        let now = Instant::now();
        let learnt = now.checked_sub(age).unwrap_or(now);
        let evicted = self.attributor().record(record, learnt);
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
    #[must_use]
    pub fn knows(&self, uid: &str) -> bool {
        self.is_listening() && self.attributor().knows(uid)
    }

    fn attributor(&self) -> MutexGuard<'_, Attributor> {
        // It is not held across anything that could panic half-way.
        self.attributor
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
