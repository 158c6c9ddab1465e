//! Spans for a collector, in builds that can send them: those with the feature `otlp`.

use tokio::runtime::Handle;

#[cfg(feature = "otlp")]
pub use sent::{Traces, TracesError};
#[cfg(not(feature = "otlp"))]
pub use unsent::{Traces, TracesError};

/// Begins, if there is a collector.
pub fn begin(collector: Option<&str>, runtime: &Handle) -> Result<Option<Traces>, TracesError> {
    let begun = collector.map(|address| Traces::to(address, runtime));
    begun.transpose()
}

#[cfg(feature = "otlp")]
mod sent {
    use tokio::runtime::Handle;
    use tracing_subscriber::Layer;

    pub use reverser_traces::TracesError;

    use crate::telemetry::logging::Lines;
    use crate::telemetry::spans;

    /// Spans on their way to a collector.
    pub struct Traces(reverser_traces::Traces);

    impl Traces {
        pub(super) fn to(address: &str, runtime: &Handle) -> Result<Self, TracesError> {
            let version = env!("CARGO_PKG_VERSION");
            reverser_traces::Traces::to(address, version, runtime).map(Self)
        }

        /// What takes the spans.
        #[must_use]
        pub fn layer(&self) -> impl Layer<Lines> + Send + Sync + use<> {
            self.0.layer(spans::TARGET)
        }

        /// Sends what waits, and ends.
        pub fn send_what_waits(self) {
            drop(self.0);
        }
    }
}

#[cfg(not(feature = "otlp"))]
mod unsent {
    use tokio::runtime::Handle;
    use tracing_subscriber::layer::Identity;

    /// There are none.
    pub enum Traces {}

    /// Why there are none.
    #[derive(Debug, thiserror::Error)]
    #[error(
        "--otlp-endpoint: this program was built without traces; leave the flag out, or build it with \
         `cargo build --features otlp`"
    )]
    pub struct TracesError(());

    impl Traces {
        pub(super) fn to(_address: &str, _runtime: &Handle) -> Result<Self, TracesError> {
            Err(TracesError(()))
        }

        /// What takes the spans.
        #[must_use]
        pub fn layer(&self) -> Identity {
            match *self {}
        }

        /// Sends what waits, and ends.
        pub fn send_what_waits(self) {
            match self {}
        }
    }
}
