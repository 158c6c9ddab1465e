//! What controllers do because a person did something else.

use reverser_testkit::control_plane::User;
use serde_json::json;

use super::scenarios::deployment;
use super::stage::Stage;

const BEHALF: &str = "--format=%(trailers:key=X-ConfigButler-OnBehalfOf,valueonly,separator=%x2C)";

#[test]
fn what_controllers_delete_names_them_and_who_is_behind_it_and_their_reports_name_nobody() {
    let stage = Stage::with_controllers("cascade");
    a_cascade(&stage);
    reports_of_status(&stage);
    the_end_of_a_namespace(&stage);
}

fn a_cascade(stage: &Stage) {
    stage.applies(User::Alice, &stage.config_map("owner", "one"), &["create"]);
    let uid = stage.kubectl(&[
        "get",
        "configmap",
        "owner",
        "-o",
        "jsonpath={.metadata.uid}",
    ]);
    let mut child = stage.config_map("owned", "one");
    let parent = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid});
    child["metadata"]["ownerReferences"] = json!([parent]);
    stage.applies(User::Alice, &child, &["create"]);
    stage.await_file("owned", "one");
    stage.await_file("owner", "one");
    let (of_parent, of_child) = (stage.path("owner"), stage.path("owned"));
    let collector = "system:serviceaccount:kube-system:generic-garbage-collector exact";
    stage.expect("what it owned", &of_child, collector, || {
        stage.does(User::Bob, &["delete", "configmap", "owner"]);
    });
    assert_eq!(stage.log(&of_parent)[0], "bob exact");
    assert_eq!(stage.git_log(BEHALF, &of_child)[0], "bob");
}

/// The controller of deployments writes status and annotations as long as the object lives.
fn reports_of_status(stage: &Stage) {
    let web = format!("apps/v1/deployments/{}/web.yaml", stage.namespace);
    let await_report = |generation: &str| {
        let path = format!("--for=jsonpath={{.status.observedGeneration}}={generation}");
        stage.kubectl(&["wait", "deployment/web", &path, "--timeout=120s"]);
    };
    stage.expect("create", &web, "alice exact", || {
        stage.applies(User::Alice, &deployment(&stage.namespace), &["create"]);
    });
    await_report("1");
    stage.expect("after a report", &web, "bob exact", || {
        stage.does(User::Bob, &["set", "image", "deployment/web", "web=web:2"]);
    });
    await_report("2");
    stage.expect("after another", &web, "alice exact", || {
        stage.does(User::Alice, &["scale", "deployment/web", "--replicas=2"]);
    });
    assert_eq!(stage.log(&web).len(), 3, "reports make no commits");
}

fn the_end_of_a_namespace(stage: &Stage) {
    let guest = stage.plane.namespace("guest");
    let open = json!({"accessPolicy": {"allowClusterRules": true}});
    stage.apply(&stage.repo("repo", &open));
    stage.apply(&stage.cluster_rule(&json!([{
        "scope": "Namespaced", "resources": ["configmaps"],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": guest}},
    }])));
    let path = format!("core/v1/configmaps/{guest}/map.yaml");
    stage.await_asked_about(&path, |number| {
        let mut map = stage.config_map("map", &number.to_string());
        map["metadata"]["namespace"] = json!(guest);
        stage.apply(&map);
    });
    let controller = "system:serviceaccount:kube-system:namespace-controller exact";
    stage.expect("what was in a namespace", &path, controller, || {
        stage.does(User::Bob, &["delete", "namespace", &guest, "--wait=false"]);
    });
    assert_eq!(stage.git_log(BEHALF, &path)[0], "bob");
}
