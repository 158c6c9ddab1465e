//! One struct per fact: what it says in the log, and what it counts.

mod admission;
mod attribution;
mod process;
mod reading;
mod record_store;
mod turns;
mod writing;

pub use self::admission::{
    AdmissionAnswered, CertificateLoaded, CertificateUnusable, CertificatesChanged,
    ConnectionRefused, NobodyAsked, WebhookNotRegistered, WebhookRegistered,
};
pub use self::attribution::{AuthorMapRead, AuthorRefused, ChangesAttributed, RecordsEvicted};
pub use self::process::{LogLevelChanged, Serving, Started, Stopping, WorkLeftBehind};
pub use self::reading::{
    ConfigurationUnreadable, DiscoveryFailed, EventProcessed, ObjectListed, ObjectsUnreadable,
};
pub use self::record_store::{
    RecordNotShared, RecordStoreFailed, RecordStoreWorks, RecordUnreadable,
};
pub use self::turns::{
    Leading, LeadingAlone, LeaseFailed, MarkerConflict, OwnershipConflict, PodLabelFailed,
    StandingBy,
};
pub use self::writing::{
    BatchPushed, BranchMoved, CommitPushed, DestinationInSync, ObjectsNotReady, PushRetried,
    StatusNotWritten,
};
pub use super::labels::AdmissionOutcome;
use super::metrics::Metrics;

/// Something that happened, that somebody outside may want to know.
///
/// A fact names objects, and never holds them: their content may be secret.
pub trait Fact {
    /// Says it in the log.
    fn log(&self);
    /// Counts it.
    fn count(&self, metrics: &Metrics);
}
