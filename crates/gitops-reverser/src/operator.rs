//! The operator: everything between the cluster and the branches.

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::http::Readiness;
use crate::settings::Settings;
use crate::telemetry::Telemetry;

/// Why the operator cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {}

/// Runs until it is told to end, and ends when nothing is left to be pushed.
///
/// It says in `readiness` when it has begun its work.
pub async fn run(
    settings: Settings,
    telemetry: Telemetry,
    readiness: watch::Sender<Readiness>,
    shutdown: CancellationToken,
) -> Result<(), OperatorError> {
    let (_settings, _telemetry) = (settings, telemetry);
    readiness.send_replace(Readiness::Ready);
    shutdown.cancelled().await;
    readiness.send_replace(Readiness::NotReady("stopping".to_owned()));
    Ok(())
}
