//! Who may write where.

use serde_json::{Value, json};

use super::installation::{Installation, soon};
use super::oracle::Expected;

fn policy(mode: &str) -> Value {
    json!({"accessPolicy": {"namespacedRules": {"mode": mode}}})
}

fn selected(label: &str) -> Value {
    json!({"accessPolicy": {"namespacedRules": {
        "mode": "FromSelector", "namespaceSelector": {"matchLabels": {"guest": label}},
    }}})
}

fn set_policies(world: &Installation, repo: &Value, destination: &Value) {
    world.apply(&world.repo("repo", repo));
    world.apply(&world.destination("prod", "clusters/prod", destination));
}

#[test]
fn both_policies_must_let_a_rule_in_and_revocation_keeps_its_files() {
    let world = Installation::start("policies");
    let guest = world.plane.namespace("policies-guest");
    let config_map = |name: &str, value: &str| {
        let mut object = world.config_map(name, value);
        object["metadata"]["namespace"] = json!(guest);
        world.apply(&object);
    };
    config_map("web", "one");
    world.apply(&world.guest_rule(&guest, &json!([{"resources": ["configmaps"]}])));
    let rule = ["-n", &guest, "get", "watchrule", "guest", "-o"];
    let await_rule = |status: &str, reason: &str| {
        soon(&format!("the rule is {reason}"), || {
            let ready = r#"jsonpath={.status.conditions[?(@.type=="Ready")]}"#;
            let seen = world.kubectl(&[&rule[..], &[ready]].concat());
            let ready: Value = serde_json::from_str(&seen).unwrap_or_default();
            if ready["status"] == status && ready["reason"] == reason {
                Ok(ready["message"].as_str().unwrap().to_owned())
            } else {
                Err(seen)
            }
        })
    };
    world.await_stalled(&["-n", &guest, "watchrule/guest"], "AccessDenied");
    let message = await_rule("False", "AccessDenied");
    assert!(
        message.contains("GitDestination") && message.contains("namespacedRules"),
        "{message}"
    );
    set_policies(&world, &json!({}), &policy("AllNamespaces"));
    soon("the repository refuses", || {
        let message = await_rule("False", "AccessDenied");
        if message.contains("GitRepoConfig") {
            Ok(())
        } else {
            Err(message)
        }
    });
    assert_eq!(world.commits(), 0);

    set_policies(&world, &policy("AllNamespaces"), &selected(&guest));
    await_rule("False", "AccessDenied");
    world.kubectl(&["label", "namespace", &guest, &format!("guest={guest}")]);
    await_rule("True", "Watching");
    world.await_mirror(&[Expected::config_maps(&guest)]);

    // The type is watched for a rule of the home namespace too, so the guest's changes are seen.
    let home = &world.namespace;
    world.kubectl(&["label", "namespace", home, &format!("guest={guest}")]);
    world.apply(&world.rule("own", &json!([{"resources": ["configmaps"]}])));
    world.apply(&world.config_map("home", "x"));
    world.await_names(&["home"]);
    world.kubectl(&["label", "namespace", &guest, "guest-"]);
    await_rule("False", "AccessDenied");
    config_map("web", "two");
    config_map("new", "x");
    world.kubectl(&["-n", &guest, "delete", "configmap", "web"]);
    world.apply(&world.config_map("home", "changed"));
    world.await_file("home", "changed");
    let path = format!("core/v1/configmaps/{guest}/web.yaml");
    let files = world.files();
    assert!(
        files[&path].contains("value: one"),
        "the file stays as it was"
    );
    assert!(!files.contains_key(&path.replace("web", "new")));

    world.kubectl(&["label", "namespace", &guest, &format!("guest={guest}")]);
    await_rule("True", "Watching");
    world.await_mirror(&[
        Expected::config_maps(&guest),
        Expected::config_maps(&world.namespace),
    ]);
    world.finish();
}

#[test]
fn a_rule_that_was_never_let_in_keeps_no_file_of_others() {
    let mut world = Installation::prepare("uninvited");
    let guest = world.plane.namespace("uninvited-guest");
    world.apply(&world.guest_rule(&guest, &json!([{"resources": ["*"]}])));
    for (name, tier) in [("web", "web"), ("gone", "web"), ("db", "db")] {
        let mut object = world.config_map(name, "x");
        object["metadata"]["labels"] = json!({"tier": tier});
        world.apply(&object);
    }
    let mut rule = world.rule("own", &json!([{"resources": ["configmaps"]}]));
    world.apply(&rule);
    world.run();
    let own = Expected::config_maps(&world.namespace);
    world.await_mirror(std::slice::from_ref(&own));

    world.stop();
    world.kubectl(&["delete", "configmap", "gone"]);
    world.run();
    world.await_mirror(std::slice::from_ref(&own));

    rule["spec"]["objectSelector"] = json!({"matchLabels": {"tier": "web"}});
    world.apply(&rule);
    world.await_mirror(&[own.labelled("tier=web")]);
    soon("the guest is refused all the while", || {
        let reason = r#"jsonpath={.status.conditions[?(@.type=="Ready")].reason}"#;
        let seen = world.kubectl(&["-n", &guest, "get", "watchrule", "guest", "-o", reason]);
        (seen == "AccessDenied").then_some(()).ok_or(seen)
    });
    world.finish();
}

#[test]
fn a_branch_must_be_one_that_the_repository_allows() {
    let world = Installation::start("branches");
    world.apply(&world.repo("repo", &json!({"allowedBranches": ["release/*"]})));
    world.await_ready("gitdestination/prod", "False", "BranchNotAllowed");
    let release = json!({"branch": "release/1"});
    world.apply(&world.destination("prod", "clusters/prod", &release));
    world.apply(&world.config_map("web", "x"));
    world.apply(&world.rule("rule", &json!([{"resources": ["configmaps"]}])));
    world.await_mirror_of(
        "release/1",
        "clusters/prod/",
        &[Expected::config_maps(&world.namespace)],
    );
    assert_eq!(world.repository.tip("main"), None);
    world.finish();
}

#[test]
fn a_repository_that_the_operators_flag_does_not_allow_gets_nothing() {
    let mut world = Installation::prepare("urls");
    world.configure(&[
        "--allowed-repo-urls=file:///elsewhere/**",
        "--webhook-bind-address=0",
    ]);
    world.apply(&world.config_map("web", "x"));
    world.apply(&world.rule("rule", &json!([{"resources": ["configmaps"]}])));
    world.run();
    let message = world.await_ready("gitrepoconfig/repo", "False", "UrlNotAllowed");
    assert!(
        message.contains("--allowed-repo-urls") && message.contains("file:///elsewhere/**"),
        "{message}"
    );
    world.await_ready("gitdestination/prod", "False", "ReferenceNotReady");
    world.await_ready("watchrule/rule", "False", "ReferenceNotReady");
    assert_eq!(world.commits(), 0);

    world.stop();
    let here = format!(
        "--allowed-repo-urls=file://{}/**",
        world.folder.path().display()
    );
    world.configure(&[&here, "--webhook-bind-address=0"]);
    world.run();
    world.await_ready("gitrepoconfig/repo", "True", "Reachable");
    world.await_names(&["web"]);
    world.finish();
}

/// What a block of a page says, as objects.
fn objects_of(page: &str) -> Vec<Value> {
    let (_, from) = page.split_once("```yaml\n").unwrap();
    let (yaml, _) = from.split_once("```").unwrap();
    serde_saphyr::from_multiple(yaml).unwrap()
}

#[test]
fn the_guide_for_teams_works_as_it_is_written() {
    let mut world = Installation::prepare("teams");
    // The guide has its own.
    world.kubectl(&["delete", "gitdestination/prod", "gitrepoconfig/repo"]);
    let (platform, shop) = (
        world.plane.namespace("platform"),
        world.plane.namespace("shop"),
    );
    let here = |name: &str| match name {
        "platform" => platform.clone(),
        "shop" => shop.clone(),
        other => other.to_owned(),
    };
    let ours = world.repo("mirror", &json!({}));
    let page = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/guides/multi-tenant.md"
    );
    let page = std::fs::read_to_string(page).unwrap();
    for mut object in objects_of(&page) {
        object["metadata"]["labels"] = ours["metadata"]["labels"].clone();
        for pointer in ["/metadata/namespace", "/spec/destinationRef/namespace"] {
            if let Some(namespace) = object.pointer_mut(pointer) {
                *namespace = json!(here(namespace.as_str().unwrap()));
            }
        }
        if object["kind"] == "GitRepoConfig" {
            object["spec"]["repoUrl"] = ours["spec"]["repoUrl"].clone();
            object["spec"].as_object_mut().unwrap().remove("secretRef");
        }
        world.apply(&object);
    }
    let command = page
        .lines()
        .find_map(|line| line.strip_prefix("kubectl label "));
    let command: Vec<String> = command.unwrap().split(' ').map(here).collect();
    let arguments: Vec<&str> = command.iter().map(String::as_str).collect();
    world.kubectl(&[&["label"], &arguments[..]].concat());
    let mut object = world.config_map("web", "one");
    object["metadata"]["namespace"] = json!(shop);
    world.apply(&object);
    world.run();
    let path = format!("core/v1/configmaps/{shop}/web.yaml");
    soon("what the guide promises", || {
        let files = world.files();
        let found = files.get(&path).map(|_| ());
        found.ok_or_else(|| format!("{:?}", files.into_keys().collect::<Vec<_>>()))
    });
    world.finish();
}
