//! An operator that may not read everything.

use serde_json::{Value, json};

use super::installation::Installation;
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
    let message = world.await_ready("gitdestination/prod", "False", "ScopeUnknown");
    assert!(message.contains("configmaps"), "{message}");
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
}
