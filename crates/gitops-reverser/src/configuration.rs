//! Follows our own four kinds and the namespaces, and tells when any of them changed.
//!
//! ## Guarantees
//! - Nothing is told before all of them were listed completely: rules that were not read yet would
//!   look like rules that do not exist.
//! - While a definition of the four kinds is missing or being deleted, nothing is told either. Rules
//!   that vanish with their definition were not deleted by anybody: removing the product never
//!   empties Git. What is told once they stand again is another installation's configuration.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::DeserializeGuard;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use reverser_api::{ClusterWatchRule, GitDestination, GitRepoConfig, WatchRule};
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};

use crate::identity::Id;
use crate::routing::Configuration;

/// Why our own objects cannot be read.
mod trouble;

pub use trouble::Trouble;

/// Changes come in swarms; they are told together.
const SETTLE: Duration = Duration::from_millis(50);
/// How soon a question that got no answer is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// One step of following a kind.
enum Step<K> {
    Restarted(BTreeMap<Id, Arc<K>>),
    Applied(Id, Arc<K>),
    Deleted(Id),
}

enum Change {
    Repo(Step<GitRepoConfig>),
    Destination(Step<GitDestination>),
    WatchRule(Step<WatchRule>),
    ClusterRule(Step<ClusterWatchRule>),
    Namespace(Step<Namespace>),
}

/// Follows everything that users write, until nobody listens any more; with a label selector only
/// those of our own objects that it selects.
pub async fn follow(
    client: Client,
    selector: Option<String>,
    trouble: Trouble,
    told: watch::Sender<Option<Arc<Configuration>>>,
) {
    let ours = selector.map_or_else(watcher::Config::default, |selector| {
        watcher::Config::default().labels(&selector)
    });
    let (tx, mut rx) = mpsc::channel(256);
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(follow_kind(
        guarded(&client),
        ours.clone(),
        unguard,
        Change::Repo,
        (tx.clone(), trouble.clone()),
    ));
    tasks.spawn(follow_kind(
        guarded(&client),
        ours.clone(),
        unguard,
        Change::Destination,
        (tx.clone(), trouble.clone()),
    ));
    tasks.spawn(follow_kind(
        guarded(&client),
        ours.clone(),
        unguard,
        Change::WatchRule,
        (tx.clone(), trouble.clone()),
    ));
    tasks.spawn(follow_kind(
        guarded(&client),
        ours.clone(),
        unguard,
        Change::ClusterRule,
        (tx.clone(), trouble.clone()),
    ));
    tasks.spawn(follow_kind(
        Api::all(client.clone()),
        watcher::Config::default(),
        Some,
        Change::Namespace,
        (tx, trouble.clone()),
    ));
    let mut gathered = Gathered::default();
    let mut interrupted = false;
    let mut unanswered = false;
    loop {
        let next = if unanswered {
            tokio::time::timeout(ASK_AGAIN, rx.recv()).await
        } else {
            Ok(rx.recv().await)
        };
        match next {
            Ok(None) => return,
            Ok(Some(change)) => gathered.take(change),
            Err(_nothing_new) => {}
        }
        tokio::time::sleep(SETTLE).await;
        while let Ok(change) = rx.try_recv() {
            gathered.take(change);
        }
        if !gathered.is_complete() {
            continue;
        }
        let standing = definitions_stand(&client).await;
        unanswered = standing.is_err();
        match standing {
            Ok(true) => {}
            Ok(false) => {
                interrupted = true;
                continue;
            }
            Err(error) => {
                trouble.of_request("the definitions of the four kinds", &error);
                continue;
            }
        }
        if std::mem::take(&mut interrupted) {
            gathered.configuration.installation += 1;
        }
        let configuration = Arc::new(gathered.configuration.clone());
        if told.send(Some(configuration)).is_err() {
            return;
        }
    }
}

#[derive(Default)]
struct Gathered {
    configuration: Configuration,
    listed: [bool; 5],
}

impl Gathered {
    fn is_complete(&self) -> bool {
        self.listed.iter().all(|listed| *listed)
    }

    fn take(&mut self, change: Change) {
        let Self {
            configuration,
            listed,
        } = self;
        match change {
            Change::Repo(step) => apply(&mut configuration.repos, &mut listed[0], step),
            Change::Destination(step) => {
                apply(&mut configuration.destinations, &mut listed[1], step);
            }
            Change::WatchRule(step) => apply(&mut configuration.watch_rules, &mut listed[2], step),
            Change::ClusterRule(step) => {
                let mut rules = configuration
                    .cluster_rules
                    .iter()
                    .map(|(name, rule)| (Id::new("", name), rule.clone()))
                    .collect();
                apply(&mut rules, &mut listed[3], step);
                configuration.cluster_rules = rules
                    .into_iter()
                    .map(|(id, rule)| (id.name, rule))
                    .collect();
            }
            Change::Namespace(step) => {
                let labels = |namespace: &Namespace| namespace.labels().clone();
                match step {
                    Step::Restarted(all) => {
                        let all = all
                            .into_iter()
                            .map(|(id, namespace)| (id.name, labels(&namespace)));
                        configuration.namespaces = all.collect();
                        listed[4] = true;
                    }
                    Step::Applied(id, namespace) => {
                        configuration.namespaces.insert(id.name, labels(&namespace));
                    }
                    Step::Deleted(id) => {
                        configuration.namespaces.remove(&id.name);
                    }
                }
            }
        }
    }
}

fn apply<K>(known: &mut BTreeMap<Id, Arc<K>>, listed: &mut bool, step: Step<K>) {
    match step {
        Step::Restarted(all) => {
            *known = all;
            *listed = true;
        }
        Step::Applied(id, object) => {
            known.insert(id, object);
        }
        Step::Deleted(id) => {
            known.remove(&id);
        }
    }
}

fn guarded<K>(client: &Client) -> Api<DeserializeGuard<K>>
where
    DeserializeGuard<K>: Resource,
    <DeserializeGuard<K> as Resource>::DynamicType: Default,
{
    Api::all(client.clone())
}

/// An object that these types cannot hold hides no other; it counts as it was before.
fn unguard<K>(object: DeserializeGuard<K>) -> Option<K> {
    object.0.ok()
}

async fn follow_kind<W, K>(
    api: Api<W>,
    config: watcher::Config,
    read: fn(W) -> Option<K>,
    change: fn(Step<K>) -> Change,
    (tx, trouble): (mpsc::Sender<Change>, Trouble),
) where
    W: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    <W as Resource>::DynamicType: Default + Eq + Hash + Clone,
{
    let id = |object: &W| Id::new(object.namespace().unwrap_or_default(), object.name_any());
    let mut listing = BTreeMap::new();
    let mut events = watcher(api, config).default_backoff().boxed();
    loop {
        let step = match events.try_next().await {
            Ok(None) => return,
            // The watcher waits and tries again; what is known stays known.
            Err(error) => {
                trouble.of_watch(&W::plural(&W::DynamicType::default()), &error);
                continue;
            }
            Ok(Some(watcher::Event::Init)) => {
                listing = BTreeMap::new();
                continue;
            }
            Ok(Some(watcher::Event::InitApply(object))) => {
                let id = id(&object);
                if let Some(object) = read(object) {
                    listing.insert(id, Arc::new(object));
                }
                continue;
            }
            Ok(Some(watcher::Event::InitDone)) => Step::Restarted(std::mem::take(&mut listing)),
            Ok(Some(watcher::Event::Apply(object))) => {
                let id = id(&object);
                let Some(object) = read(object) else { continue };
                Step::Applied(id, Arc::new(object))
            }
            Ok(Some(watcher::Event::Delete(object))) => Step::Deleted(id(&object)),
        };
        if tx.send(change(step)).await.is_err() {
            return;
        }
    }
}

/// Whether all four definitions are there to stay.
async fn definitions_stand(client: &Client) -> Result<bool, kube::Error> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in reverser_api::crd_yaml::crds() {
        match api.get_opt(&crd.name_any()).await? {
            Some(found) if found.metadata.deletion_timestamp.is_none() => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}
