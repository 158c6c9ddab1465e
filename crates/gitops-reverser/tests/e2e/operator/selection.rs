//! Which objects a rule means, and which changes of them.

use std::time::Duration;

use reverser_core::noise::NoiseFilter;
use serde_json::{Value, json};

use super::installation::{Installation, soon};
use super::oracle::Expected;

/// One object of each of several types, `plain` where nothing else is needed.
fn one_of_each(world: &Installation) {
    let pod = json!({"containers": [{"name": "main", "image": "web:1"}], "restartPolicy": "Never"});
    let labels = json!({"app": "web"});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": pod["containers"]}});
    let job = json!({"template": {"spec": pod}});
    let objects = [
        (
            "apps/v1",
            "Deployment",
            json!({"selector": {"matchLabels": labels}, "template": template}),
        ),
        (
            "v1",
            "Service",
            json!({"selector": labels, "ports": [{"port": 80}]}),
        ),
        ("v1", "Pod", pod),
        ("batch/v1", "Job", job.clone()),
        (
            "batch/v1",
            "CronJob",
            json!({"schedule": "@daily", "jobTemplate": {"spec": job}}),
        ),
    ];
    for (api_version, kind, spec) in objects {
        world.apply(&json!({
            "apiVersion": api_version, "kind": kind,
            "metadata": {"name": "web", "namespace": world.namespace}, "spec": spec,
        }));
    }
    world.apply(&world.config_map("web", "x"));
}

fn resources(world: &Installation) -> Vec<String> {
    let files = world.files().into_keys();
    let parts = files.filter_map(|path| {
        let parts: Vec<&str> = path.split('/').collect();
        (parts.len() == 5).then(|| parts[2].to_owned())
    });
    let mut resources: Vec<String> = parts.collect();
    resources.sort();
    resources
}

#[track_caller]
fn await_resources(world: &Installation, expected: &[&str]) {
    soon(&format!("files of {expected:?}"), || {
        let seen = resources(world);
        if seen == expected {
            Ok(())
        } else {
            Err(format!("{seen:?}"))
        }
    });
    world.assert_quiet();
}

#[test]
fn without_resources_desired_state_is_meant_and_the_rest_only_if_it_is_named() {
    let world = Installation::start("preset");
    one_of_each(&world);
    world.apply(&world.rule("rule", &json!([{}])));
    await_resources(&world, &["configmaps", "deployments", "services"]);
    let in_namespace = |group, version, resource, kind| {
        Expected::new(group, version, resource, kind).within(&world.namespace)
    };
    let preset = [
        in_namespace("", "v1", "configmaps", "ConfigMap"),
        in_namespace("", "v1", "services", "Service"),
        in_namespace("apps", "v1", "deployments", "Deployment"),
    ];
    world.await_mirror(&preset);

    world.apply(&world.rule(
        "rule",
        &json!([{"resources": ["pods", "jobs", "cronjobs.batch"]}]),
    ));
    await_resources(&world, &["cronjobs", "jobs", "pods"]);
    world.apply(&world.rule(
        "rule",
        &json!([{"apiGroups": ["", "apps"], "resources": ["*"]}]),
    ));
    await_resources(&world, &["configmaps", "deployments", "services"]);
    world.apply(&world.rule(
        "rule",
        &json!([{"resources": ["services"]}, {"resources": ["pods/log"]}]),
    ));
    await_resources(&world, &["services"]);
    let ignored = r#"jsonpath={.status.conditions[?(@.type=="SubresourcesIgnored")].message}"#;
    soon("what is ignored is named", || {
        let message = world.kubectl(&["get", "watchrule", "rule", "-o", ignored]);
        message.contains("pods/log").then_some(()).ok_or(message)
    });
    world.finish_reselected();
}

#[test]
fn with_watch_all_a_rule_without_resources_means_every_type_but_the_excluded() {
    let mut world = Installation::prepare("watchall");
    world.settings.routing.watch_all = true;
    one_of_each(&world);
    world.kubectl(&["create", "priorityclass", &world.namespace, "--value=1"]);
    let claim =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    world.apply(&json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": world.namespace}, "spec": claim,
    }));
    world.apply(&world.rule("rule", &json!([{"apiGroups": ["", "apps", "batch"]}])));
    world.run();
    await_resources(
        &world,
        &[
            "configmaps",
            "deployments",
            "persistentvolumeclaims",
            "services",
        ],
    );
    world.finish_reselected();
}

#[test]
fn what_no_person_wrote_is_left_out_unless_its_rule_is_turned_off() {
    let mut world = Installation::prepare("noise");
    for name in ["kube-root-ca.crt", "web", "x-leader-election"] {
        world.apply(&world.config_map(name, "x"));
    }
    let mut ignored = world.config_map("ignored", "x");
    ignored["metadata"]["labels"] = json!({"configbutler.ai/ignore": "true"});
    world.apply(&ignored);
    let uid = world.kubectl(&["get", "configmap", "web", "-o", "jsonpath={.metadata.uid}"]);
    let mut owned = world.config_map("owned", "x");
    owned["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "web", "uid": uid, "controller": true,
    }]);
    world.apply(&owned);
    let rule = |change: &Value| {
        let mut rules = json!([{"resources": ["configmaps"]}]);
        for (key, value) in change.as_object().unwrap() {
            rules[0][key] = value.clone();
        }
        world.rule("rule", &rules)
    };
    world.apply(&rule(&json!({})));
    let owned = rule(&json!({"includeOwned": true}));
    world.run();
    world.await_mirror(&[Expected::config_maps(&world.namespace)]);
    world.await_names(&["web"]);
    world.apply(&owned);
    world.await_names(&["owned", "web"]);
    // A label that takes an object out while the operator runs, and its removal.
    world.kubectl(&["label", "configmap", "web", "configbutler.ai/ignore=true"]);
    world.await_names(&["owned"]);
    world.kubectl(&["label", "configmap", "web", "configbutler.ai/ignore-"]);
    world.await_names(&["owned", "web"]);
    world.stop();
    world.settings.noise = NoiseFilter::without(["root-ca-config-map", "ignore-label"]).unwrap();
    world.run();
    world.await_names(&["ignored", "kube-root-ca.crt", "owned", "web"]);
    world.finish_reselected();
}

#[test]
fn a_rule_that_is_edited_is_followed() {
    let world = Installation::start("edited");
    for (name, tier) in [("a", "one"), ("b", "two")] {
        let mut object = world.config_map(name, "x");
        object["metadata"]["labels"] = json!({"tier": tier});
        world.apply(&object);
    }
    world.kubectl(&["create", "quota", "limit", "--hard=pods=3"]);
    let mut rule = world.rule("rule", &json!([{"resources": ["configmaps"]}]));
    rule["spec"]["objectSelector"] = json!({"matchLabels": {"tier": "one"}});
    world.apply(&rule);
    world.await_names(&["a"]);
    rule["spec"]["objectSelector"] = json!({"matchLabels": {"tier": "two"}});
    world.apply(&rule);
    world.await_names(&["b"]);
    rule["spec"]["objectSelector"] = json!({});
    rule["spec"]["rules"] =
        json!([{"resources": ["configmaps"]}, {"resources": ["resourcequotas"]}]);
    world.apply(&rule);
    let quotas =
        Expected::new("", "v1", "resourcequotas", "ResourceQuota").within(&world.namespace);
    world.await_mirror(&[Expected::config_maps(&world.namespace), quotas.clone()]);
    rule["spec"]["rules"] = json!([{"resources": ["resourcequotas"]}]);
    world.apply(&rule);
    world.await_mirror(&[quotas]);
    world.finish();
}

#[test]
fn operations_filter_which_differences_are_followed() {
    let world = Installation::start("operations");
    let rule = |operations: &[&str]| {
        world.rule(
            "rule",
            &json!([{"resources": ["configmaps"], "operations": operations}]),
        )
    };
    world.apply(&rule(&["CREATE"]));
    world.apply(&world.config_map("a", "one"));
    world.await_file("a", "value: one");
    world.apply(&world.config_map("a", "two"));
    world.apply(&world.config_map("b", "one"));
    world.await_names(&["a", "b"]);
    world.await_file("a", "value: one");
    world.kubectl(&["delete", "configmap", "b"]);
    world.assert_quiet();
    assert_eq!(world.names(), ["a", "b"], "without DELETE it stays");

    world.apply(&rule(&["UPDATE"]));
    world.await_file("a", "value: two");
    world.apply(&world.config_map("c", "one"));
    world.apply(&world.config_map("a", "three"));
    world.await_file("a", "value: three");
    assert_eq!(world.names(), ["a", "b"], "without CREATE nothing appears");

    world.apply(&rule(&[]));
    world.await_mirror(&[Expected::config_maps(&world.namespace)]);
    world.finish();
}

#[test]
fn a_folder_that_is_applied_becomes_few_commits() {
    let mut world = Installation::prepare("folder");
    // However long a busy machine takes from one object to the next.
    world.settings.limits.quiet = Duration::from_secs(5);
    world.settings.limits.max_wait = Duration::from_mins(2);
    // A look at the remote writes what waits.
    world.settings.poll = Duration::from_mins(10);
    world.run();
    world.apply(&world.rule("rule", &json!([{"resources": ["configmaps"]}])));
    world.await_ready("gitdestination/prod", "True", "InSync");
    let before = world.commits();
    let folder = tempfile::tempdir().unwrap();
    for number in 0..40 {
        let object = world.config_map(&format!("object-{number}"), "x");
        let file = folder.path().join(format!("{number}.json"));
        std::fs::write(file, object.to_string()).unwrap();
    }
    world.kubectl(&["apply", "-f", &folder.path().display().to_string()]);
    world.await_mirror(&[Expected::config_maps(&world.namespace)]);
    let commits = world.commits() - before;
    assert!(commits <= 3, "40 objects became {commits} commits");
    world.finish();
}
