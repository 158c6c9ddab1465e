//! A consumer of observations that keeps what is known, as the operator does, and a log.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write as _;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use gitops_reverser::watch::{
    self, ListOutcome, LossReason, Observation, Observed, Scope, WatchSettings, WatchSupervisor,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use reverser_core::object_key::TypeKey;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Longer than anything awaited here takes on a busy machine.
pub(crate) const SOON: Duration = Duration::from_mins(2);

/// Settings that do not make a test wait.
pub(crate) fn quick() -> WatchSettings {
    WatchSettings {
        backoff_first: Duration::from_millis(20),
        backoff_longest: Duration::from_millis(500),
        ..WatchSettings::default()
    }
}

/// The same with lists in pages only.
pub(crate) fn paged() -> WatchSettings {
    WatchSettings {
        streaming_lists: false,
        ..quick()
    }
}

pub(crate) fn scope(type_key: (&str, &str, &str), kind: &str, namespace: Option<&str>) -> Scope {
    let (group, version, resource) = type_key;
    Scope {
        type_key: TypeKey::new(group, version, resource).unwrap(),
        kind: kind.to_owned(),
        namespace: namespace.map(str::to_owned),
    }
}

pub(crate) fn config_maps(namespace: &str) -> Scope {
    scope(("", "v1", "configmaps"), "ConfigMap", Some(namespace))
}

/// Watches one scope.
pub(crate) struct Observer {
    pub(crate) supervisor: WatchSupervisor,
    rx: mpsc::Receiver<Observed>,
    /// Names and versions of what is there, as far as is known.
    pub(crate) known: BTreeMap<String, String>,
    /// Names in the list that is being told.
    listing: Option<BTreeSet<String>>,
    /// What was told, one line each; items of lists are only counted.
    pub(crate) log: Vec<String>,
    pub(crate) lists: usize,
    epoch: u64,
}

impl Observer {
    pub(crate) fn start(config: kube::Config, settings: WatchSettings, scope: Scope) -> Self {
        let (tx, rx) = mpsc::channel(16);
        let client = watch::client(config).unwrap();
        let mut supervisor = WatchSupervisor::new(client, settings, tx);
        let changes = supervisor.set_scopes(&HashSet::from([scope]));
        Self {
            epoch: changes.started[0].1,
            supervisor,
            rx,
            known: BTreeMap::new(),
            listing: None,
            log: Vec::new(),
            lists: 0,
        }
    }

    /// Lists again by a new driver; what the old one still tells is not heard.
    pub(crate) fn restart(&mut self, scope: &Scope) {
        self.epoch = self.supervisor.restart(scope).unwrap();
    }

    /// Listens until this holds, and fails the test with the log if it does not.
    #[track_caller]
    pub(crate) fn until(
        &mut self,
        what: impl Into<String>,
        mut holds: impl FnMut(&Self) -> bool,
    ) -> impl Future<Output = ()> {
        let place = std::panic::Location::caller();
        let what = what.into();
        async move {
            let listening = async {
                while !holds(self) {
                    tokio::select! {
                        observed = self.rx.recv() => self.apply(observed.unwrap()),
                        error = self.supervisor.broken() => panic!("{error}"),
                    }
                }
            };
            if timeout(SOON, listening).await.is_err() {
                let known: Vec<_> = self.known.keys().take(20).collect();
                let log = self.log.join("\n  ");
                panic!("{place}: no {what}; known: {known:?}\n  {log}");
            }
        }
    }

    /// Listens until this line was told so often.
    #[track_caller]
    pub(crate) fn until_told(&mut self, line: &str, times: usize) -> impl Future<Output = ()> {
        let line = line.to_owned();
        self.until(format!("{line:?}"), move |observer| {
            observer.told(&line) >= times
        })
    }

    /// Listens for a while in which nothing in particular is expected.
    pub(crate) async fn listen_for(&mut self, duration: Duration) {
        let listening = async {
            loop {
                let observed = self.rx.recv().await.unwrap();
                self.apply(observed);
            }
        };
        drop(timeout(duration, listening).await);
    }

    /// How often a line that begins like this was told.
    pub(crate) fn told(&self, begin: &str) -> usize {
        let told = self.log.iter().filter(|line| line.starts_with(begin));
        told.count()
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.known.keys().map(String::as_str).collect()
    }

    fn apply(&mut self, observed: Observed) {
        if observed.epoch != self.epoch {
            self.log.push("late".to_owned());
            return;
        }
        match observed.observation {
            Observation::ListStarted => {
                self.listing = Some(BTreeSet::new());
                self.log.push("list".to_owned());
            }
            Observation::Seen {
                object,
                live,
                added,
            } => {
                let (name, version) = identity(&object);
                if live {
                    let how = if added { "added" } else { "modified" };
                    self.log.push(format!("{how} {name}"));
                }
                if let Some(listing) = &mut self.listing {
                    listing.insert(name.clone());
                }
                self.known.insert(name, version);
            }
            Observation::Gone { object } => {
                let (name, _) = identity(&object);
                if let Some(listing) = &mut self.listing {
                    listing.remove(&name);
                }
                self.known.remove(&name);
                self.log.push(format!("gone {name}"));
            }
            Observation::Undecodable { name, reason } => {
                self.log.push(format!("undecodable {name:?} {reason}"));
            }
            Observation::Listed(outcome) => {
                let listing = self.listing.take().expect("a list that ends was begun");
                let mut line = format!("{outcome:?} {}", listing.len());
                if outcome == ListOutcome::Complete {
                    self.lists += 1;
                    self.known.retain(|name, _| listing.contains(name));
                } else {
                    write!(line, " of some").unwrap();
                }
                self.log.push(line);
            }
            Observation::Lost { reason, message } => {
                self.listing = None;
                self.log.push(format!("lost {} ({message})", word(reason)));
            }
        }
    }
}

fn word(reason: LossReason) -> String {
    match reason {
        LossReason::ServerError(code) | LossReason::Refused(code) => {
            format!("{} {code}", reason.category())
        }
        other => other.category().to_owned(),
    }
}

fn identity(object: &str) -> (String, String) {
    let object: Value = serde_json::from_str(object).unwrap();
    let text = |field: &str| object["metadata"][field].as_str().unwrap().to_owned();
    (text("name"), text("resourceVersion"))
}

/// Someone who changes ConfigMaps, past all proxies.
#[derive(Clone)]
pub(crate) struct Author {
    maps: Api<ConfigMap>,
}

impl Author {
    pub(crate) fn new(client: kube::Client, namespace: &str) -> Self {
        let maps = Api::namespaced(client, namespace);
        Self { maps }
    }

    pub(crate) async fn create(&self, name: &str) {
        let map = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        self.maps
            .create(&PostParams::default(), &map)
            .await
            .unwrap();
    }

    pub(crate) async fn create_many(&self, count: usize) {
        futures::stream::iter(0..count)
            .map(|number| async move {
                self.create(&format!("map-{number:04}")).await;
                Ok::<_, kube::Error>(())
            })
            .buffer_unordered(16)
            .try_collect::<()>()
            .await
            .unwrap();
    }

    pub(crate) async fn change(&self, name: &str, value: &str) {
        let patch = Patch::Merge(json!({"data": {"key": value}}));
        let parameters = PatchParams::default();
        let patched = self.maps.patch(name, &parameters, &patch).await;
        patched.unwrap();
    }

    pub(crate) async fn delete(&self, name: &str) {
        let deleted = self.maps.delete(name, &DeleteParams::default()).await;
        deleted.unwrap();
    }

    /// Creates, changes and deletes at random, whether the server answers or not.
    pub(crate) async fn work(&self, changes: usize) {
        for number in 0..changes {
            let name = format!("worked-{}", fastrand::usize(..20));
            let one = async {
                if fastrand::u8(..4) == 0 {
                    drop(self.maps.delete(&name, &DeleteParams::default()).await);
                } else {
                    let patch = Patch::Apply(json!({
                        "apiVersion": "v1",
                        "kind": "ConfigMap",
                        "metadata": {"name": name},
                        "data": {"key": number.to_string()},
                    }));
                    let parameters = PatchParams::apply("work").force();
                    drop(self.maps.patch(&name, &parameters, &patch).await);
                }
            };
            drop(timeout(Duration::from_secs(1), one).await);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Names and versions of what is there.
    pub(crate) async fn there(&self) -> BTreeMap<String, String> {
        let list = self.maps.list(&ListParams::default()).await.unwrap();
        let one = |map: ConfigMap| {
            (
                map.metadata.name.unwrap(),
                map.metadata.resource_version.unwrap(),
            )
        };
        list.items.into_iter().map(one).collect()
    }
}
