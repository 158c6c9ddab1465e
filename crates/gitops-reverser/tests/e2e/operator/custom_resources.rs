//! Custom resources: their definitions come, change and go while the operator runs.

use std::time::Duration;

use serde_json::{Value, json};

use super::installation::{Installation, soon};
use super::oracle::Expected;

/// A definition with these versions: name, whether it is served. The last one is stored.
pub(crate) fn definition(group: &str, kind: &str, versions: &[(&str, bool)]) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    let schema = json!({
        "type": "object",
        "properties": {
            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        },
    });
    let last = versions.len() - 1;
    let versions: Vec<Value> = versions
        .iter()
        .enumerate()
        .map(|(at, (name, served))| {
            json!({
                "name": name, "served": served, "storage": at == last,
                "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
            })
        })
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural}, "versions": versions,
        },
    })
}

const GROUP: &str = "shop.example.com";

/// A server may tell of a definition before it shows the type: then it is looked for again.
pub(crate) const REFRESH: Duration = Duration::from_secs(5);

fn order(world: &Installation, name: &str) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "IceCreamOrder",
        "metadata": {
            "name": name, "namespace": world.namespace,
            "labels": {"flavour": "lemon"}, "annotations": {"note": "two spoons"},
        },
        "spec": {"scoops": 2},
    })
}

fn orders(world: &Installation, version: &str) -> [Expected; 1] {
    let orders = Expected::new(GROUP, version, "icecreamorders", "IceCreamOrder");
    [orders.within(&world.namespace)]
}

#[test]
fn custom_resources_are_followed_from_the_coming_to_the_going_of_their_definition() {
    let mut world = Installation::prepare("orders");
    world.settings.discovery_refresh = REFRESH;
    world.run();
    world.apply(&world.rule(
        "rule",
        &json!([{"apiGroups": [GROUP], "resources": ["icecreamorders"]}]),
    ));
    world.await_ready("watchrule/rule", "True", "Watching");
    let unserved = r#"jsonpath={.status.conditions[?(@.type=="TypesNotServed")].message}"#;
    let message = world.kubectl(&["get", "watchrule", "rule", "-o", unserved]);
    assert!(message.contains("icecreamorders"), "{message}");

    world.apply(&definition(GROUP, "IceCreamOrder", &[("v1", true)]));
    let crd = format!("icecreamorders.{GROUP}");
    world.plane.await_kinds([&crd]);
    let names: Vec<String> = (0..12).map(|number| format!("order-{number}")).collect();
    let objects: Vec<Value> = names.iter().map(|name| order(&world, name)).collect();
    world.create_all(&objects);
    world.await_mirror(&orders(&world, "v1"));
    let path = format!("{GROUP}/v1/icecreamorders/{}/order-0.yaml", world.namespace);
    let file = world.files()[&path].clone();
    assert!(
        file.contains("flavour: lemon") && file.contains("note: two spoons"),
        "{file}"
    );

    let before = world.commits();
    let status = r#"{"status":{"phase":"Melting"}}"#;
    let change = [
        "patch",
        "icecreamorder",
        "order-0",
        "--subresource=status",
        "--type=merge",
        "-p",
    ];
    world.kubectl(&[&change[..], &[status]].concat());
    world.assert_quiet();
    assert_eq!(world.commits(), before, "a status is no desired state");
    assert!(!world.files()[&path].contains("Melting"));

    // Another version is served instead: every file moves, in one commit.
    world.apply(&definition(
        GROUP,
        "IceCreamOrder",
        &[("v1", false), ("v2", true)],
    ));
    world.await_mirror(&orders(&world, "v2"));
    assert_eq!(world.commits(), before + 1);
    // Both are served, and the new one is preferred because it is newer.
    world.apply(&definition(
        GROUP,
        "IceCreamOrder",
        &[("v1", false), ("v2", true), ("v3", true)],
    ));
    world.await_mirror(&orders(&world, "v3"));
    assert_eq!(world.commits(), before + 2);
    world.await_ready("gitdestination/prod", "True", "InSync");

    world.kubectl(&["delete", "crd", &crd]);
    world.await_mirror(&[]);
    world.await_ready("watchrule/rule", "True", "Watching");
    world.finish();
}

#[test]
fn files_of_a_definition_that_went_while_the_operator_was_down_go() {
    let world = Installation::prepare("absent");
    definition_goes_while_the_operator_is_down(world, &json!(["things"]));
}

#[test]
fn they_go_also_where_all_types_are_watched_and_the_rule_names_none() {
    let mut world = Installation::prepare("absent-all");
    world.settings.routing.watch_all = true;
    definition_goes_while_the_operator_is_down(world, &json!([]));
}

/// With a rule that selects these resources of the definition's group.
#[track_caller]
fn definition_goes_while_the_operator_is_down(mut world: Installation, resources: &Value) {
    let group = format!("{}.example.com", world.namespace);
    world.apply(&definition(&group, "Thing", &[("v1", true)]));
    let crd = format!("things.{group}");
    world.plane.await_kinds([&crd]);
    let things: Vec<Value> = (0..3)
        .map(|number| {
            json!({
                "apiVersion": format!("{group}/v1"), "kind": "Thing",
                "metadata": {"name": format!("thing-{number}"), "namespace": world.namespace},
                "spec": {"number": number},
            })
        })
        .collect();
    world.create_all(&things);
    world.apply(&world.config_map("web", "x"));
    let of_group = json!({"apiGroups": [group], "resources": resources});
    let rules = json!([{"resources": ["configmaps"]}, of_group]);
    world.apply(&world.rule("rule", &rules));
    world.run();
    let expected = Expected::new(&group, "v1", "things", "Thing").within(&world.namespace);
    world.await_mirror(&[expected, Expected::config_maps(&world.namespace)]);
    world.stop();
    world.kubectl(&["delete", "crd", &crd]);
    world.run();
    world.await_mirror(&[Expected::config_maps(&world.namespace)]);
    world.finish();
}

#[test]
fn a_new_default_of_a_definition_reaches_files_whose_objects_have_no_new_version() {
    let mut world = Installation::prepare("default");
    world.settings.discovery_refresh = REFRESH;
    world.run();
    let group = format!("{}.example.com", world.namespace);
    let mut crd = definition(&group, "Thing", &[("v1", true)]);
    world.apply(&crd);
    world.plane.await_kinds([format!("things.{group}")]);
    world.create_all(&[json!({
        "apiVersion": format!("{group}/v1"), "kind": "Thing",
        "metadata": {"name": "thing", "namespace": world.namespace}, "spec": {"number": 1},
    })]);
    world.apply(&world.rule("rule", &json!([{"apiGroups": [group], "resources": ["*"]}])));
    let things = [Expected::new(&group, "v1", "things", "Thing").within(&world.namespace)];
    world.await_mirror(&things);
    let size = json!({"size": {"type": "string", "default": "large"}});
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] =
        size;
    world.apply(&crd);
    let path = format!("{group}/v1/things/{}/thing.yaml", world.namespace);
    soon("the default in the file", || {
        let file = world.files()[&path].clone();
        if file.contains("size: large") {
            Ok(())
        } else {
            Err(file)
        }
    });
    world.await_mirror(&things);
    world.finish();
}
