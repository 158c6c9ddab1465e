//! An operator that may not read everything.

use std::time::Duration;

use serde_json::{Value, json};

use super::installation::{Installation, await_right, soon};
use super::oracle::Expected;

/// Makes the operator a user with these further rights in some namespaces, beside those that it
/// cannot do without.
fn confine(world: &mut Installation, readable: &[&str]) -> String {
    let user = format!("operator-of-{}", world.namespace);
    let read = ["get", "list", "watch"];
    let rules = json!([
        {"apiGroups": ["configbutler.ai"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": read},
        {"apiGroups": ["apiextensions.k8s.io", "apiregistration.k8s.io"], "resources": ["*"], "verbs": read},
    ]);
    let metadata = json!({"name": user});
    let api = "rbac.authorization.k8s.io/v1";
    world.apply(
        &json!({"apiVersion": api, "kind": "ClusterRole", "metadata": metadata, "rules": rules}),
    );
    world.apply(&json!({
        "apiVersion": api, "kind": "ClusterRoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
        "subjects": [{"kind": "User", "name": user}],
    }));
    await_right(&world.plane, &user, &["get", "namespaces"]);
    for namespace in readable {
        let_read(world, &user, namespace);
    }
    world.config.auth_info.impersonate = Some(user.clone());
    user
}

fn let_read(world: &Installation, user: &str, namespace: &str) {
    let role = [
        "create",
        "role",
        "reader",
        "--verb=get,list,watch",
        "--resource=configmaps",
    ];
    world.kubectl(&[&["-n", namespace], &role[..]].concat());
    let binding = [
        "create",
        "rolebinding",
        "reader",
        "--role=reader",
        "--user",
        user,
    ];
    world.kubectl(&[&["-n", namespace], &binding[..]].concat());
    await_right(&world.plane, user, &["list", "configmaps", "-n", namespace]);
}

/// How many watches of ConfigMaps everywhere the operator has begun.
fn watches_everywhere(world: &Installation, user: &str) -> usize {
    let log = std::fs::read_to_string(world.plane.audit_log().unwrap()).unwrap();
    log.lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|entry| {
            let uri = entry["requestURI"].as_str().unwrap_or_default();
            entry["impersonatedUser"]["username"] == user
                && uri.starts_with("/api/v1/configmaps?watch=true")
                && entry["stage"] == "ResponseStarted"
                && entry["responseStatus"]["code"] == 200
        })
        .count()
}

#[test]
fn a_right_to_read_everywhere_that_is_granted_later_is_used() {
    let mut world = Installation::prepare("granted");
    world.settings.discovery_refresh = Duration::from_secs(1);
    let own = world.namespace.clone();
    let user = confine(&mut world, &[&own]);
    world.apply(&world.config_map("web", "one"));
    world.apply(&world.rule("rule", &json!([{"resources": ["configmaps"]}])));
    world.run();
    world.await_mirror(&[Expected::config_maps(&own)]);
    assert_eq!(watches_everywhere(&world, &user), 0);

    let name = format!("{user}-reads");
    let verbs = "--verb=get,list,watch";
    world.kubectl(&[
        "create",
        "clusterrole",
        &name,
        verbs,
        "--resource=configmaps",
    ]);
    let role = format!("--clusterrole={name}");
    world.kubectl(&[
        "create",
        "clusterrolebinding",
        &name,
        &role,
        "--user",
        &user,
    ]);
    soon("a watch of everything", || {
        let seen = watches_everywhere(&world, &user);
        (seen > 1).then_some(()).ok_or(seen.to_string())
    });
    // The namespace's own right is not needed any more.
    world.kubectl(&["delete", "rolebinding", "reader"]);
    world.apply(&world.config_map("web", "two"));
    world.await_file("web", "value: two");
    world.await_ready("gitdestination/prod", "True", "InSync");
    world.finish();
}

#[test]
fn a_right_that_is_taken_away_while_running_is_noticed_and_files_stay() {
    let mut world = Installation::prepare("revoked");
    // A watch that is open stays open whatever happens to the rights; the next one is refused.
    world.settings.watch.watch_timeout = Duration::from_secs(2);
    let own = world.namespace.clone();
    let user = confine(&mut world, &[&own]);
    world.apply(&world.config_map("web", "one"));
    world.apply(&world.config_map("api", "one"));
    world.apply(&world.rule("rule", &json!([{"resources": ["configmaps"]}])));
    world.run();
    world.await_mirror(&[Expected::config_maps(&own)]);
    world.await_ready("gitdestination/prod", "True", "InSync");

    world.kubectl(&["delete", "rolebinding", "reader"]);
    let message = world.await_stalled(&["gitdestination/prod"], "ScopeUnknown");
    assert!(message.contains("configmaps"), "{message}");
    let message = world.await_stalled(&["watchrule/rule"], "ScopeUnknown");
    let named = format!("v1/configmaps in namespace {own}: 403");
    assert!(message.contains(&named), "{message}");
    assert!(message.contains("rbac.customRules"), "{message}");
    world.kubectl(&["delete", "configmap", "web"]);
    world.assert_quiet();
    world.await_names(&["api", "web"]);

    world.kubectl(&["delete", "role", "reader"]);
    let_read(&world, &user, &own);
    world.await_ready("gitdestination/prod", "True", "InSync");
    world.await_ready("watchrule/rule", "True", "Watching");
    world.await_names(&["api"]);
    world.finish();
}

#[test]
fn what_may_not_be_read_everywhere_is_read_namespace_by_namespace() {
    let mut world = Installation::prepare("rights");
    let open: Value = json!({"accessPolicy": {"namespacedRules": {"mode": "AllNamespaces"}}});
    world.apply(&world.repo("repo", &open));
    world.apply(&world.destination("prod", "clusters/prod", &open));
    let closed = world.plane.namespace("rights-closed");
    let own = world.namespace.clone();
    let user = confine(&mut world, &[&own]);
    world.apply(&world.config_map("web", "one"));
    world.apply(&world.rule("rule", &json!([{"resources": ["configmaps"]}])));
    world.run();
    world.await_mirror(&[Expected::config_maps(&own)]);
    world.await_ready("gitdestination/prod", "True", "InSync");
    world.apply(&world.config_map("web", "two"));
    world.await_file("web", "value: two");

    // Another tenant's namespace may not be read: that is said, and hurts nobody else.
    let mut object = world.config_map("hidden", "x");
    object["metadata"]["namespace"] = json!(closed);
    world.apply(&object);
    world.apply(&world.guest_rule(&closed, &json!([{"resources": ["configmaps"]}])));
    let message = world.await_stalled(&["gitdestination/prod"], "ScopeUnknown");
    assert!(message.contains("configmaps"), "{message}");
    let message = world.await_stalled(&["-n", &closed, "watchrule/guest"], "ScopeUnknown");
    assert!(message.contains(&closed), "{message}");
    // What may be read for the other rule is followed.
    let message = world.await_ready("watchrule/rule", "True", "Watching");
    assert_eq!(message, "objects of 1 type are followed");
    world.apply(&world.config_map("web", "three"));
    world.await_file("web", "value: three");

    let_read(&world, &user, &closed);
    world.await_mirror(&[Expected::config_maps(&own), Expected::config_maps(&closed)]);
    world.await_ready("gitdestination/prod", "True", "InSync");

    // Rights that are taken away leave the files as they are.
    world.kubectl(&["-n", &closed, "delete", "rolebinding", "reader"]);
    world.stop();
    world.kubectl(&["-n", &closed, "delete", "configmap", "hidden"]);
    world.run();
    world.await_ready("gitdestination/prod", "False", "ScopeUnknown");
    world.assert_quiet();
    let path = format!("core/v1/configmaps/{closed}/hidden.yaml");
    assert!(world.files().contains_key(&path), "unknown is not empty");
    world.finish();
}
