//! Follows our own four kinds and the namespaces, and tells when any of them changed.
//!
//! ## Guarantees
//! - Nothing is told before all of them were listed completely: rules that were not read yet would
//!   look like rules that do not exist.
//! - While a definition of the four kinds is missing or being deleted, nothing is told either. Rules
//!   that vanish with their definition were not deleted by anybody: removing the product never
//!   empties Git. What is told once they stand again is another installation's configuration; so is
//!   what is told once others stand in their place.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, CustomResourceExt as _, Resource, ResourceExt as _};
use reverser_api::{ClusterWatchRule, GitDestination, GitRepoConfig, WatchRule};
use reverser_core::labels::Labels;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::api_read::ANSWER;
use crate::identity::{Id, RuleId};
use crate::routing::{Configuration, OwnKind, Unreadable, has_written};

/// Why our own objects cannot be read.
mod trouble;

pub(crate) use trouble::MISSING_RIGHT;
pub use trouble::Trouble;

/// Changes come in swarms; they are told together.
const SETTLE: Duration = Duration::from_millis(50);
/// How soon a question that got no answer is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// So many deleted rules are remembered. What a rule left behind is decided as soon as it is gone.
const DELETED_RULES: usize = 1_000;

/// One step of following a kind.
enum Step<K> {
    Restarted(BTreeMap<Id, Read<K>>),
    Applied(Id, Read<K>),
    Deleted(Id),
}

type Read<K> = Result<Arc<K>, Unreadable>;

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
    let mut tasks = follow_kinds(&client, &ours, &tx, &trouble);
    drop(tx);
    let mut gathered = Gathered::default();
    let mut definitions_known = KnownDefinitions::default();
    let mut unanswered = false;
    let mut news = false;
    loop {
        tokio::select! {
            change = rx.recv() => match change {
                Some(change) => news |= gathered.take(change),
                None => return,
            },
            // Without one of them a kind would stay as it is for ever.
            _ = tasks.join_next() => return,
            () = tokio::time::sleep(ASK_AGAIN), if unanswered => {}
        }
        if !news || !gathered.is_complete() {
            continue;
        }
        // Whoever has just started waits for nothing but the lists.
        if told.borrow().is_some() {
            tokio::time::sleep(SETTLE).await;
        }
        while let Ok(change) = rx.try_recv() {
            gathered.take(change);
        }
        let found = tokio::time::timeout(ANSWER, definitions(&client)).await;
        let found = found.unwrap_or_else(|late| Err(kube::Error::Service(late.into())));
        unanswered = found.is_err();
        let told_now = match found {
            Ok(found) => gathered.under(definitions_known.meet(found)),
            Err(error) => {
                trouble.of_request("the definitions of the four kinds", &error);
                None
            }
        };
        let Some(configuration) = told_now else {
            continue;
        };
        if told.send(Some(Arc::new(configuration))).is_err() {
            return;
        }
        news = false;
    }
}

/// Follows each kind, and the namespaces, by itself.
fn follow_kinds(
    client: &Client,
    ours: &watcher::Config,
    tx: &mpsc::Sender<Change>,
    trouble: &Trouble,
) -> JoinSet<()> {
    fn spawn<K>(
        tasks: &mut JoinSet<()>,
        client: &Client,
        ours: &watcher::Config,
        change: fn(Step<K>) -> Change,
        told: (mpsc::Sender<Change>, Trouble),
    ) where
        K: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
    {
        let api = raw::<K>(client);
        tasks.spawn(follow_kind(api, ours.clone(), read_ours, change, told));
    }
    let told = || (tx.clone(), trouble.clone());
    let mut tasks = JoinSet::new();
    spawn(&mut tasks, client, ours, Change::Repo, told());
    spawn(&mut tasks, client, ours, Change::Destination, told());
    spawn(&mut tasks, client, ours, Change::WatchRule, told());
    spawn(&mut tasks, client, ours, Change::ClusterRule, told());
    tasks.spawn(follow_kind(
        Api::all(client.clone()),
        watcher::Config::default(),
        |namespace: Namespace| Ok(namespace),
        Change::Namespace,
        told(),
    ));
    tasks
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

    /// What is to be told under the definitions that stand now, if anything is.
    fn under(&mut self, met: Met) -> Option<Configuration> {
        match met {
            Met::TheSame => {}
            Met::Others => self.configuration.installation += 1,
            Met::None => return None,
        }
        Some(self.configuration.clone())
    }

    /// Takes a change; tells whether it may be one for anybody but us, who write statuses.
    fn take(&mut self, change: Change) -> bool {
        let Self {
            configuration,
            listed,
        } = self;
        let Configuration {
            repos,
            destinations,
            watch_rules,
            cluster_rules,
            unreadable,
            deleted_rules,
            namespaces,
            installation: _,
        } = configuration;
        let (kind, taken) = match change {
            Change::Repo(step) => (0, apply(OwnKind::Repo, repos, unreadable, step, is_same)),
            Change::Destination(step) => {
                let is_same = |one: &GitDestination, other: &GitDestination| {
                    is_same(one, other) && has_written(one) == has_written(other)
                };
                let kind = OwnKind::Destination;
                (1, apply(kind, destinations, unreadable, step, is_same))
            }
            Change::WatchRule(step) => {
                note_deleted(deleted_rules, &step, |id| RuleId::Watch(id.clone()));
                let kind = OwnKind::WatchRule;
                (2, apply(kind, watch_rules, unreadable, step, is_same))
            }
            Change::ClusterRule(step) => {
                note_deleted(deleted_rules, &step, |id| RuleId::Cluster(id.name.clone()));
                let mut rules = std::mem::take(cluster_rules)
                    .into_iter()
                    .map(|(name, rule)| (Id::new("", name), rule))
                    .collect();
                let taken = apply(OwnKind::ClusterRule, &mut rules, unreadable, step, is_same);
                let rules = rules.into_iter();
                *cluster_rules = rules.map(|(id, rule)| (id.name.clone(), rule)).collect();
                (3, taken)
            }
            Change::Namespace(step) => (4, apply_namespace(namespaces, step)),
        };
        listed[kind] |= taken == Taken::All;
        taken != Taken::Nothing
    }
}

fn labels(id: &Id, read: Read<Namespace>) -> Option<(String, Labels)> {
    Some((id.name.clone(), read.ok()?.labels().clone()))
}

/// What a step brought.
#[derive(PartialEq)]
enum Taken {
    /// All objects of the kind.
    All,
    /// One that is not as it was.
    One,
    /// One that says what it said before.
    Nothing,
}

fn apply_namespace(known: &mut BTreeMap<String, Labels>, step: Step<Namespace>) -> Taken {
    match step {
        Step::Restarted(all) => {
            let all = all.into_iter();
            *known = all.filter_map(|(id, read)| labels(&id, read)).collect();
            Taken::All
        }
        Step::Applied(id, read) => match labels(&id, read) {
            Some((name, labels)) if known.get(&name) != Some(&labels) => {
                known.insert(name, labels);
                Taken::One
            }
            _ => Taken::Nothing,
        },
        Step::Deleted(id) => {
            known.remove(&id.name);
            Taken::One
        }
    }
}

/// Whether two states of an object differ in nothing but what is written into them, such as our own
/// status: that would route everything anew after each push.
fn is_same<K: Resource>(one: &K, other: &K) -> bool {
    let (one, other) = (one.meta(), other.meta());
    one.uid == other.uid
        && one.generation == other.generation
        && one.labels == other.labels
        && one.annotations == other.annotations
        && one.deletion_timestamp == other.deletion_timestamp
}

/// Remembers which rules were seen to be deleted. One that a list merely lacks was perhaps deleted by
/// nobody: a backup was restored, or the answer is not true.
fn note_deleted<K>(deleted: &mut BTreeSet<RuleId>, step: &Step<K>, rule: impl Fn(&Id) -> RuleId) {
    match step {
        Step::Deleted(id) => {
            if deleted.len() >= DELETED_RULES {
                deleted.clear();
            }
            deleted.insert(rule(id));
        }
        Step::Applied(id, _) => {
            deleted.remove(&rule(id));
        }
        Step::Restarted(all) => {
            for id in all.keys() {
                deleted.remove(&rule(id));
            }
        }
    }
}

/// Takes a step of a kind.
fn apply<K>(
    kind: OwnKind,
    known: &mut BTreeMap<Id, Arc<K>>,
    unreadable: &mut BTreeMap<(OwnKind, Id), Unreadable>,
    step: Step<K>,
    is_same: impl Fn(&K, &K) -> bool,
) -> Taken {
    let (taken, new) = match step {
        Step::Restarted(all) => {
            known.clear();
            unreadable.retain(|(other, _), _| *other != kind);
            (Taken::All, all)
        }
        Step::Applied(id, read) => {
            let same = match (known.get(&id), &read) {
                (Some(before), Ok(now)) => is_same(before, now),
                _ => false,
            };
            let taken = if same { Taken::Nothing } else { Taken::One };
            (taken, BTreeMap::from([(id, read)]))
        }
        Step::Deleted(id) => {
            known.remove(&id);
            unreadable.remove(&(kind, id));
            (Taken::One, BTreeMap::new())
        }
    };
    for (id, read) in new {
        match read {
            Ok(object) => {
                unreadable.remove(&(kind, id.clone()));
                known.insert(id, object);
            }
            Err(why) => {
                known.remove(&id);
                unreadable.insert((kind, id), why);
            }
        }
    }
    taken
}

fn raw<K: Resource<DynamicType = ()>>(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &ApiResource::erase::<K>(&()))
}

/// An object that these types cannot hold hides no other.
fn read_ours<K: Resource + DeserializeOwned>(object: DynamicObject) -> Result<K, Unreadable> {
    let reference = object.data.pointer("/spec/destinationRef").cloned();
    let own_namespace = object.namespace();
    let (uid, generation) = (object.metadata.uid.clone(), object.metadata.generation);
    let text = |field: &str| Some(reference.as_ref()?.get(field)?.as_str()?.to_owned());
    object.try_parse().map_err(|error| Unreadable {
        message: error.to_string(),
        uid,
        generation,
        destination: text("name")
            .zip(text("namespace").or(own_namespace))
            .map(|(name, namespace)| Id::new(namespace, name)),
    })
}

async fn follow_kind<W, K>(
    api: Api<W>,
    config: watcher::Config,
    read: fn(W) -> Result<K, Unreadable>,
    change: fn(Step<K>) -> Change,
    (tx, trouble): (mpsc::Sender<Change>, Trouble),
) where
    W: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let id = |object: &W| Id::new(object.namespace().unwrap_or_default(), object.name_any());
    let mut listing = BTreeMap::new();
    let url = api.resource_url().to_owned();
    let what = url.rsplit('/').next().unwrap_or_default().to_owned();
    let mut events = watcher(api, config).default_backoff().boxed();
    loop {
        let step = match events.try_next().await {
            Ok(None) => return,
            // The watcher waits and tries again; what is known stays known.
            Err(error) => {
                trouble.of_watch(&what, &error);
                continue;
            }
            Ok(Some(watcher::Event::Init)) => {
                listing = BTreeMap::new();
                continue;
            }
            Ok(Some(watcher::Event::InitApply(object))) => {
                let id = id(&object);
                listing.insert(id, read(object).map(Arc::new));
                continue;
            }
            Ok(Some(watcher::Event::InitDone)) => Step::Restarted(std::mem::take(&mut listing)),
            Ok(Some(watcher::Event::Apply(object))) => {
                let id = id(&object);
                Step::Applied(id, read(object).map(Arc::new))
            }
            Ok(Some(watcher::Event::Delete(object))) => Step::Deleted(id(&object)),
        };
        if tx.send(change(step)).await.is_err() {
            return;
        }
    }
}

/// The uids of all four definitions, if all of them are there to stay.
async fn definitions(client: &Client) -> Result<Option<Vec<String>>, kube::Error> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let standing = async |name: &str| {
        let found = api.get_metadata_opt(name).await?;
        let stands = found.filter(|found| found.metadata.deletion_timestamp.is_none());
        Ok::<_, kube::Error>(stands.map(|found| found.metadata.uid.unwrap_or_default()))
    };
    let (repos, destinations, rules, cluster_rules) = tokio::try_join!(
        standing(GitRepoConfig::crd_name()),
        standing(GitDestination::crd_name()),
        standing(WatchRule::crd_name()),
        standing(ClusterWatchRule::crd_name()),
    )?;
    let all = [repos, destinations, rules, cluster_rules];
    Ok(all.into_iter().collect())
}

/// The definitions under which rules were read last.
#[derive(Default)]
struct KnownDefinitions {
    uids: Option<Vec<String>>,
    interrupted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Met {
    /// Rules that are not there any more were deleted by somebody.
    TheSame,
    /// Rules may have gone with their definitions, which were there again before anybody looked.
    Others,
    /// Not all of them stand.
    None,
}

impl KnownDefinitions {
    /// Takes the uids of those that stand; nothing if one is missing.
    fn meet(&mut self, found: Option<Vec<String>>) -> Met {
        let Some(found) = found else {
            self.interrupted = true;
            return Met::None;
        };
        let known = self.uids.replace(found);
        let others = known.is_some() && known != self.uids;
        if std::mem::take(&mut self.interrupted) || others {
            Met::Others
        } else {
            Met::TheSame
        }
    }
}

#[cfg(test)]
mod tests;
