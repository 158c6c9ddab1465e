//! Many objects, many types, many rules.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::custom_resources::{REFRESH, definition};
use super::installation::{Installation, soon};
use super::oracle::Expected;

fn numbered(world: &Installation, count: usize) -> Vec<Value> {
    let object = |number: usize| {
        let mut object = world.config_map(&format!("object-{number:04}"), "x");
        let batch = if number < 1_000 { "old" } else { "new" };
        object["metadata"]["labels"] = json!({"batch": batch});
        object
    };
    (0..count).map(object).collect()
}

#[test]
fn a_list_of_many_pages_is_one_commit_and_a_thousand_orphans_go_in_one_cycle() {
    let mut world = Installation::prepare("pages");
    world.settings.watch.streaming_lists = false;
    world.create_all(&numbered(&world, 1_201));
    world.apply(&world.rule("rule", &json!([{"resources": ["configmaps"]}])));
    world.run();
    world.await_mirror(&[Expected::config_maps(&world.namespace)]);
    assert_eq!(world.names().len(), 1_201);
    assert_eq!(world.commits(), 1);
    world.stop();
    world.delete_config_maps("batch=old");
    world.run();
    world.await_mirror(&[Expected::config_maps(&world.namespace)]);
    assert_eq!(world.names().len(), 201);
    assert_eq!(world.commits(), 2, "1,000 orphans are one commit");
    world.finish();
}

#[test]
fn sixty_types_are_followed_at_once() {
    let mut world = Installation::prepare("types");
    world.settings.discovery_refresh = REFRESH;
    world.run();
    let group = format!("{}.example.com", world.namespace);
    let kinds: Vec<String> = (0..60).map(|number| format!("Kind{number}")).collect();
    let definitions: Vec<Value> = kinds
        .iter()
        .map(|kind| definition(&group, kind, &[("v1", true)]))
        .collect();
    world.apply(&world.rule("rule", &json!([{"apiGroups": [group], "resources": ["*"]}])));
    world.apply(&json!({"apiVersion": "v1", "kind": "List", "items": definitions}));
    let names = kinds.iter().map(|kind| kind.to_lowercase());
    let names = names.map(|kind| format!("{kind}s.{group}"));
    world.plane.await_kinds(names);
    let objects: Vec<Value> = kinds
        .iter()
        .map(|kind| {
            json!({
                "apiVersion": format!("{group}/v1"), "kind": kind,
                "metadata": {"name": "one", "namespace": world.namespace}, "spec": {"kind": kind},
            })
        })
        .collect();
    world.create_all(&objects);
    soon("sixty files", || match world.files().len() {
        60 => Ok(()),
        other => Err(other.to_string()),
    });
    world.await_ready("gitdestination/prod", "True", "InSync");
    let some = |kind: &str| {
        let resource = format!("{}s", kind.to_lowercase());
        Expected::new(&group, "v1", &resource, kind).within(&world.namespace)
    };
    let expected: Vec<Expected> = kinds.iter().map(|kind| some(kind)).collect();
    world.await_mirror(&expected);
    world.finish();
}

#[test]
fn rules_of_several_tenants_on_one_type_share_one_watch() {
    let mut world = Installation::prepare("shared");
    world.settings.discovery_refresh = REFRESH;
    world.run();
    let group = format!("{}.example.com", world.namespace);
    world.apply(&definition(&group, "Thing", &[("v1", true)]));
    world.plane.await_kinds([format!("things.{group}")]);
    let open = json!({"accessPolicy": {"namespacedRules": {"mode": "AllNamespaces"}}});
    world.apply(&world.repo("repo", &open));
    world.apply(&world.destination("prod", "clusters/prod", &open));
    let mut expected = Vec::new();
    for tenant in ["one", "two", "three"] {
        let namespace = world.plane.namespace(&format!("shared-{tenant}"));
        world.create_all(&[json!({
            "apiVersion": format!("{group}/v1"), "kind": "Thing",
            "metadata": {"name": tenant, "namespace": namespace}, "spec": {},
        })]);
        world.apply(&world.guest_rule(
            &namespace,
            &json!([{"apiGroups": [group], "resources": ["things"]}]),
        ));
        expected.push(Expected::new(&group, "v1", "things", "Thing").within(&namespace));
        world.await_mirror(&expected);
    }
    let watches = |stage: &str| -> Vec<Value> {
        let log = std::fs::read_to_string(world.plane.audit_log().unwrap()).unwrap();
        let root = format!("/apis/{group}/");
        let events = log.lines().filter(|line| line.contains(&root));
        let events = events.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events
            .filter(|event| event["verb"] == "watch" && event["stage"] == stage)
            .collect()
    };
    soon("one watch that is open", || {
        let ended = watches("ResponseComplete").len();
        let open = watches("ResponseStarted").len().saturating_sub(ended);
        (open == 1).then_some(()).ok_or(open.to_string())
    });
    let reads = watches("ResponseStarted");
    let paths: BTreeSet<&str> = reads
        .iter()
        .filter_map(|event| event["requestURI"].as_str()?.split('?').next())
        .collect();
    let everywhere = format!("/apis/{group}/v1/things");
    assert_eq!(
        paths,
        BTreeSet::from([everywhere.as_str()]),
        "one scope for all"
    );
    assert!(
        reads.len() <= 3,
        "one watch, begun again at most for each new rule: {}",
        reads.len()
    );
    world.finish();
}

#[test]
fn types_over_the_limit_are_named_on_the_rule_and_their_files_stay() {
    let mut world = Installation::prepare("over-limit");
    world.apply(&world.config_map("web", "x"));
    world.kubectl(&["create", "quota", "limit", "--hard=pods=3"]);
    world.apply(&world.rule("a-maps", &json!([{"resources": ["configmaps"]}])));
    world.apply(&world.rule("b-quotas", &json!([{"resources": ["resourcequotas"]}])));
    world.run();
    let quotas =
        Expected::new("", "v1", "resourcequotas", "ResourceQuota").within(&world.namespace);
    let maps = Expected::config_maps(&world.namespace);
    world.await_mirror(&[maps.clone(), quotas.clone()]);
    world.stop();

    world.kubectl(&["delete", "quota", "limit"]);
    world.settings.routing.max_types = 1;
    world.run();
    let over = |world: &Installation| {
        let read = |what: &str| world.kubectl(&["get", "watchrule", "b-quotas", "-o", what]);
        let over = r#"jsonpath={.status.conditions[?(@.type=="TypesOverLimit")].message}"#;
        (read(over), read("jsonpath={.status.watchedTypes}"))
    };
    soon("the type over the limit", || {
        let (over, watched) = over(&world);
        let named = over == "v1/resourcequotas: over --discovery-max-types, their files stay";
        let told = named && watched == "0";
        told.then_some(()).ok_or(format!("{over} {watched}"))
    });
    let message = world.await_stalled(&["watchrule/b-quotas"], "AllTypesOverLimit");
    assert!(message.contains("--discovery-max-types"), "{message}");
    world.apply(&world.config_map("web", "followed"));
    world.await_file("web", "value: followed");
    assert!(
        world
            .files()
            .keys()
            .any(|path| path.ends_with("/limit.yaml"))
    );
    world.stop();

    world.settings.routing.max_types = 300;
    world.run();
    world.await_mirror(&[maps, quotas]);
    soon("no type over the limit", || match over(&world) {
        (over, watched) if over.is_empty() && watched == "1" => Ok(()),
        seen => Err(format!("{seen:?}")),
    });
    world.finish();
}
