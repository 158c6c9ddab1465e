//! Rules of the cluster.

use serde_json::json;

use super::installation::Installation;
use super::oracle::Expected;

#[test]
fn cluster_rules_need_to_be_let_in_and_then_mirror_what_lives_in_no_namespace() {
    let world = Installation::start("cluster");
    let name = world.namespace.clone();
    let group = format!("{name}.example.com");
    world.apply(&json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{group}"), "labels": {"set": name}},
        "spec": {
            "group": group, "scope": "Cluster",
            "names": {"kind": "Thing", "plural": "things"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    }));
    world.kubectl(&[
        "create",
        "clusterrole",
        &name,
        "--verb=get",
        "--resource=pods",
    ]);
    world.kubectl(&["label", "clusterrole", &name, &format!("set={name}")]);
    world.kubectl(&["label", "namespace", &name, &format!("set={name}")]);
    let kinds = ["customresourcedefinitions", "clusterroles", "namespaces"];
    let mut rule = world.cluster_rule(&json!([{"scope": "Cluster", "resources": kinds}]));
    rule["spec"]["objectSelector"] = json!({"matchLabels": {"set": name}});
    world.apply(&rule);
    let message = world.await_ready(&format!("clusterwatchrule/{name}"), "False", "AccessDenied");
    assert!(message.contains("allowClusterRules"), "{message}");
    world.assert_quiet();
    assert_eq!(world.commits(), 0);

    let allow = json!({"accessPolicy": {"allowClusterRules": true}});
    world.apply(&world.repo("repo", &allow));
    world.await_ready(&format!("clusterwatchrule/{name}"), "True", "Watching");
    let set = format!("set={name}");
    let expected = [
        (
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            "CustomResourceDefinition",
        ),
        ("rbac.authorization.k8s.io", "clusterroles", "ClusterRole"),
        ("", "namespaces", "Namespace"),
    ];
    let expected = expected
        .map(|(group, resource, kind)| Expected::new(group, "v1", resource, kind).labelled(&set));
    world.await_mirror(&expected);
    assert_eq!(world.files().len(), 3);
    world.apply(&world.destination(
        "prod",
        "clusters/prod",
        &json!({"accessPolicy": {"allowClusterRules": false}}),
    ));
    world.await_ready(&format!("clusterwatchrule/{name}"), "False", "AccessDenied");
    world.kubectl(&["delete", "clusterrole", &name]);
    world.assert_quiet();
    assert_eq!(world.files().len(), 3, "a refused rule keeps its files");
    world.kubectl(&["delete", "clusterwatchrule", &name]);
    world.finish();
}

#[test]
fn namespaces_are_followed_as_they_are_labelled_and_unlabelled() {
    let world = Installation::start("labelled");
    let name = world.namespace.clone();
    world.apply(&world.repo(
        "repo",
        &json!({"accessPolicy": {"allowClusterRules": true}}),
    ));
    let other = world.plane.namespace("labelled-other");
    for namespace in [&name, &other] {
        let mut object = world.config_map("web", "x");
        object["metadata"]["namespace"] = json!(namespace);
        world.apply(&object);
    }
    world.apply(&world.cluster_rule(&json!([{
        "scope": "Namespaced", "resources": ["configmaps"],
        "namespaceSelector": {"matchLabels": {"set": name}},
    }])));
    world.await_ready("gitdestination/prod", "True", "InSync");
    world.await_mirror(&[]);
    let set = format!("set={name}");
    world.kubectl(&["label", "namespace", &other, &set]);
    world.await_mirror(&[Expected::config_maps(&other)]);
    world.kubectl(&["label", "namespace", &name, &set]);
    world.await_mirror(&[Expected::config_maps(&other), Expected::config_maps(&name)]);
    world.kubectl(&["label", "namespace", &other, "set-"]);
    world.await_mirror(&[Expected::config_maps(&name)]);
    world.kubectl(&["delete", "clusterwatchrule", &name]);
    world.await_mirror(&[]);
    world.finish();
}

#[test]
fn a_label_or_a_selector_that_lets_go_of_everything_waits_for_a_person() {
    let world = Installation::start("let-go");
    let name = world.namespace.clone();
    let allow = json!({"accessPolicy": {"allowClusterRules": true}});
    world.apply(&world.repo("repo", &allow));
    // More than one batch takes.
    let objects: Vec<_> = (0..300)
        .map(|number| world.config_map(&format!("object-{number}"), "x"))
        .collect();
    world.create_all(&objects);
    let set = format!("set={name}");
    world.kubectl(&["label", "namespace", &name, &set]);
    let mut rule = world.cluster_rule(&json!([{
        "scope": "Namespaced", "resources": ["configmaps"],
        "namespaceSelector": {"matchLabels": {"set": name}},
    }]));
    world.apply(&rule);
    let expected = [Expected::config_maps(&name)];
    world.await_mirror(&expected);
    let before = world.commits();

    world.kubectl(&["label", "namespace", &name, "set-"]);
    world.await_ready("gitdestination/prod", "False", "MassDeleteGuard");
    world.assert_quiet();
    assert_eq!(world.commits(), before);
    world.kubectl(&["label", "namespace", &name, &set]);
    world.await_mirror(&expected);
    assert_eq!(world.commits(), before, "nothing has happened");

    rule["spec"]["objectSelector"] = json!({"matchLabels": {"tier": "none"}});
    world.apply(&rule);
    world.await_ready("gitdestination/prod", "False", "MassDeleteGuard");
    world.assert_quiet();
    assert_eq!(world.commits(), before);
    let id = "jsonpath={.status.massDeleteGuard.id}";
    let id = world.kubectl(&["get", "gitdestination", "prod", "-o", id]);
    let acknowledge = format!("configbutler.ai/acknowledge-mass-delete={id}");
    world.kubectl(&["annotate", "gitdestination", "prod", &acknowledge]);
    world.await_mirror(&[]);
    world.kubectl(&["delete", "clusterwatchrule", &name]);
    world.finish();
}
