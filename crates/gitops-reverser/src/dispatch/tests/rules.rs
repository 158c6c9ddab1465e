//! What rules and destinations that come, go and change take along.

use super::*;

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
fn files_of_a_type_that_is_one_too_many_stay() {
    let mut world = World::new();
    world.list(vec![config_map("a", 1, "x")]);
    world.max_types = 0;
    world.route();
    let path = "core/v1/configmaps/shop/a.yaml".to_owned();
    assert_eq!(world.removed, [(path, None)]);
}
