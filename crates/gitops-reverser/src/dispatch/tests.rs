//! Sequences of events, and what they mean for a destination.

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
fn an_object_that_cannot_be_read_keeps_the_scope_unknown() {
    let mut world = World::new();
    world.list(vec![config_map("a", 1, "x"), "{\"metadata\":{}}".into()]);
    assert_eq!(world.names(), ["a"]);
    assert!(
        !world
            .knowledge
            .complete
            .covers(&config_maps().type_key, Some("shop"))
    );
}

#[test]
fn unlabelling_takes_an_object_out_and_labelling_brings_it_in() {
    let mut world = World::new();
    world.rule(
        "rule",
        &json!({"objectSelector": {"matchLabels": {"tier": "web"}}}),
    );
    world.list(vec![config_map("a", 1, "x")]);
    assert_eq!(world.names(), Vec::<&str>::new());
    world.see(labelled("a", 2, "x", &json!({"tier": "web"})));
    assert_eq!(world.names(), ["a"]);
    world.see(labelled("a", 3, "x", &json!({"tier": "db"})));
    assert_eq!(world.removed[0].1, Some(DeleteProof::Deselected));
}

#[test]
fn deleting_a_rule_removes_what_no_other_rule_selects() {
    let mut world = World::new();
    world.rule(
        "web",
        &json!({"objectSelector": {"matchLabels": {"tier": "web"}}}),
    );
    assert_eq!(world.listed_again, 0, "nothing was seen that it could want");
    world.list(vec![
        config_map("a", 1, "x"),
        labelled("b", 2, "y", &json!({"tier": "web"})),
    ]);
    world.delete_rule("rule");
    assert_eq!(world.names(), ["b"]);
    assert_eq!(world.removed[0].1, Some(DeleteProof::RuleDeleted));
}

#[test]
fn a_rule_that_is_missing_although_nobody_saw_it_go_was_not_deleted_on_purpose() {
    let mut world = World::new();
    world.list(vec![config_map("a", 1, "x")]);
    world.configuration.watch_rules.clear();
    world.route();
    assert_eq!(world.removed[0].1, Some(DeleteProof::Deselected));
    assert_eq!(world.withdrawn[0].1, DeleteProof::Deselected);
}

#[test]
fn a_rule_that_is_deleted_before_its_list_has_ended_takes_all_files_of_its_types_along() {
    let delete = |world: &mut World| world.delete_rule("rule");
    let proof = DeleteProof::RuleDeleted;
    let mut world = World::new();
    world.observe(Observation::ListStarted);
    delete(&mut world);
    assert_eq!(world.withdrawn, [("configmaps".to_owned(), proof)]);

    // Another rule still selects of the type: its list tells which files may go.
    let mut world = World::new();
    world.rule(
        "web",
        &json!({"objectSelector": {"matchLabels": {"tier": "web"}}}),
    );
    delete(&mut world);
    assert_eq!(world.withdrawn, []);

    // One that keeps its files, one that is refused, and a type that cannot be listed.
    let mut world = World::new();
    world.rule(
        "rule",
        &json!({"rules": [{"resources": ["configmaps"], "operations": ["CREATE"]}]}),
    );
    delete(&mut world);
    assert_eq!(world.withdrawn, []);
    let mut world = World::new();
    world.rule(
        "rule",
        &json!({"objectSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}),
    );
    assert_eq!(world.withdrawn, []);
    delete(&mut world);
    assert_eq!(world.withdrawn, []);
    let mut world = World::new();
    world.observe(Observation::Lost {
        reason: crate::watch::LossReason::Forbidden,
        message: "no".into(),
    });
    delete(&mut world);
    assert_eq!(world.withdrawn, []);

    // A type that is not served any more, a destination that goes, and starting anew.
    let mut world = World::new();
    world.route_with(&Catalogue::default());
    let mut gone = World::new();
    gone.configuration.destinations.clear();
    delete(&mut gone);
    let mut anew = World::new();
    let effects = anew.dispatcher.start_anew();
    anew.apply(effects);
    delete(&mut anew);
    for world in [world, gone, anew] {
        assert_eq!(world.withdrawn, []);
    }
}

#[test]
fn a_rule_that_is_refused_keeps_its_files() {
    let mut world = World::new();
    world.list(vec![config_map("a", 1, "x")]);
    world.rule(
        "rule",
        &json!({"destinationRef": {"name": "prod", "namespace": "elsewhere"}}),
    );
    world.rule(
        "refused",
        &json!({"objectSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}),
    );
    assert_eq!(
        world.removed.len(),
        1,
        "the rule that points elsewhere left, the refused one was not there"
    );
    let mut world = World::new();
    world.list(vec![config_map("a", 1, "x")]);
    world.rule(
        "rule",
        &json!({"objectSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}),
    );
    assert_eq!(world.names(), ["a"]);
    assert_eq!(
        world.removed[0].1, None,
        "nobody wants it, and nothing proves it gone"
    );
    assert!(world.knowledge.deletable.is_empty());
}

#[test]
fn deleting_a_destination_leaves_its_files() {
    let mut world = World::new();
    world.list(vec![config_map("a", 1, "x")]);
    world.configuration.destinations.clear();
    world.route();
    assert_eq!(world.names(), ["a"]);
}

#[test]
fn without_the_operation_a_deletion_has_no_proof() {
    let mut world = World::new();
    let rules =
        json!({"rules": [{"resources": ["configmaps"], "operations": ["CREATE", "UPDATE"]}]});
    world.rule("rule", &rules);
    world.list(vec![config_map("a", 1, "x")]);
    world.observe(Observation::Gone {
        object: config_map("a", 2, "x"),
    });
    assert_eq!(world.removed[0].1, None);
    assert!(world.knowledge.deletable.is_empty());
}

#[test]
fn a_destination_that_comes_later_waits_for_a_list_before_anything_counts_as_absent() {
    let mut world = World::new();
    world.list(vec![config_map("a", 1, "x")]);
    let spec = json!({"repoRef": {"name": "repo"}, "branch": "main", "baseFolder": "late"});
    let late = Id::new("shop", "late");
    world
        .configuration
        .destinations
        .insert(late, object("late", &spec));
    world.rule("late", &json!({"destinationRef": {"name": "late"}}));
    assert_eq!(world.listed_again, 1, "its contents are not kept");
    assert_eq!(world.knowledge.pending.len(), 1);
    assert!(!world.covers());
    world.route();
    assert_eq!(world.listed_again, 1, "one list is enough");
    world.list(vec![config_map("a", 1, "x")]);
    assert!(world.covers() && world.knowledge.pending.is_empty());
}

#[test]
fn labelling_a_namespace_brings_its_objects_in_and_unlabelling_takes_them_out() {
    let mut world = World::new();
    world.configuration.watch_rules.clear();
    world.configuration.repos.insert(
        Id::new("shop", "repo"),
        object(
            "repo",
            &json!({
                "repoUrl": "https://git.example.com/r.git", "allowedBranches": ["main"],
                "accessPolicy": {"allowClusterRules": true},
            }),
        ),
    );
    let spec = json!({
        "destinationRef": {"name": "prod", "namespace": "shop"},
        "rules": [{
            "scope": "Namespaced", "resources": ["configmaps"],
            "namespaceSelector": {"matchLabels": {"mirrored": "yes"}},
        }],
    });
    world
        .configuration
        .cluster_rules
        .insert("all".into(), object("all", &spec));
    world.route();
    world.list(vec![config_map("a", 1, "x")]);
    assert!(world.files.is_empty());
    let labels = BTreeMap::from([("mirrored".to_owned(), "yes".to_owned())]);
    world.configuration.namespaces.insert("shop".into(), labels);
    world.route();
    assert_eq!(world.listed_again, 1);
    world.list(vec![config_map("a", 1, "x")]);
    assert_eq!(world.names(), ["a"]);
    world
        .configuration
        .namespaces
        .insert("shop".into(), BTreeMap::new());
    world.route();
    assert_eq!(world.removed[0].1, Some(DeleteProof::Deselected));
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
fn what_only_a_refused_rule_selects_stays_even_if_its_object_is_deleted() {
    let mut world = World::new();
    world.rule("other", &json!({}));
    world.list(vec![config_map("a", 1, "x")]);
    let never = json!({"matchLabels": {"tier": "none"}});
    world.rule("other", &json!({"objectSelector": never}));
    let refused = json!({"matchExpressions": [{"key": "a", "operator": "Like"}]});
    world.rule("rule", &json!({"objectSelector": refused}));
    world.observe(Observation::Gone {
        object: config_map("a", 2, "x"),
    });
    assert_eq!(world.names(), ["a"]);
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
fn objects_that_could_not_be_read_are_to_be_listed_again() {
    let mut world = World::new();
    world.list(vec!["{\"metadata\":{}}".into()]);
    assert_eq!(world.dispatcher.partly_read().len(), 1);
    world.list(vec![config_map("a", 1, "x")]);
    assert!(world.dispatcher.partly_read().is_empty());
}

#[test]
fn an_object_that_cannot_be_read_is_named_and_its_file_stays() {
    let bad = |kind: &str| -> Box<str> {
        let metadata = r#""metadata":{"name":"a","namespace":"shop","resourceVersion":"7"}"#;
        format!(r#"{{{metadata},"data":{{"{kind}":1,"{kind}":2}}}}"#).into()
    };
    let named = |world: &World| {
        let mut unknown = world.knowledge.unknown.values();
        let unknown = unknown.next().cloned().unwrap_or_default();
        assert!(unknown.contains("shop/a ("), "{unknown}");
        assert_eq!(world.unreadable.last(), Some(&unknown));
        assert!(!world.covers());
        assert_eq!(world.names(), ["a", "b"]);
        assert_eq!(world.dispatcher.partly_read().len(), 1);
    };
    let listed = || {
        let mut world = World::new();
        world.list(vec![config_map("a", 1, "x"), config_map("b", 2, "y")]);
        assert_eq!(world.knowledge.unknown.len(), 0);
        world
    };
    let mut world = listed();
    world.see(bad("k"));
    named(&world);
    let mut world = listed();
    world.observe(Observation::Gone { object: bad("k") });
    named(&world);
    let mut world = listed();
    world.observe(Observation::Undecodable {
        name: Some((Some("shop".into()), "a".into())),
        reason: "no version".into(),
    });
    named(&world);
    let mut world = listed();
    world.list(vec![bad("k"), config_map("b", 2, "y")]);
    named(&world);
    world.list(vec![config_map("a", 8, "z"), config_map("b", 2, "y")]);
    assert_eq!(world.knowledge.unknown.len(), 0);
    assert_eq!(world.names(), ["a", "b"]);
}

#[test]
fn an_object_that_cannot_be_read_leaves_the_tenants_of_other_namespaces_alone() {
    let elsewhere = |object: Box<str>| object.replace("\"shop\"", "\"elsewhere\"").into();
    let bad = |name: &str| -> Box<str> {
        let metadata = format!(r#""metadata":{{"name":"{name}","namespace":"shop"}}"#);
        format!(r#"{{{metadata},"data":{{"k":1,"k":2}}}}"#).into()
    };
    let covers = |world: &World, namespace: &str| {
        let complete = &world.knowledge.complete;
        complete.covers(&config_maps().type_key, Some(namespace))
    };
    let mut world = World::new();
    world.list(vec![
        config_map("a", 1, "x"),
        elsewhere(bad("other")),
        elsewhere(config_map("third", 2, "y")),
    ]);
    assert!(covers(&world, "shop") && !covers(&world, "elsewhere"));
    assert!(
        world.knowledge.unknown.is_empty(),
        "that is another tenant's"
    );
    assert!(world.knowledge.pending.is_empty());
    assert_eq!(world.dispatcher.unknown_scopes(), 1);
    assert_eq!(world.unreadable.len(), 1);

    // What a list with such a gap lacks is gone, but not where the gap is.
    world.list(vec![elsewhere(bad("other"))]);
    let path = "core/v1/configmaps/shop/a.yaml".to_owned();
    let absent = Some(DeleteProof::AbsentFromList);
    assert_eq!(world.removed, [(path.clone(), absent)]);
    world.list(vec![config_map("a", 3, "x"), bad("other")]);
    world.list(vec![bad("other")]);
    assert_eq!(world.removed.len(), 1);
    assert_eq!(world.knowledge.unknown.len(), 1);

    // Where something happens there, it is worth another look.
    let before = world.list_soon;
    world.see(elsewhere(config_map("third", 4, "z")));
    assert_eq!(world.list_soon, before);
    world.see(config_map("other", 5, "x"));
    assert_eq!(world.list_soon, before + 1);
    world.list(vec![config_map("other", 5, "x")]);
    assert!(covers(&world, "shop") && covers(&world, "elsewhere"));
    assert_eq!(world.removed.last(), Some(&(path, absent)));
    assert_eq!(world.dispatcher.unknown_scopes(), 0);
    assert!(world.dispatcher.partly_read().is_empty());
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
fn files_of_a_type_that_is_one_too_many_stay() {
    let mut world = World::new();
    world.list(vec![config_map("a", 1, "x")]);
    world.max_types = 0;
    world.route();
    let path = "core/v1/configmaps/shop/a.yaml".to_owned();
    assert_eq!(world.removed, [(path, None)]);
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
