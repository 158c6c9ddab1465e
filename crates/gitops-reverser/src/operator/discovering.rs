//! Asks what the cluster serves: at start, now and then, and when a definition changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use reverser_core::catalogue::Catalogue;
use reverser_core::definitions::Definitions;
use tokio::sync::watch;

use crate::api_read::describe;
use crate::discovery::{FailedGroup, discover};
use crate::telemetry::Telemetry;
use crate::telemetry::facts::{ConfigurationUnreadable, DiscoveryFailed};

/// A definition is served a moment after it was created.
const SETTLE: Duration = Duration::from_millis(250);
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// What the cluster serves, and what defines it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Served {
    pub(super) catalogue: Arc<Catalogue>,
    /// Nothing before everything that defines types was listed.
    pub(super) definitions: Option<Arc<Definitions>>,
    /// The generation of each CustomResourceDefinition's spec, by group and resource.
    pub(super) generations: BTreeMap<(String, String), i64>,
}

/// What defines types, as two complete lists and what happened since tell it.
#[derive(Default)]
struct Defining {
    crds: Followed,
    services: Followed,
}

/// Objects of one type, by name, each with what is asked of it here.
#[derive(Default)]
struct Followed {
    listing: BTreeMap<String, i64>,
    known: Option<BTreeMap<String, i64>>,
    /// Whoever may not list them is told so, and not again.
    refused: bool,
    /// Whether it is not known what came and went since.
    in_the_dark: bool,
}

impl Followed {
    /// What is known stays known over a failure, because all that was missed follows. Who may not look
    /// any more knows nothing until something is heard again.
    fn fail(&mut self, error: &watcher::Error) {
        use watcher::Error::{InitialListFailed, WatchStartFailed};
        self.refused = true;
        if let InitialListFailed(kube::Error::Api(status))
        | WatchStartFailed(kube::Error::Api(status)) = error
            && matches!(status.code, 401 | 403)
        {
            self.in_the_dark = true;
        }
    }

    /// All of them, unless some may have come since.
    fn all(&self) -> Option<&BTreeMap<String, i64>> {
        self.known.as_ref().filter(|_| !self.in_the_dark)
    }

    fn take<K>(&mut self, event: watcher::Event<K>, fact: fn(&K) -> i64)
    where
        K: kube::ResourceExt,
    {
        use watcher::Event;
        self.in_the_dark &= matches!(event, Event::Init | Event::InitApply(_));
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(object) => {
                self.listing.insert(object.name_any(), fact(&object));
            }
            Event::InitDone => self.known = Some(std::mem::take(&mut self.listing)),
            Event::Apply(object) => {
                if let Some(known) = &mut self.known {
                    known.insert(object.name_any(), fact(&object));
                }
            }
            Event::Delete(object) => {
                if let Some(known) = &mut self.known {
                    known.remove(&object.name_any());
                }
            }
        }
    }
}

enum Event {
    Crd(watcher::Result<watcher::Event<PartialObjectMeta<CustomResourceDefinition>>>),
    Service(watcher::Result<watcher::Event<PartialObjectMeta<APIService>>>),
}

impl Defining {
    fn take(&mut self, event: Event, telemetry: &Telemetry) {
        let unread = |what, error| {
            telemetry.emit(ConfigurationUnreadable {
                what,
                reason: &describe(error),
                cure: "; files of types that are gone stay until then",
            });
        };
        match event {
            Event::Crd(Err(error)) => {
                self.crds.fail(&error);
                unread("customresourcedefinitions", &error);
            }
            Event::Service(Err(error)) => {
                self.services.fail(&error);
                unread("apiservices", &error);
            }
            Event::Crd(Ok(event)) => self
                .crds
                .take(event, |crd| crd.metadata.generation.unwrap_or_default()),
            // An APIService that follows a CustomResourceDefinition defines nothing by itself.
            Event::Service(Ok(event)) => self.services.take(event, |service| {
                let label = service
                    .labels()
                    .get("kube-aggregator.kubernetes.io/automanaged");
                i64::from(label.is_none_or(|value| value != "true"))
            }),
        }
    }

    /// Whether both were listed, or cannot be.
    fn is_settled(&self) -> bool {
        let settled = |followed: &Followed| followed.known.is_some() || followed.refused;
        settled(&self.crds) && settled(&self.services)
    }

    fn served(&self, catalogue: &Catalogue) -> Served {
        // The name of a definition is its resource and its group.
        let generations: BTreeMap<(String, String), i64> = self
            .crds
            .known
            .iter()
            .flatten()
            .filter_map(|(name, generation)| {
                let (resource, group) = name.split_once('.')?;
                Some(((group.to_owned(), resource.to_owned()), *generation))
            })
            .collect();
        let definitions = self.crds.all().zip(self.services.all());
        let definitions = definitions.map(|(_, services)| {
            let served = catalogue.iter().map(|served| {
                let key = &served.key;
                (key.group().to_owned(), key.resource().to_owned())
            });
            let others = services.iter().filter(|(_, other)| **other == 1);
            Arc::new(Definitions {
                resources: generations.keys().cloned().chain(served).collect(),
                other_groups: others
                    .filter_map(|(name, _)| Some(name.split_once('.')?.1.to_owned()))
                    .collect(),
            })
        });
        Served {
            catalogue: Arc::new(catalogue.clone()),
            definitions,
            generations,
        }
    }
}

/// Tells what the cluster serves whenever that is news, until nobody listens any more.
pub(super) async fn follow(
    client: Client,
    asking: Client,
    refresh: Duration,
    telemetry: Telemetry,
    told: watch::Sender<Option<Served>>,
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
        crds.default_backoff().map(Event::Crd),
        services.default_backoff().map(Event::Service),
    ));
    let mut defining = Defining::default();
    let mut known = Catalogue::default();
    let mut last = Served::default();
    let mut failures = 0_u32;
    // The first answer is whole: whoever looks only once has to know of types that are gone.
    let definitions = async {
        while !defining.is_settled()
            && let Some(event) = changes.next().await
        {
            defining.take(event, &telemetry);
        }
    };
    let definitions = tokio::time::timeout(FIRST_WAIT, definitions);
    let (mut discovered, _) = tokio::join!(discover(&asking, &known), definitions);
    loop {
        let failed = match discovered {
            Ok(found) => {
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
                known = found.catalogue;
                let served = defining.served(&known);
                if served != last {
                    last = served.clone();
                    if told.send(Some(served)).is_err() {
                        return;
                    }
                }
                !found.failed_groups.is_empty()
            }
            Err(error) => {
                telemetry.emit(DiscoveryFailed {
                    group: "",
                    reason: &describe(&error),
                });
                true
            }
        };
        failures = if failed {
            failures.saturating_add(1)
        } else {
            0
        };
        let next = wait_after(failures, refresh);
        tokio::select! {
            Some(event) = changes.next() => {
                defining.take(event, &telemetry);
                tokio::time::sleep(SETTLE).await;
                // One look answers for all that has changed by now.
                while let Some(Some(event)) = changes.next().now_or_never() {
                    defining.take(event, &telemetry);
                }
            }
            () = tokio::time::sleep(next) => {}
        }
        discovered = discover(&asking, &known).await;
    }
}

/// When to ask again: soon after a failure, then less and less often.
fn wait_after(failures: u32, refresh: Duration) -> Duration {
    if failures == 0 {
        return refresh;
    }
    let doubled = FIRST_WAIT.saturating_mul(1 << (failures - 1).min(10));
    let jitter = 0.8 + 0.4 * fastrand::f64();
    doubled.min(LONGEST_WAIT).mul_f64(jitter).min(refresh)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_or_a_group_that_fails_is_asked_again_soon_and_then_less_often() {
        let refresh = Duration::from_mins(5);
        assert_eq!(wait_after(0, refresh), refresh);
        for (failures, seconds) in [(1, 1.0), (2, 2.0), (4, 8.0), (7, 60.0), (u32::MAX, 60.0)] {
            let wait = wait_after(failures, refresh).as_secs_f64();
            assert!((0.8 * seconds..=1.2 * seconds).contains(&wait), "{wait}");
        }
        assert_eq!(wait_after(9, FIRST_WAIT), FIRST_WAIT);
    }

    #[test]
    fn who_may_not_look_any_more_does_not_know_what_there_is_until_something_is_heard() {
        use k8s_openapi::api::core::v1::ConfigMap;
        let one = |name: &str| ConfigMap {
            metadata: kube::core::ObjectMeta {
                name: Some(name.to_owned()),
                ..kube::core::ObjectMeta::default()
            },
            ..ConfigMap::default()
        };
        let failed = |code| {
            let status = kube::core::Status::failure("no", "No").with_code(code);
            watcher::Error::WatchStartFailed(kube::Error::Api(status.boxed()))
        };
        let mut followed = Followed::default();
        let take = |followed: &mut Followed, event| followed.take(event, |_: &ConfigMap| 1);
        take(&mut followed, watcher::Event::Apply(one("early")));
        assert_eq!(followed.all(), None, "one is not all");
        take(&mut followed, watcher::Event::Init);
        take(&mut followed, watcher::Event::InitApply(one("a")));
        take(&mut followed, watcher::Event::InitDone);
        assert_eq!(followed.all().map(BTreeMap::len), Some(1));
        followed.fail(&failed(500));
        assert_eq!(followed.all().map(BTreeMap::len), Some(1));
        followed.fail(&failed(403));
        assert_eq!(followed.all(), None);
        take(&mut followed, watcher::Event::Apply(one("b")));
        assert_eq!(followed.all().map(BTreeMap::len), Some(2));
    }
}
