//! How the API server learns of the webhook, and what it asks about.

use reverser_testkit::control_plane::User;
use reverser_testkit::{command, wait};
use serde_json::{Value, json};

use super::webhook::{SOON, Webhook};
use crate::operator::installation::Installation;

/// An operator with a webhook, which both run.
fn installed(name: &str) -> (Installation, Webhook) {
    let mut world = Installation::prepare(name);
    let mut webhook = Webhook::prepare(&world.plane);
    webhook.start();
    world.settings.admission = Some(webhook.settings.clone());
    world.run();
    (world, webhook)
}

/// The configuration as it is; nothing while there is none.
fn configuration(world: &Installation, webhook: &Webhook) -> Value {
    let mut kubectl = world.plane.kubectl(User::Admin);
    let get = ["get", "validatingwebhookconfigurations", "-o", "json"];
    let all: Value = serde_json::from_str(&command::run(kubectl.args(get)).stdout).unwrap();
    let items = all["items"].as_array().unwrap();
    let named = |item: &&Value| item["metadata"]["name"] == webhook.settings.name;
    items.iter().find(named).cloned().unwrap_or_default()
}

/// The resources of every rule.
fn resources(configuration: &Value) -> Vec<String> {
    let webhooks = configuration["webhooks"].as_array().into_iter().flatten();
    let rules = webhooks.flat_map(|webhook| webhook["rules"].as_array().unwrap());
    let resources = rules.flat_map(|rule| rule["resources"].as_array().unwrap());
    resources
        .map(|one| one.as_str().unwrap().to_owned())
        .collect()
}

#[track_caller]
fn await_resources(world: &Installation, webhook: &Webhook, expected: &[&str]) {
    let look = || {
        let seen = resources(&configuration(world, webhook));
        if seen == expected {
            Ok(())
        } else {
            Err(format!("{seen:?}"))
        }
    };
    let what = format!("rules for {expected:?}");
    wait::until_blocking(&what, SOON, look).unwrap_or_else(|error| panic!("{error}"));
}

/// Changes an object until somebody is told of it.
fn await_asked(world: &Installation, webhook: &Webhook) {
    let mut count = 0;
    webhook.await_told("alice updates configmaps probe", || {
        count += 1;
        world.apply(&world.config_map("probe", &count.to_string()));
    });
}

fn rule_on(resources: &[&str]) -> Value {
    json!([{"resources": resources}])
}

fn deployment(world: &Installation) -> Value {
    let labels = json!({"app": "web"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": world.namespace},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": "web"}]},
            },
        },
    })
}

#[test]
fn the_api_server_asks_about_what_is_watched_where_it_is_watched_and_follows_the_rules() {
    let (world, webhook) = installed("asked");
    world.apply(&world.rule("rule", &rule_on(&["configmaps"])));
    await_resources(&world, &webhook, &["configmaps"]);
    await_asked(&world, &webhook);
    let elsewhere = world.plane.namespace("elsewhere");
    world.kubectl(&["create", "secret", "generic", "secret"]);
    world.kubectl(&["create", "configmap", "dry", "--dry-run=server"]);
    world.kubectl(&["-n", &elsewhere, "create", "configmap", "elsewhere"]);
    world.apply(&world.config_map("last", "1"));
    world.kubectl(&["delete", "configmap", "--all"]);
    webhook.await_told("alice deletes configmaps last", || {});
    let told = webhook.told();
    for other in ["secret", "dry", "elsewhere"] {
        assert!(!told.iter().any(|one| one.ends_with(other)), "{told:?}");
    }
    assert!(
        told.contains(&"alice deletes configmaps probe".to_owned()),
        "{told:?}"
    );

    world.apply(&world.rule("rule", &rule_on(&["deployments"])));
    await_resources(&world, &webhook, &["deployments", "deployments/scale"]);
    world.apply(&deployment(&world));
    let mut replicas = 0;
    webhook.await_told("alice scales to 2 deployments web", || {
        replicas = if replicas == 2 { 3 } else { 2 };
        let replicas = format!("--replicas={replicas}");
        world.kubectl(&["scale", "deployment", "web", &replicas]);
    });
}

#[test]
fn a_configuration_that_somebody_changes_or_deletes_comes_back() {
    let (world, webhook) = installed("comes-back");
    world.apply(&world.rule("rule", &rule_on(&["configmaps"])));
    await_resources(&world, &webhook, &["configmaps"]);
    let wanted = configuration(&world, &webhook)["webhooks"].clone();
    assert_eq!(wanted[0]["failurePolicy"], "Ignore");
    assert_eq!(wanted[0]["timeoutSeconds"], 2);
    let name = &webhook.settings.name;
    let kind = "validatingwebhookconfiguration";
    let admin = |arguments: &[&str]| {
        let mut kubectl = world.plane.kubectl(User::Admin);
        command::run(kubectl.args(arguments));
    };
    let patch = r#"[{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Fail"}]"#;
    admin(&["patch", kind, name, "--type=json", "-p", patch]);
    let same = || {
        let now = configuration(&world, &webhook)["webhooks"].clone();
        if now == wanted {
            Ok(())
        } else {
            Err(now.to_string())
        }
    };
    wait::until_blocking("what was written", SOON, same).unwrap();
    admin(&["delete", kind, name]);
    wait::until_blocking("it is there again", SOON, same).unwrap();
    await_asked(&world, &webhook);
}
