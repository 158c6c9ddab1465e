//! How the API server learns of the webhook, and what it asks about.

use std::time::Duration;

use gitops_reverser::leases::LeaseSettings;
use gitops_reverser::operator::{BranchTurns, Replicas};
use reverser_testkit::control_plane::User;
use reverser_testkit::{command, wait};
use serde_json::{Value, json};

use super::webhook::{SOON, Webhook};
use crate::operator::installation::{Installation, await_right};

/// An operator with a webhook, which both run.
pub(super) fn installed(name: &str) -> (Installation, Webhook) {
    let mut world = Installation::prepare(name);
    let mut webhook = Webhook::part_of(&mut world);
    webhook.attribution = world.attribution.clone();
    webhook.start();
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

/// Waits for rules for these, and for the deletion of their namespaces.
#[track_caller]
pub(super) fn await_resources(world: &Installation, webhook: &Webhook, expected: &[&str]) {
    let expected = [expected, &["namespaces"]].concat();
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
pub(super) fn await_asked(world: &Installation, webhook: &Webhook) {
    let mut count = 0;
    webhook.await_told("alice updates configmaps probe", || {
        count += 1;
        world.apply(&world.config_map("probe", &count.to_string()));
    });
}

pub(super) fn rule_on(resources: &[&str]) -> Value {
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
    // One request for all of them.
    world.delete_config_maps("");
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

#[test]
fn home_is_never_asked_about_and_kube_system_only_where_a_rule_selects_objects_there() {
    // Everybody else's writes would be asked about too.
    let mut world = Installation::alone("everywhere");
    let mut webhook = Webhook::part_of(&mut world);
    webhook.start();
    world.run();
    let open = json!({"accessPolicy": {"allowClusterRules": true}});
    world.apply(&world.repo("repo", &open));
    let rule = |selector: &Value| {
        let part = json!({
            "scope": "Namespaced", "resources": ["configmaps"], "namespaceSelector": selector,
        });
        world.apply(&world.cluster_rule(&json!([part])));
    };
    let left_out = |names: &[&str]| {
        let look = || {
            let now = configuration(&world, &webhook);
            let selector = &now["webhooks"][0]["namespaceSelector"]["matchExpressions"][0];
            if selector["operator"] == "NotIn" && selector["values"] == json!(names) {
                Ok(())
            } else {
                Err(now["webhooks"].to_string())
            }
        };
        let what = format!("all namespaces but {names:?}");
        wait::until_blocking(&what, SOON, look).unwrap_or_else(|error| panic!("{error}"));
    };
    let write = |namespace: &str, name: &str| {
        world.kubectl(&["-n", namespace, "create", "configmap", name]);
    };
    let home = webhook.settings.namespace.clone();
    rule(&json!({"matchLabels": {"kubernetes.io/metadata.name": world.namespace}}));
    left_out(&[&home, "kube-system"]);
    await_asked(&world, &webhook);
    write(&home, "at-home");
    write("kube-system", "in-the-system");
    write("default", "elsewhere");
    webhook.await_told("alice creates configmaps elsewhere", || {});

    rule(&json!({}));
    left_out(&[&home]);
    webhook.await_told("alice creates configmaps system", || {
        // Again and again, until the API server has seen the change.
        write("kube-system", "system");
        world.kubectl(&["-n", "kube-system", "delete", "configmap", "system"]);
    });
    write(&home, "at-home-again");
    write("default", "last");
    webhook.await_told("alice creates configmaps last", || {});
    let told = webhook.told();
    for nobody in ["at-home", "at-home-again", "in-the-system"] {
        let name = format!("alice creates configmaps {nobody}");
        assert!(!told.contains(&name), "{told:?}");
    }
}

/// Lets somebody do everything in these groups.
fn grant(world: &Installation, user: &str, groups: &[&str]) {
    let (api, group) = ("rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io");
    let metadata = json!({"name": user});
    world.apply(&json!({
        "apiVersion": api, "kind": "ClusterRole", "metadata": metadata,
        "rules": [{"apiGroups": groups, "resources": ["*"], "verbs": ["*"]}],
    }));
    world.apply(&json!({
        "apiVersion": api, "kind": "ClusterRoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": user},
        "subjects": [{"kind": "User", "name": user}],
    }));
    await_right(&world.plane, user, &["get", "namespaces"]);
}

#[test]
fn without_the_right_to_register_everything_else_works_and_it_is_made_up_for_later() {
    let mut world = Installation::prepare("no-right");
    let mut webhook = Webhook::prepare(&world.plane);
    webhook.start();
    let user = format!("operator-of-{}", world.namespace);
    let usual = [
        "",
        "configbutler.ai",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
    ];
    grant(&world, &user, &usual);
    world.config.auth_info.impersonate = Some(user.clone());
    world.settings.admission = Some(webhook.settings.clone());
    world.run();
    world.apply(&world.rule("rule", &rule_on(&["configmaps"])));
    world.apply(&world.config_map("a", "1"));
    world.await_names(&["a"]);
    assert_eq!(configuration(&world, &webhook), Value::Null);
    // By which the alert goes.
    assert!(world.scrape().contains("webhook_registered 0"));

    grant(
        &world,
        &user,
        &[&usual[..], &["admissionregistration.k8s.io"]].concat(),
    );
    await_resources(&world, &webhook, &["configmaps"]);
    await_asked(&world, &webhook);
    let told = || world.scrape().contains("webhook_registered 1");
    wait::until_blocking("it is told", SOON, told).unwrap();
}

/// What the operator has made beside itself: the owner of each, or nothing.
fn owners(world: &Installation, home: &str) -> Vec<(String, Option<String>)> {
    let mut kubectl = world.plane.kubectl(User::Admin);
    let get = ["get", "secrets,leases", "-n", home, "-o", "json"];
    let all: Value = serde_json::from_str(&command::run(kubectl.args(get)).stdout).unwrap();
    let items = all["items"].as_array().unwrap().iter();
    items
        .map(|item| {
            let owner = &item["metadata"]["ownerReferences"][0];
            let owner = owner["kind"].as_str().zip(owner["name"].as_str());
            let name = item["metadata"]["name"].as_str().unwrap().to_owned();
            (name, owner.map(|(kind, name)| format!("{kind}/{name}")))
        })
        .collect()
}

#[test]
fn what_was_made_without_an_owner_belongs_to_the_role_after_the_next_start() {
    let mut world = Installation::prepare("adopted");
    let mut webhook = Webhook::part_of(&mut world);
    webhook.start();
    let home = webhook.settings.namespace.clone();
    let leases = LeaseSettings {
        renew: Duration::from_secs(1),
        length: Duration::from_secs(20),
    };
    world.settings.replicas = Some(Replicas {
        leases: leases.clone(),
    });
    world.settings.turns = Some(BranchTurns {
        leases,
        namespace: home.clone(),
        take_over_after: None,
    });
    let await_owner = |world: &Installation, expected: Option<String>| {
        let look = || {
            let owners = owners(world, &home);
            let made = |word: &str| owners.iter().any(|(name, _)| name.contains(word));
            let all = ["certificate", "leader", "branch", "installation"];
            let all = all.into_iter().all(made);
            if all && owners.iter().all(|(_, owner)| *owner == expected) {
                Ok(())
            } else {
                Err(format!("{owners:?}"))
            }
        };
        let what = format!("certificates and Leases of {expected:?}");
        wait::until_blocking(&what, SOON, look).unwrap_or_else(|error| panic!("{error}"));
    };
    world.run();
    world.apply(&world.rule("rule", &rule_on(&["configmaps"])));
    world.apply(&world.config_map("a", "1"));
    world.await_names(&["a"]);
    await_owner(&world, None);

    world.stop();
    webhook.settings.owner_cluster_role = Some(home.clone());
    world.settings.admission = Some(webhook.settings.clone());
    world.settings.owner_cluster_role = Some(home.clone());
    world.run();
    // The Lease of a branch is written when the branch is.
    world.apply(&world.config_map("b", "1"));
    world.await_names(&["a", "b"]);
    await_owner(&world, Some(format!("ClusterRole/{home}")));
}
