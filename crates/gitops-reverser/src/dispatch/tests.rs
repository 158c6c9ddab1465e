//! Sequences of events, and what they mean for a destination.

mod lists;
mod rules;
mod unreadable;

use std::collections::BTreeMap;
use std::sync::Arc;

use reverser_core::attribution::{How, Verdict};
use reverser_core::catalogue::{Catalogue, ServedType};
use reverser_core::selection::Exclusions;
use reverser_git::Scheme;
use serde_json::{Value, json};

use super::*;
use crate::identity::RuleId;
use crate::routing::{Configuration, RoutingOptions};
use crate::settings::AllowedRepoUrls;

/// A namespace `shop` with a destination, whose writer is a map of files.
pub(super) struct World {
    dispatcher: Dispatcher,
    configuration: Configuration,
    files: BTreeMap<String, String>,
    removed: Vec<(String, Option<DeleteProof>)>,
    withdrawn: Vec<(String, DeleteProof)>,
    /// How many messages came at once.
    together: Vec<usize>,
    listed_again: usize,
    list_soon: usize,
    unreadable: Vec<String>,
    pub(super) knowledge: Knowledge,
    max_types: usize,
    pub(super) attribution: Attribution,
    /// Each change that was sent, with who made it.
    pub(super) authors: Vec<String>,
}

pub(super) fn config_maps() -> Scope {
    let type_key = TypeKey::new("", "v1", "configmaps").unwrap();
    Scope {
        type_key,
        kind: "ConfigMap".into(),
        namespace: None,
    }
}

fn catalogue() -> Catalogue {
    let served = ServedType {
        key: config_maps().type_key,
        kind: "ConfigMap".into(),
        namespaced: true,
        preferred: true,
        scale: false,
    };
    Catalogue::from_types(vec![served])
}

fn object<T: serde::de::DeserializeOwned>(name: &str, spec: &Value) -> Arc<T> {
    let object = json!({
        "apiVersion": "configbutler.ai/v1alpha1", "kind": "X",
        "metadata": {"name": name, "namespace": "shop"}, "spec": spec,
    });
    Arc::new(serde_json::from_value(object).unwrap())
}

fn config_map(name: &str, version: u64, value: &str) -> Box<str> {
    labelled(name, version, value, &json!({}))
}

fn labelled(name: &str, version: u64, value: &str, labels: &Value) -> Box<str> {
    let metadata = json!({
        "name": name, "namespace": "shop", "uid": format!("uid-{name}"),
        "resourceVersion": version.to_string(), "labels": labels,
    });
    json!({"metadata": metadata, "data": {"value": value}})
        .to_string()
        .into()
}

/// Who made a change, and `-` where none was seen.
fn author(origin: Option<&Arc<Origin>>) -> String {
    let Some(origin) = origin else {
        return "-".to_owned();
    };
    match origin.verdict(None).0 {
        Verdict::Named(user, How::Exact) => user.name().to_owned(),
        Verdict::Named(user, How::Coalesced) => format!("{} (coalesced)", user.name()),
        Verdict::Ambiguous => "several".to_owned(),
        Verdict::Unseen => format!("unknown {}", origin.manager().unwrap_or_default()),
    }
}

impl World {
    pub(super) fn new() -> Self {
        let mut configuration = Configuration::default();
        configuration
            .namespaces
            .insert("shop".into(), BTreeMap::new());
        let repo = json!({"repoUrl": "https://git.example.com/r.git", "allowedBranches": ["main"]});
        configuration
            .repos
            .insert(Id::new("shop", "repo"), object("repo", &repo));
        let destination =
            json!({"repoRef": {"name": "repo"}, "branch": "main", "baseFolder": "prod"});
        configuration
            .destinations
            .insert(Id::new("shop", "prod"), object("prod", &destination));
        let attribution = Attribution::default();
        attribution.listen(true);
        let noise = NoiseFilter::without([]).unwrap();
        let mut world = Self {
            dispatcher: Dispatcher::new(noise, attribution.clone()),
            attribution,
            authors: Vec::new(),
            configuration,
            files: BTreeMap::new(),
            removed: Vec::new(),
            withdrawn: Vec::new(),
            together: Vec::new(),
            listed_again: 0,
            list_soon: 0,
            max_types: 300,
            unreadable: Vec::new(),
            knowledge: Knowledge::default(),
        };
        world.rule("rule", &json!({}));
        world
    }

    pub(super) fn rule(&mut self, name: &str, change: &Value) {
        let mut spec =
            json!({"destinationRef": {"name": "prod"}, "rules": [{"resources": ["configmaps"]}]});
        for (key, value) in change.as_object().unwrap() {
            spec[key] = value.clone();
        }
        self.configuration
            .watch_rules
            .insert(Id::new("shop", name), object(name, &spec));
        self.route();
    }

    /// Deletes a rule as a person does.
    fn delete_rule(&mut self, name: &str) {
        let id = Id::new("shop", name);
        self.configuration.watch_rules.remove(&id);
        let deleted = &mut self.configuration.deleted_rules;
        deleted.insert(RuleId::Watch(id));
        self.route();
    }

    fn route(&mut self) {
        self.route_with(&catalogue());
    }

    fn route_with(&mut self, catalogue: &Catalogue) {
        let options = RoutingOptions {
            schemes: vec![Scheme::Https],
            allowed_urls: AllowedRepoUrls::default(),
            secrets_mode: reverser_api::git_destination::SecretsMode::AsIs,
            exclusions: Exclusions::new(true, &[]),
            watch_all: false,
            max_types: self.max_types,
        };
        let routing = Arc::new(Routing::of(&self.configuration, catalogue, &options));
        let namespaces = Arc::new(self.configuration.namespaces.clone());
        let serves = |key: &TypeKey| catalogue.get(key).is_some();
        let effects = self.dispatcher.route(&routing, namespaces, serves);
        self.apply(effects);
    }

    pub(super) fn observe(&mut self, observation: Observation) {
        let effects = self.dispatcher.observe(&config_maps(), observation);
        self.apply(effects);
    }

    pub(super) fn see(&mut self, object: Box<str>) {
        self.observe(Observation::Seen {
            object,
            live: true,
            added: false,
        });
    }

    pub(super) fn list(&mut self, objects: Vec<Box<str>>) {
        self.observe(Observation::ListStarted);
        for object in objects {
            self.observe(Observation::Seen {
                object,
                live: false,
                added: false,
            });
        }
        self.observe(Observation::Listed(ListOutcome::Complete));
    }

    fn apply(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::ListAgain(_) => self.listed_again += 1,
                Effect::ListSoon(_) => self.list_soon += 1,
                Effect::Unreadable(_, sentence) => self.unreadable.push(sentence),
                Effect::Writer(
                    _,
                    _,
                    ToWriter::Put {
                        path,
                        content,
                        origin,
                        ..
                    },
                ) => {
                    self.authors.push(author(origin.as_ref()));
                    self.files.insert(path.to_string(), content.into());
                }
                Effect::Writer(
                    _,
                    _,
                    ToWriter::Remove {
                        path,
                        proof,
                        origin,
                    },
                ) => {
                    self.authors.push(author(origin.as_ref()));
                    if proof.is_some() {
                        self.files.remove(path.as_str());
                    }
                    self.removed.push((path.to_string(), proof));
                }
                Effect::Writer(_, _, ToWriter::Knowledge(knowledge)) => self.knowledge = *knowledge,
                Effect::Writer(_, _, ToWriter::Withdraw(type_key, withdrawn)) => {
                    let resource = type_key.resource().to_owned();
                    self.withdrawn.push((resource, withdrawn.proof));
                }
                Effect::Writer(target, id, ToWriter::Together(messages)) => {
                    self.together.push(messages.len());
                    let effect = |message| Effect::Writer(target.clone(), id.clone(), message);
                    self.apply(messages.into_iter().map(effect).collect());
                }
                Effect::Writer(_, _, ToWriter::Settings(_) | ToWriter::Forget) => {}
            }
        }
    }

    fn covers(&self) -> bool {
        let complete = &self.knowledge.complete;
        complete.covers(&config_maps().type_key, Some("shop"))
    }

    fn names(&self) -> Vec<&str> {
        let name = |path: &'_ String| path.rsplit('/').next().map_or(0, str::len);
        self.files
            .keys()
            .map(|path| &path[path.len() - name(path)..path.len() - 5])
            .collect()
    }
}

#[test]
fn listed_and_changed_objects_are_sent_once_for_each_content() {
    let mut world = World::new();
    world.list(vec![config_map("a", 1, "x"), config_map("b", 2, "y")]);
    assert_eq!(world.names(), ["a", "b"]);
    world.files.clear();
    world.see(config_map("a", 3, "x"));
    assert_eq!(
        world.names(),
        Vec::<&str>::new(),
        "a new version with the same content is no news"
    );
    world.see(config_map("a", 4, "z"));
    assert_eq!(world.names(), ["a"]);
}

#[test]
fn only_what_was_not_listed_yet_begins_a_round() {
    let mut world = World::new();
    let first = world.knowledge.round;
    world.list(vec![config_map("a", 1, "x")]);
    world.see(config_map("b", 2, "y"));
    world.list(vec![config_map("b", 2, "y")]);
    assert_eq!(world.knowledge.round, first, "the same was listed again");
    let selector = json!({"matchLabels": {"tier": "web"}});
    world.rule("rule", &json!({"objectSelector": selector}));
    assert_eq!(world.knowledge.round, first, "there is less to want");
    world.rule("rule", &json!({}));
    let second = world.knowledge.round;
    assert!(second > first, "what was let go is wanted again");
    let rounds = world.dispatcher.rounds();
    assert_eq!(rounds[&Id::new("shop", "prod")], second);
}

#[test]
fn a_rule_is_told_what_is_not_known_of_its_types() {
    let mut world = World::new();
    let rule = RuleId::Watch(Id::new("shop", "rule"));
    let of_rule = |world: &World| world.dispatcher.rule_scopes().remove(&rule);
    let maps = config_maps().type_key;
    let pending = of_rule(&world).unwrap().pending;
    assert!(pending.contains(&maps), "not listed yet: {pending:?}");
    world.list(vec![config_map("a", 1, "x")]);
    assert_eq!(of_rule(&world), None, "all is known");
    let lost = |reason| Observation::Lost {
        reason,
        message: "x".into(),
    };
    world.observe(lost(crate::watch::LossReason::Timeout));
    let scopes = of_rule(&world).unwrap();
    assert!(scopes.pending.is_empty() && !scopes.is_forbidden());
    assert_eq!(scopes.unknown.values().next().unwrap().why, "x");
    world.observe(lost(crate::watch::LossReason::Forbidden));
    assert!(of_rule(&world).unwrap().is_forbidden());
    world.observe(Observation::ListStarted);
    assert!(of_rule(&world).is_some(), "not before the list is complete");
    world.list(vec![config_map("a", 1, "x")]);
    assert_eq!(of_rule(&world), None);
}

#[test]
fn older_state_never_replaces_newer() {
    let mut world = World::new();
    world.list(vec![config_map("a", 10, "new")]);
    world.see(config_map("a", 9, "old"));
    assert!(world.files.values().all(|file| file.contains("new")));
}

#[test]
fn a_deletion_is_proven_by_its_event_and_only_for_that_uid() {
    let mut world = World::new();
    world.list(vec![config_map("a", 1, "x")]);
    let other = config_map("a", 2, "x").replace("uid-a", "uid-before");
    world.observe(Observation::Gone {
        object: other.into(),
    });
    assert_eq!(world.names(), ["a"]);
    world.observe(Observation::Gone {
        object: config_map("a", 3, "x"),
    });
    assert_eq!(
        world.removed,
        [(
            "core/v1/configmaps/shop/a.yaml".into(),
            Some(DeleteProof::Deleted)
        )]
    );
}

#[test]
fn the_late_deletion_of_an_object_takes_its_successor_out_of_no_list() {
    let mut world = World::new();
    world.list(vec![config_map("a", 1, "x")]);
    world.observe(Observation::ListStarted);
    world.observe(Observation::Seen {
        object: config_map("a", 3, "x").replace("uid-a", "uid-later").into(),
        live: false,
        added: false,
    });
    // Of a watch that was stopped for this list.
    world.observe(Observation::Gone {
        object: config_map("a", 2, "x"),
    });
    world.observe(Observation::Listed(ListOutcome::Complete));
    assert_eq!(world.names(), ["a"]);
    assert!(world.removed.is_empty(), "{:?}", world.removed);
}

#[test]
fn a_complete_list_proves_absence_and_a_broken_one_does_not() {
    let mut world = World::new();
    world.list(vec![config_map("a", 1, "x"), config_map("b", 2, "y")]);
    world.observe(Observation::ListStarted);
    world.observe(Observation::Undecodable {
        name: None,
        reason: "bad".into(),
    });
    world.observe(Observation::Listed(ListOutcome::Complete));
    assert_eq!(world.names(), ["a", "b"]);
    assert_eq!(world.knowledge.unknown.len(), 1);
    world.observe(Observation::ListStarted);
    let lost = Observation::Lost {
        reason: crate::watch::LossReason::Timeout,
        message: "x".into(),
    };
    world.observe(lost);
    assert_eq!(world.names(), ["a", "b"]);
    world.list(vec![config_map("b", 2, "y")]);
    assert_eq!(world.names(), ["b"]);
    assert_eq!(world.removed[0].1, Some(DeleteProof::AbsentFromList));
    assert_eq!(world.knowledge.unknown.len(), 0);
}

#[test]
fn after_a_loss_a_list_is_true_even_if_it_is_older() {
    let mut world = World::new();
    world.list(vec![config_map("a", 10, "new")]);
    world.list(vec![config_map("a", 5, "restored")]);
    assert!(
        world.files.values().all(|file| file.contains("new")),
        "a server that lags behind"
    );
    world.observe(Observation::Lost {
        reason: crate::watch::LossReason::Expired,
        message: "its past changed".into(),
    });
    world.list(vec![config_map("a", 5, "restored")]);
    assert!(world.files.values().all(|file| file.contains("restored")));
    world.see(config_map("a", 4, "older"));
    assert!(world.files.values().all(|file| file.contains("restored")));
}

#[test]
fn contents_that_are_missing_are_asked_for_once_until_the_list_has_ended() {
    let mut world = World::new();
    world.list(vec![config_map("a", 1, "x"), config_map("b", 2, "y")]);
    let prod = Id::new("shop", "prod");
    let before = world.listed_again;
    world.files.clear();
    let effects = world.dispatcher.send_again(&prod);
    world.apply(effects);
    assert_eq!(world.listed_again, before + 1);
    assert_eq!(
        world.knowledge.pending.len(),
        1,
        "nothing is written meanwhile"
    );
    world.observe(Observation::ListStarted);
    world.observe(Observation::Seen {
        object: config_map("a", 1, "x"),
        live: false,
        added: false,
    });
    // An attempt that was under way complains as well.
    let effects = world.dispatcher.send_again(&prod);
    world.apply(effects);
    assert_eq!(world.listed_again, before + 1);
    world.observe(Observation::Seen {
        object: config_map("b", 2, "y"),
        live: false,
        added: false,
    });
    world.observe(Observation::Listed(ListOutcome::Complete));
    assert_eq!(world.names(), ["a", "b"]);
    assert_eq!(world.knowledge.pending.len(), 0);
    let effects = world.dispatcher.send_again(&prod);
    world.apply(effects);
    assert_eq!(world.listed_again, before + 2);
}

#[test]
fn starting_anew_forgets_without_removing_anything() {
    let mut world = World::new();
    world.list(vec![config_map("a", 1, "x")]);
    let effects = world.dispatcher.start_anew();
    assert_eq!(effects.len(), 1, "the destination is told to forget");
    world.apply(effects);
    world.configuration.watch_rules.clear();
    world.route();
    assert_eq!(world.names(), ["a"]);
}

#[test]
fn what_is_found_to_be_gone_at_once_is_told_at_once() {
    let objects = |count: u64| (0..count).map(|at| config_map(&at.to_string(), at + 1, "x"));
    let mut world = World::new();
    world.list(objects(300).collect());
    assert_eq!(world.together, Vec::<usize>::new());
    world.list(objects(100).collect());
    assert_eq!(world.together, [200]);
    world.rule(
        "rule",
        &json!({"objectSelector": {"matchLabels": {"a": "b"}}}),
    );
    assert_eq!(world.together, [200, 100]);
    assert_eq!(world.removed.len(), 300);
}

#[test]
fn the_objects_of_a_type_that_is_not_served_are_not_wanted_and_not_proven_to_be_gone() {
    let mut world = World::new();
    world.list(vec![config_map("a", 1, "x")]);
    world.route_with(&Catalogue::default());
    let path = "core/v1/configmaps/shop/a.yaml".to_owned();
    assert_eq!(world.removed, [(path, None)]);
    assert!(world.knowledge.needed.is_empty());
}

#[test]
fn files_of_another_version_go_only_when_that_one_is_listed() {
    let mut world = World::new();
    world.list(vec![config_map("a", 1, "x")]);
    let served = |version: &str, preferred| ServedType {
        key: TypeKey::new("", version, "configmaps").unwrap(),
        kind: "ConfigMap".into(),
        namespaced: true,
        preferred,
        scale: false,
    };
    let newer = Catalogue::from_types(vec![served("v1", false), served("v2", true)]);
    world.route_with(&newer);
    let path = "core/v1/configmaps/shop/a.yaml".to_owned();
    assert_eq!(world.removed, [(path, None)]);
    assert_eq!(world.knowledge.pending.len(), 1, "v2 is to be listed");
}

#[test]
fn where_namespaces_are_watched_one_by_one_each_of_its_own_counts_and_no_other() {
    let mut world = World::new();
    let scope = |namespace: &str| Scope {
        namespace: Some(namespace.into()),
        ..config_maps()
    };
    let scopes = HashSet::from([scope("shop"), scope("elsewhere")]);
    let effects = world.dispatcher.watch(&scopes);
    world.apply(effects);
    let in_scope = |world: &mut World, namespace: &str, observation| {
        let effects = world.dispatcher.observe(&scope(namespace), observation);
        world.apply(effects);
    };
    let lost = || Observation::Lost {
        reason: crate::watch::LossReason::Forbidden,
        message: "no".into(),
    };
    in_scope(&mut world, "elsewhere", Observation::ListStarted);
    in_scope(
        &mut world,
        "elsewhere",
        Observation::Listed(ListOutcome::Complete),
    );
    assert_eq!(
        world.knowledge.pending.len(),
        1,
        "its own is not listed yet"
    );
    in_scope(&mut world, "shop", Observation::ListStarted);
    in_scope(
        &mut world,
        "shop",
        Observation::Listed(ListOutcome::Complete),
    );
    assert!(world.knowledge.pending.is_empty());
    in_scope(&mut world, "elsewhere", lost());
    assert!(
        world.knowledge.unknown.is_empty(),
        "that is another tenant's"
    );
    in_scope(&mut world, "shop", lost());
    assert_eq!(world.knowledge.unknown.len(), 1);
}
