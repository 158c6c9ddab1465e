//! Writes statuses that are news.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource};
use reverser_api::git_destination::GitDestinationStatus;
use reverser_api::git_repo_config::GitRepoConfigStatus;
use reverser_api::watch_rule::WatchRuleStatus;
use reverser_api::{ClusterWatchRule, GitDestination, GitRepoConfig, WatchRule};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{of_destination, of_repo, of_rule, same};
use crate::identity::{Id, RuleId};
use crate::routing::{Configuration, Refusal, Routing};
use crate::writer::Report;

/// How everything stands.
#[derive(Clone, Debug, Default)]
pub struct Statuses {
    /// What users wrote.
    pub configuration: Arc<Configuration>,
    /// What becomes of it.
    pub routing: Arc<Routing>,
    /// What the writers say.
    pub reports: BTreeMap<Id, Report>,
    /// Why nothing is watched at all.
    pub disabled: Option<Refusal>,
}

/// Writes statuses, and remembers what it wrote.
pub struct StatusWriter {
    client: Client,
    repos: BTreeMap<Id, GitRepoConfigStatus>,
    destinations: BTreeMap<Id, GitDestinationStatus>,
    rules: BTreeMap<RuleId, WatchRuleStatus>,
}

impl StatusWriter {
    /// Has written nothing yet.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self {
            client,
            repos: BTreeMap::new(),
            destinations: BTreeMap::new(),
            rules: BTreeMap::new(),
        }
    }

    /// Writes what has changed. What cannot be written is tried at the next call.
    pub async fn write(&mut self, statuses: &Statuses, now: &Time) {
        let Statuses {
            configuration,
            routing,
            reports,
            disabled,
        } = statuses;
        for (id, repo) in &configuration.repos {
            let refusal = routing.repos.get(id).and_then(|url| url.as_ref().err());
            let reached = reached(id, routing, reports);
            let status = of_repo(repo, disabled.as_ref().or(refusal), reached.as_ref(), now);
            let old = self.repos.get(id).or(repo.status.as_ref());
            if !same(old, &status) && self.patch::<GitRepoConfig>(id, &status).await {
                self.repos.insert(id.clone(), status);
            }
        }
        for (id, object) in &configuration.destinations {
            let Some(resolved) = routing.destinations.get(id) else {
                continue;
            };
            let destination = disabled.as_ref().map_or(resolved.as_ref(), Err);
            let mut object = (**object).clone();
            object.status = self.destinations.get(id).cloned().or(object.status);
            let status = of_destination(&object, destination, reports.get(id), now);
            if !same(object.status.as_ref(), &status)
                && self.patch::<GitDestination>(id, &status).await
            {
                self.destinations.insert(id.clone(), status);
            }
        }
        for (id, resolved) in &routing.rules {
            let resolved = disabled.as_ref().map_or(resolved.as_ref(), Err);
            let (generation, old) = match id {
                RuleId::Watch(id) => {
                    let rule = configuration.watch_rules.get(id);
                    (
                        rule.and_then(|rule| rule.metadata.generation),
                        rule.and_then(|rule| rule.status.clone()),
                    )
                }
                RuleId::Cluster(name) => {
                    let rule = configuration.cluster_rules.get(name);
                    (
                        rule.and_then(|rule| rule.metadata.generation),
                        rule.and_then(|rule| rule.status.clone()),
                    )
                }
            };
            let old = self.rules.get(id).cloned().or(old);
            let status = of_rule(old.as_ref(), generation, resolved, now);
            if same(old.as_ref(), &status) {
                continue;
            }
            let written = match id {
                RuleId::Watch(id) => self.patch::<WatchRule>(id, &status).await,
                RuleId::Cluster(name) => self.patch_cluster(name, &status).await,
            };
            if written {
                self.rules.insert(id.clone(), status);
            }
        }
        self.forget(configuration, routing);
    }

    fn forget(&mut self, configuration: &Configuration, routing: &Routing) {
        self.repos
            .retain(|id, _| configuration.repos.contains_key(id));
        self.destinations
            .retain(|id, _| configuration.destinations.contains_key(id));
        self.rules.retain(|id, _| routing.rules.contains_key(id));
    }

    async fn patch<K>(&self, id: &Id, status: &impl Serialize) -> bool
    where
        K: Resource<Scope = kube::core::NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
        K::DynamicType: Default,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &id.namespace);
        let patch = Patch::Merge(whole(status));
        api.patch_status(&id.name, &PatchParams::default(), &patch)
            .await
            .is_ok()
    }

    async fn patch_cluster(&self, name: &str, status: &WatchRuleStatus) -> bool {
        let api: Api<ClusterWatchRule> = Api::all(self.client.clone());
        let patch = Patch::Merge(whole(status));
        api.patch_status(name, &PatchParams::default(), &patch)
            .await
            .is_ok()
    }
}

/// A patch that also takes away what the status does not say any more.
fn whole(status: &impl Serialize) -> Value {
    let mut status = json!(status);
    if let Some(fields) = status.as_object_mut() {
        for field in [
            "massDeleteGuard",
            "setAside",
            "setAsideObjects",
            "watchedTypes",
        ] {
            fields.entry(field).or_insert(Value::Null);
        }
    }
    json!({"status": status})
}

/// What the destinations of a repository met when they used it.
fn reached(
    id: &Id,
    routing: &Routing,
    reports: &BTreeMap<Id, Report>,
) -> Option<Result<(), Refusal>> {
    use reverser_api::conditions::remote_reason as remote;
    let is_remote = |refusal: &&Refusal| {
        [
            remote::SECRET_NOT_FOUND,
            remote::SECRET_INVALID,
            remote::CREDENTIALS_REFUSED,
            remote::HOST_NOT_TRUSTED,
            remote::UNREACHABLE,
        ]
        .contains(&refusal.reason)
    };
    let users = routing.destinations.iter().filter(|(_, destination)| {
        destination
            .as_ref()
            .is_ok_and(|destination| destination.target.repo == *id)
    });
    let mut result = None;
    for (destination, _) in users {
        let Some(report) = reports.get(destination) else {
            continue;
        };
        match report.failure.as_ref().filter(is_remote) {
            Some(refusal) => return Some(Err(refusal.clone())),
            None => result = Some(Ok(())),
        }
    }
    result
}
