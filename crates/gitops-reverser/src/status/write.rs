//! Writes statuses that are news.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client, Resource};
use reverser_api::git_destination::GitDestinationStatus;
use reverser_api::git_repo_config::GitRepoConfigStatus;
use reverser_api::watch_rule::WatchRuleStatus;
use reverser_api::{ClusterWatchRule, GitDestination, GitRepoConfig, WatchRule};
use serde::Serialize;
use serde_json::{Value, json};

use super::events::{self, Events};
use super::{Selected, Standing, of_destination, of_repo, of_rule, same};
use crate::api_read::describe;
use crate::identity::{Id, RuleId};
use crate::routing::{Configuration, OwnKind, Refusal, Routing, Rule, Unreadable};
use crate::telemetry::Telemetry;
use crate::telemetry::facts::StatusNotWritten;
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
    /// The round of lists that a report must have heard of to say anything about what is wanted now.
    pub rounds: BTreeMap<Id, u64>,
    /// Why nothing is watched at all.
    pub disabled: Option<Refusal>,
    /// Why the store that replicas share cannot be used.
    pub store_trouble: Option<String>,
}

impl Statuses {
    fn selected(&self, id: &Id) -> Selected {
        let mut rules = self.routing.rules.values().flatten();
        let (heard_of, begun) = (self.reports.get(id), self.rounds.get(id));
        if !rules.any(|rule| rule.destination == *id) {
            Selected::Nothing
        } else if heard_of.map(|report| report.round) < begun.copied() {
            Selected::MoreToList
        } else {
            Selected::AsReported
        }
    }
}

/// Writes statuses, and remembers what it wrote.
pub struct StatusWriter {
    client: Client,
    events: Events,
    repos: BTreeMap<Id, GitRepoConfigStatus>,
    destinations: BTreeMap<Id, GitDestinationStatus>,
    rules: BTreeMap<RuleId, WatchRuleStatus>,
    telemetry: Telemetry,
    /// Whether something could not be written in this round.
    failed: bool,
    /// What was said last about that: the same is said once.
    complaint: String,
    unreadable: BTreeMap<(OwnKind, Id), (Unreadable, Vec<Condition>)>,
}

impl StatusWriter {
    /// Has written nothing yet.
    #[must_use]
    pub fn new(client: Client, instance_id: &str, telemetry: Telemetry) -> Self {
        Self {
            events: Events::new(client.clone(), instance_id),
            client,
            repos: BTreeMap::new(),
            destinations: BTreeMap::new(),
            rules: BTreeMap::new(),
            telemetry,
            failed: false,
            complaint: String::new(),
            unreadable: BTreeMap::new(),
        }
    }

    /// Writes what has changed, and tells whether all of it could be written. What could not is tried
    /// at the next call.
    pub async fn write(&mut self, statuses: &Statuses, now: &Time) -> bool {
        self.failed = false;
        self.write_repos(statuses, now).await;
        self.write_destinations(statuses, now).await;
        self.write_rules(statuses, now).await;
        self.write_unreadable(&statuses.configuration, now).await;
        self.forget(&statuses.configuration, &statuses.routing);
        if !self.failed {
            self.complaint.clear();
        }
        !self.failed
    }

    async fn write_repos(&mut self, statuses: &Statuses, now: &Time) {
        let Statuses {
            configuration,
            routing,
            reports,
            disabled,
            ..
        } = statuses;
        for (id, repo) in &configuration.repos {
            let refusal = routing.repos.get(id).and_then(|url| url.as_ref().err());
            let reached = reached(id, routing, reports);
            let mut repo = (**repo).clone();
            repo.status = self.repos.get(id).cloned().or(repo.status);
            let status = of_repo(&repo, disabled.as_ref().or(refusal), reached.as_ref(), now);
            if same(repo.status.as_ref(), &status)
                || !self.patch(OwnKind::Repo, id, whole(&status)).await
            {
                continue;
            }
            let old = repo.status.as_ref().map(|status| &status.conditions[..]);
            let news = events::of_others(old.unwrap_or_default(), &status.conditions);
            self.events.publish(&repo, news).await;
            self.repos.insert(id.clone(), status);
        }
    }

    async fn write_destinations(&mut self, statuses: &Statuses, now: &Time) {
        let Statuses {
            configuration,
            routing,
            reports,
            disabled,
            store_trouble,
            ..
        } = statuses;
        for (id, object) in &configuration.destinations {
            let Some(resolved) = routing.destinations.get(id) else {
                continue;
            };
            let destination = disabled.as_ref().map_or(resolved.as_ref(), Err);
            let mut object = (**object).clone();
            object.status = self.destinations.get(id).cloned().or(object.status);
            let (selected, report) = (statuses.selected(id), reports.get(id));
            let trouble = store_trouble.as_deref();
            let status = of_destination(&object, destination, selected, report, trouble, now);
            if same(object.status.as_ref(), &status)
                || !self.patch(OwnKind::Destination, id, whole(&status)).await
            {
                continue;
            }
            let old = object.status.clone().unwrap_or_default();
            let news = events::of_destination(&old, &status);
            self.events.publish(&object, news).await;
            self.destinations.insert(id.clone(), status);
        }
    }

    async fn write_rules(&mut self, statuses: &Statuses, now: &Time) {
        let Statuses {
            configuration,
            routing,
            disabled,
            ..
        } = statuses;
        for (id, resolved) in &routing.rules {
            let resolved = disabled.as_ref().map_or(resolved.as_ref(), Err);
            match id {
                RuleId::Watch(at) => {
                    if let Some(rule) = configuration.watch_rules.get(at) {
                        let own = (OwnKind::WatchRule, at);
                        let status = rule.status.as_ref();
                        self.write_rule(id, own, &**rule, status, resolved, now)
                            .await;
                    }
                }
                RuleId::Cluster(name) => {
                    if let Some(rule) = configuration.cluster_rules.get(name) {
                        let own = (OwnKind::ClusterRule, &Id::new("", name));
                        let status = rule.status.as_ref();
                        self.write_rule(id, own, &**rule, status, resolved, now)
                            .await;
                    }
                }
            }
        }
    }

    async fn write_rule<K: Resource<DynamicType = ()>>(
        &mut self,
        id: &RuleId,
        (kind, at): (OwnKind, &Id),
        rule: &K,
        status: Option<&WatchRuleStatus>,
        resolved: Result<&Rule, &Refusal>,
        now: &Time,
    ) {
        let old = self.rules.get(id).or(status).cloned();
        let status = of_rule(old.as_ref(), rule.meta().generation, resolved, now);
        if same(old.as_ref(), &status) || !self.patch(kind, at, whole(&status)).await {
            return;
        }
        let old = old.unwrap_or_default();
        let news = events::of_others(&old.conditions, &status.conditions);
        self.events.publish(rule, news).await;
        self.rules.insert(id.clone(), status);
    }

    /// What cannot be read has no spec to go by, but a name and a status.
    async fn write_unreadable(&mut self, configuration: &Configuration, now: &Time) {
        for (key, unreadable) in &configuration.unreadable {
            let known = self.unreadable.get(key);
            if known.is_some_and(|(known, _)| known == unreadable) {
                continue;
            }
            let old = known.map(|(_, old)| &old[..]).unwrap_or_default();
            let standing = Standing::refused(&unreadable.refusal());
            let conditions = standing.conditions(old, unreadable.generation, now);
            let status = json!({
                "observedGeneration": unreadable.generation, "conditions": conditions,
            });
            let (kind, id) = key;
            if self.patch(*kind, id, status).await {
                let written = (unreadable.clone(), conditions);
                self.unreadable.insert(key.clone(), written);
            }
        }
    }

    fn forget(&mut self, configuration: &Configuration, routing: &Routing) {
        self.repos
            .retain(|id, _| configuration.repos.contains_key(id));
        self.destinations
            .retain(|id, _| configuration.destinations.contains_key(id));
        self.rules.retain(|id, _| routing.rules.contains_key(id));
        self.unreadable
            .retain(|key, _| configuration.unreadable.contains_key(key));
    }

    /// Whether it was written.
    async fn patch(&mut self, kind: OwnKind, id: &Id, status: Value) -> bool {
        let resource = match kind {
            OwnKind::Repo => ApiResource::erase::<GitRepoConfig>(&()),
            OwnKind::Destination => ApiResource::erase::<GitDestination>(&()),
            OwnKind::WatchRule => ApiResource::erase::<WatchRule>(&()),
            OwnKind::ClusterRule => ApiResource::erase::<ClusterWatchRule>(&()),
        };
        let api: Api<DynamicObject> = if kind == OwnKind::ClusterRule {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), &id.namespace, &resource)
        };
        let patch = Patch::Merge(json!({"status": status}));
        let parameters = PatchParams::default();
        let patched = api.patch_status(&id.name, &parameters, &patch).await;
        self.note(id, &patched)
    }

    /// What does not exist any more has no status.
    fn note<T>(&mut self, id: &Id, patched: &kube::Result<T>) -> bool {
        match patched {
            Ok(_) => return true,
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => {
                self.failed = true;
                let reason = describe(error);
                if self.complaint != reason {
                    let of = &id.to_string();
                    let reason = reason.as_str();
                    self.telemetry.emit(StatusNotWritten { of, reason });
                    reason.clone_into(&mut self.complaint);
                }
            }
        }
        false
    }
}

/// A status that also takes away what the status does not say any more.
fn whole(status: &impl Serialize) -> Value {
    let mut status = json!(status);
    if let Some(fields) = status.as_object_mut() {
        for field in [
            "massDeleteGuard",
            "objects",
            "setAside",
            "setAsideObjects",
            "watchedTypes",
        ] {
            fields.entry(field).or_insert(Value::Null);
        }
    }
    status
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::Rule;

    #[test]
    fn a_report_from_before_a_rule_came_says_nothing_about_it() {
        let id = Id::new("shop", "prod");
        let mut statuses = Statuses::default();
        let report = |round| Report {
            in_sync: true,
            round,
            ..Report::default()
        };
        statuses.reports.insert(id.clone(), report(1));
        statuses.rounds.insert(id.clone(), 1);
        assert_eq!(statuses.selected(&id), Selected::Nothing);
        let rule = Rule {
            destination: id.clone(),
            selector: reverser_core::labels::LabelSelector::default(),
            parts: Vec::new(),
            unserved: Vec::new(),
            out_of_reach: Vec::new(),
            subresources: Vec::new(),
            over_limit: Vec::new(),
            watched_types: 1,
        };
        let routing = Arc::make_mut(&mut statuses.routing);
        let rule_id = RuleId::Watch(Id::new("shop", "rule"));
        routing.rules.insert(rule_id, Ok(rule));
        statuses.rounds.insert(id.clone(), 2);
        assert_eq!(statuses.selected(&id), Selected::MoreToList);
        statuses.reports.insert(id.clone(), report(2));
        assert_eq!(statuses.selected(&id), Selected::AsReported);
    }
}
