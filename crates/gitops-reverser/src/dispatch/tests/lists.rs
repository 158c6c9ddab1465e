//! Lists that begin again, and lists beside one another: which objects a list has shown to be gone.

use super::*;

fn listed(object: Box<str>) -> Observation {
    Observation::Seen {
        object,
        live: false,
        added: false,
    }
}

fn in_namespace(namespace: &str, name: &str) -> Box<str> {
    let json = config_map(name, 1, "x").into_string();
    json.replace(r#""shop""#, &format!("{namespace:?}")).into()
}

#[test]
fn a_list_that_begins_again_forgets_what_the_first_attempt_had_named() {
    let mut world = World::new();
    world.list(vec![config_map("a", 1, "x"), config_map("b", 1, "x")]);
    world.observe(Observation::ListStarted);
    world.observe(listed(config_map("a", 1, "x")));
    world.observe(Observation::ListStarted);
    world.observe(listed(config_map("b", 1, "x")));
    assert_eq!(
        world.names(),
        ["a", "b"],
        "nothing is proven before its end"
    );
    world.observe(Observation::Listed(ListOutcome::Complete));
    assert_eq!(world.names(), ["b"]);
}

#[test]
fn what_is_seen_to_appear_or_to_change_while_a_list_runs_was_there() {
    let mut world = World::new();
    world.list(vec![config_map("a", 5, "x"), config_map("b", 5, "x")]);
    world.observe(Observation::ListStarted);
    world.see(config_map("a", 6, "y"));
    world.see(config_map("new", 7, "y"));
    // An older state of it, from a server that lags behind, also says that it is there.
    world.observe(listed(config_map("b", 4, "x")));
    world.observe(Observation::Listed(ListOutcome::Complete));
    assert_eq!(world.names(), ["a", "b", "new"]);
}

#[test]
fn what_is_deleted_while_a_list_runs_is_gone_and_stays_when_it_comes_again() {
    let mut world = World::new();
    world.list(vec![config_map("a", 1, "x"), config_map("b", 1, "x")]);
    world.observe(Observation::ListStarted);
    for name in ["a", "b"] {
        world.observe(listed(config_map(name, 1, "x")));
        let object = config_map(name, 2, "x");
        world.observe(Observation::Gone { object });
    }
    world.see(config_map("b", 3, "again"));
    world.observe(Observation::Listed(ListOutcome::Complete));
    assert_eq!(world.names(), ["b"]);
    let proofs = world.removed.iter().map(|(_, proof)| *proof);
    assert_eq!(proofs.collect::<Vec<_>>(), [Some(DeleteProof::Deleted); 2]);
}

#[test]
fn namespaces_that_are_listed_beside_one_another_prove_nothing_for_each_other() {
    let mut world = World::new();
    world
        .configuration
        .namespaces
        .insert("other".into(), BTreeMap::new());
    let everywhere = json!({"destinationRef": {"name": "prod", "namespace": "shop"},
        "rules": [{"resources": ["configmaps"], "scope": "Namespaced"}]});
    let repo = Id::new("shop", "repo");
    let allowing = json!({"repoUrl": "https://git.example.com/r.git", "allowedBranches": ["main"],
        "accessPolicy": {"allowClusterRules": true}});
    world
        .configuration
        .repos
        .insert(repo, object("repo", &allowing));
    let destination = json!({"repoRef": {"name": "repo"}, "branch": "main", "baseFolder": "prod",
        "accessPolicy": {"allowClusterRules": true}});
    let id = Id::new("shop", "prod");
    world
        .configuration
        .destinations
        .insert(id, object("prod", &destination));
    let rules = &mut world.configuration.cluster_rules;
    rules.insert("all".into(), object("all", &everywhere));
    world.route();
    let scope = |namespace: &str| Scope {
        namespace: Some(namespace.to_owned()),
        ..config_maps()
    };
    let observe = |world: &mut World, namespace: &str, observation| {
        let effects = world.dispatcher.observe(&scope(namespace), observation);
        world.apply(effects);
    };
    for _ in 0..2 {
        for namespace in ["shop", "other"] {
            observe(&mut world, namespace, Observation::ListStarted);
        }
        for namespace in ["shop", "other"] {
            let object = in_namespace(namespace, &format!("of-{namespace}"));
            observe(&mut world, namespace, listed(object));
        }
        for namespace in ["other", "shop"] {
            let complete = Observation::Listed(ListOutcome::Complete);
            observe(&mut world, namespace, complete);
        }
        assert_eq!(world.names(), ["of-other", "of-shop"]);
    }
    observe(&mut world, "other", Observation::ListStarted);
    let complete = Observation::Listed(ListOutcome::Complete);
    observe(&mut world, "other", complete);
    assert_eq!(world.names(), ["of-shop"]);
}
