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

use super::events::{self, Events, Told};
use super::remembered::Remembered;
use super::tally::Tally;
use super::{Selected, Standing, of_destination, of_repo, of_rule, same};
use crate::api_read::describe;
use crate::dispatch::RuleScopes;
use crate::identity::{Id, RuleId};
use crate::routing::{
    Configuration, Edition, OwnKind, Refusal, RepoState, Routing, Rule, Unreadable,
};
use crate::telemetry::Telemetry;
use crate::telemetry::facts::StatusNotWritten;
use crate::writer::{RemoteAnswer, Report};

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
    /// What repositories answered to which nobody has written yet.
    pub probed: BTreeMap<Id, RemoteAnswer>,
    /// What is not known of the types of rules.
    pub scopes: BTreeMap<RuleId, RuleScopes>,
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

    /// What came of the last use of a repository: by its destinations, or else by asking it.
    fn reached(&self, id: &Id) -> Option<&Result<(), Refusal>> {
        let now = RepoState {
            url: self.routing.repos.get(id)?.clone().ok()?,
            edition: Edition::of(&**self.configuration.repos.get(id)?),
        };
        let destinations = self.routing.destinations.iter();
        let users = destinations.filter(|(_, destination)| {
            let target = destination.as_ref().map(|destination| &destination.target);
            target.is_ok_and(|target| target.repo == *id)
        });
        let answers = users.filter_map(|(user, _)| self.reports.get(user)?.remote.as_ref());
        let is_of_now = |answer: &&RemoteAnswer| answer.of == now;
        let answers: Vec<&RemoteAnswer> = answers.filter(is_of_now).collect();
        let failed = answers.iter().find(|answer| answer.result.is_err());
        let used = failed.or(answers.first()).copied();
        let answer = used.or_else(|| self.probed.get(id).filter(is_of_now))?;
        Some(&answer.result)
    }

    /// Whether the operator lacks a right to read what goes to a destination.
    fn is_forbidden(&self, id: &Id) -> bool {
        let rules = self.routing.rules.iter();
        let mut of_it = rules.filter(|(_, rule)| {
            let to = rule.as_ref().map(|rule| &rule.destination);
            to.is_ok_and(|to| to == id)
        });
        of_it.any(|(rule, _)| self.scopes.get(rule).is_some_and(RuleScopes::is_forbidden))
    }
}

/// Writes statuses, and remembers what it wrote.
pub struct StatusWriter {
    client: Client,
    events: Events,
    repos: Remembered<Id, GitRepoConfigStatus>,
    destinations: Remembered<Id, GitDestinationStatus>,
    rules: Remembered<RuleId, WatchRuleStatus>,
    repos_told: Told<Id>,
    rules_told: Told<RuleId>,
    telemetry: Telemetry,
    not_ready: Tally,
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
            repos: Remembered::nothing(),
            destinations: Remembered::nothing(),
            rules: Remembered::nothing(),
            repos_told: Told::nothing(),
            rules_told: Told::nothing(),
            telemetry,
            not_ready: Tally::default(),
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
        self.not_ready.tell(&self.telemetry);
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
            disabled,
            ..
        } = statuses;
        for (id, repo) in &configuration.repos {
            let refusal = routing.repos.get(id).and_then(|url| url.as_ref().err());
            let reached = statuses.reached(id);
            let mut repo = (**repo).clone();
            let uid = repo.metadata.uid.clone();
            let uid = uid.as_deref();
            repo.status = self.repos.of(id, uid).cloned().or(repo.status);
            let status = of_repo(&repo, disabled.as_ref().or(refusal), reached, now);
            self.not_ready.count(OwnKind::Repo, &status.conditions);
            if same(repo.status.as_ref(), &status)
                || !self.patch(OwnKind::Repo, id, whole(&status)).await
            {
                continue;
            }
            let old = repo.status.as_ref().map(|status| &status.conditions[..]);
            let old = old.unwrap_or_default();
            let news = self.repos_told.news(id, uid, old, &status.conditions);
            self.events.publish(&repo, news).await;
            self.repos.insert(id.clone(), uid, status);
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
            let uid = object.metadata.uid.clone();
            let uid = uid.as_deref();
            object.status = self.destinations.of(id, uid).cloned().or(object.status);
            let (selected, report) = (statuses.selected(id), reports.get(id));
            let (forbidden, trouble) = (statuses.is_forbidden(id), store_trouble.as_deref());
            let status = of_destination(
                &object,
                destination,
                selected,
                report,
                forbidden,
                trouble,
                now,
            );
            self.not_ready
                .count(OwnKind::Destination, &status.conditions);
            if same(object.status.as_ref(), &status)
                || !self.patch(OwnKind::Destination, id, whole(&status)).await
            {
                continue;
            }
            let old = object.status.clone().unwrap_or_default();
            let news = events::of_destination(&old, &status);
            self.events.publish(&object, news).await;
            self.destinations.insert(id.clone(), uid, status);
        }
    }

    async fn write_rules(&mut self, statuses: &Statuses, now: &Time) {
        let Statuses {
            configuration,
            routing,
            scopes,
            disabled,
            ..
        } = statuses;
        let all_known = RuleScopes::default();
        for (id, resolved) in &routing.rules {
            let resolved = disabled.as_ref().map_or(resolved.as_ref(), Err);
            let resolved = resolved.map(|rule| (rule, scopes.get(id).unwrap_or(&all_known)));
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
        resolved: Result<(&Rule, &RuleScopes), &Refusal>,
        now: &Time,
    ) {
        let uid = rule.meta().uid.as_deref();
        let old = self.rules.of(id, uid).or(status).cloned();
        let status = of_rule(old.as_ref(), rule.meta().generation, resolved, now);
        self.not_ready.count(kind, &status.conditions);
        if same(old.as_ref(), &status) || !self.patch(kind, at, whole(&status)).await {
            return;
        }
        let old = old.unwrap_or_default();
        let news = self
            .rules_told
            .news(id, uid, &old.conditions, &status.conditions);
        self.events.publish(rule, news).await;
        self.rules.insert(id.clone(), uid, status);
    }

    /// What cannot be read has no spec to go by, but a name and a status.
    async fn write_unreadable(&mut self, configuration: &Configuration, now: &Time) {
        for (key, unreadable) in &configuration.unreadable {
            let known = self.unreadable.get(key);
            if let Some((_, conditions)) = known.filter(|(known, _)| known == unreadable) {
                self.not_ready.count(key.0, conditions);
                continue;
            }
            let before = known.filter(|(known, _)| known.uid == unreadable.uid);
            let old = before.map(|(_, old)| &old[..]).unwrap_or_default();
            let standing = Standing::refused(&unreadable.refusal());
            let conditions = standing.conditions(old, unreadable.generation, now);
            let status = json!({
                "observedGeneration": unreadable.generation, "conditions": conditions,
            });
            let (kind, id) = key;
            self.not_ready.count(*kind, &conditions);
            if self.patch(*kind, id, status).await {
                let written = (unreadable.clone(), conditions);
                self.unreadable.insert(key.clone(), written);
            }
        }
    }

    fn forget(&mut self, configuration: &Configuration, routing: &Routing) {
        self.repos.retain(|id| configuration.repos.contains_key(id));
        self.destinations
            .retain(|id| configuration.destinations.contains_key(id));
        self.rules.retain(|id| routing.rules.contains_key(id));
        self.repos_told
            .retain(|id| configuration.repos.contains_key(id));
        self.rules_told.retain(|id| routing.rules.contains_key(id));
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
            "heldBackDeletions",
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

#[cfg(test)]
mod tests {
    use reverser_git::{BranchName, RemoteUrl, Scheme};

    use super::*;
    use crate::routing::{Destination, Target};

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
        let rule = Rule::sample();
        let routing = Arc::make_mut(&mut statuses.routing);
        let rule_id = RuleId::Watch(Id::new("shop", "rule"));
        routing.rules.insert(rule_id, Ok(rule));
        statuses.rounds.insert(id.clone(), 2);
        assert_eq!(statuses.selected(&id), Selected::MoreToList);
        statuses.reports.insert(id.clone(), report(2));
        assert_eq!(statuses.selected(&id), Selected::AsReported);
    }

    #[test]
    fn a_repository_is_as_whoever_used_it_last_found_it() {
        let url = |text: &str| RemoteUrl::parse(text, Scheme::DEFAULT_ALLOWED).unwrap();
        let (here, elsewhere) = (
            url("https://git.example.com/r"),
            url("https://git.example.com/s"),
        );
        let repo = Id::new("shop", "repo");
        let refused = || {
            Err(Refusal {
                reason: "CredentialsRefused",
                message: String::new(),
            })
        };
        let mut statuses = Statuses::default();
        let described: GitRepoConfig = serde_json::from_value(json!({
            "metadata": {"name": "repo", "namespace": "shop", "generation": 2, "uid": "one"},
            "spec": {"repoUrl": here.as_str(), "allowedBranches": ["main"]},
        }))
        .unwrap();
        let edition = Edition::of(&described);
        let answer = |url: &RemoteUrl, result| RemoteAnswer {
            of: RepoState {
                url: url.clone(),
                edition: edition.clone(),
            },
            result,
        };
        let configuration = Arc::make_mut(&mut statuses.configuration);
        configuration
            .repos
            .insert(repo.clone(), Arc::new(described));
        let routing = Arc::make_mut(&mut statuses.routing);
        routing.repos.insert(repo.clone(), Ok(here.clone()));
        for (name, branch) in [("prod", "main"), ("test", "test")] {
            let destination = Destination::sample(Target {
                url: here.clone(),
                branch: BranchName::parse(branch).unwrap(),
                repo: repo.clone(),
            });
            routing
                .destinations
                .insert(Id::new("shop", name), Ok(destination));
        }
        assert_eq!(statuses.reached(&repo), None, "nobody knows yet");
        let probed = &mut statuses.probed;
        probed.insert(repo.clone(), answer(&elsewhere, Ok(())));
        assert_eq!(statuses.reached(&repo), None, "that was another address");
        for (field, value) in [("generation", json!(1)), ("uid", json!("another"))] {
            let mut other = serde_json::to_value(&*statuses.configuration.repos[&repo]).unwrap();
            other["metadata"][field] = value;
            let other: GitRepoConfig = serde_json::from_value(other).unwrap();
            let mut before = answer(&here, Ok(()));
            before.of.edition = Edition::of(&other);
            statuses.probed.insert(repo.clone(), before);
            assert_eq!(statuses.reached(&repo), None, "credentials may be others");
        }
        statuses.probed.insert(repo.clone(), answer(&here, Ok(())));
        assert_eq!(statuses.reached(&repo), Some(&Ok(())));

        // Whatever else keeps a destination from being written hides nothing of it.
        let mut report = |name: &str, result| {
            let report = Report {
                remote: Some(answer(&here, result)),
                failure: Some(Refusal {
                    reason: "Suspended",
                    message: String::new(),
                }),
                ..Report::default()
            };
            statuses.reports.insert(Id::new("shop", name), report);
            statuses.reached(&repo).cloned()
        };
        assert_eq!(report("prod", refused()), Some(refused()));
        assert_eq!(report("test", Ok(())), Some(refused()));
        assert_eq!(report("prod", Ok(())), Some(Ok(())));
    }
}
