//! Asks what the cluster serves: at start, now and then, and when a definition changes.

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use reverser_core::catalogue::Catalogue;
use tokio::sync::watch;

use crate::discovery::{FailedGroup, discover};
use crate::telemetry::Telemetry;
use crate::telemetry::facts::DiscoveryFailed;

/// A definition is served a moment after it was created.
const SETTLE: Duration = Duration::from_millis(250);
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// Tells what the cluster serves whenever that is news, until nobody listens any more.
pub(super) async fn follow(
    client: Client,
    asking: Client,
    refresh: Duration,
    telemetry: Telemetry,
    told: watch::Sender<Option<Arc<Catalogue>>>,
) {
    let crds = watcher(
        Api::<PartialObjectMeta<CustomResourceDefinition>>::all(client.clone()),
        watcher::Config::default(),
    );
    let services = watcher(
        Api::<PartialObjectMeta<APIService>>::all(client),
        watcher::Config::default(),
    );
    let mut changes = std::pin::pin!(futures::stream::select(
        crds.default_backoff().map(|_| ()),
        services.default_backoff().map(|_| ()),
    ));
    let mut known = Catalogue::default();
    let mut wait = FIRST_WAIT;
    loop {
        let next = match discover(&asking, &known).await {
            Ok(found) => {
                wait = FIRST_WAIT;
                for FailedGroup {
                    group,
                    version,
                    reason,
                } in &found.failed_groups
                {
                    let group = format!("{group}/{version}");
                    telemetry.emit(DiscoveryFailed {
                        group: &group,
                        reason,
                    });
                }
                let failed = !found.failed_groups.is_empty();
                if found.catalogue != known {
                    known = found.catalogue;
                    if told.send(Some(Arc::new(known.clone()))).is_err() {
                        return;
                    }
                }
                if failed {
                    LONGEST_WAIT.min(refresh)
                } else {
                    refresh
                }
            }
            Err(error) => {
                telemetry.emit(DiscoveryFailed {
                    group: "",
                    reason: &error.to_string(),
                });
                wait = (wait * 2).min(LONGEST_WAIT);
                wait.mul_f64(0.8 + 0.4 * fastrand::f64())
            }
        };
        tokio::select! {
            _ = changes.next() => {
                tokio::time::sleep(SETTLE).await;
                // One look answers for all that has changed by now.
                while changes.next().now_or_never().flatten().is_some() {}
            }
            () = tokio::time::sleep(next) => {}
        }
    }
}
