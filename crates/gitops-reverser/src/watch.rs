//! What lives in the cluster, told as observations: one list, then a watch, per scope.
//!
//! The driver is our own, on [`kube::Client`], and not kube-runtime's watcher, because here the
//! difference between "not there" and "not known" decides whether files are deleted:
//! - Items stay text. Nobody decodes them twice, and one that cannot be decoded is one bad object,
//!   not the end of its type.
//! - Every answer has a deadline, and a watch whose connection is dead but open is noticed by its
//!   silence. kube's client has no read timeout, for good reason: it would end quiet watches.
//! - A list either ends as [`ListOutcome::Complete`] or it proves nothing.
//!
//! ## Expected flow
//! ```text
//! ListStarted · Seen… · Listed(Complete) · Seen/Gone as they happen
//!       ▲                                        │ 410, or the same version fails three times
//!       └────────────────── Lost ◀───────────────┘
//! ```
//! A watch that ends, breaks or falls silent goes on from the last version it saw, and nothing is
//! said about that: nothing was missed.
//!
//! ## Guarantees
//! - After `ListStarted` everything known of the scope stays known until `Listed`; what the list
//!   did not name is gone if, and only if, the list is `Complete`.
//! - While a streaming list runs, changes of that moment are told among its items: a `Gone` before
//!   `Listed` takes back what was `Seen` before it.
//! - A list that fails anywhere (refused, cut, expired between pages, not JSON, not a list) is
//!   `Lost`, with the reason, and begun again from its start. Two `ListStarted` without a `Listed`
//!   between them mean the same: the first of the two proves nothing.
//! - Lists never ask for `resourceVersion=0`: a server that lags behind would answer without
//!   objects that exist. Watches have no selectors: labelling would look like creation.
//! - Messages of a task that was stopped or started again carry a smaller [`Observed::epoch`].
//!
//! ## Caveats
//! - The same object may be told twice, and older than what was told before when API servers lag
//!   behind one another: whoever consumes compares versions per uid.
//! - An item's text is known to be a JSON object, no more. Items of lists lack `apiVersion` and
//!   `kind` where the type is built in; [`Scope::api_version`] and [`Scope::kind`] have them.
//! - A list that is [`ListOutcome::Partial`] is not tried again by itself: restart the scope.

/// One type, in all namespaces or in one.
mod scope;
/// What is told.
mod observation;
/// Deadlines and limits.
mod settings;
/// Lines, events and pages: bytes in, values out.
mod wire;
/// What to do after a failure: pure.
mod course;
/// Requests and event streams of one scope.
mod source;
/// The driver of one scope.
mod list_watch;
/// Starts and stops drivers.
mod supervisor;

pub use crate::api_read::{FailureReason as LossReason, client};
pub use observation::{ListOutcome, Observation, Observed};
pub use scope::Scope;
pub use settings::WatchSettings;
pub use supervisor::{Changes, SupervisorError, WatchSupervisor};
