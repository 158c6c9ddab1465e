//! What controllers delete because a person deleted something else.

use reverser_testkit::control_plane::User;
use serde_json::json;

use super::stage::Stage;

#[test]
fn a_cascade_names_the_collector_and_who_deleted_the_owner() {
    let stage = Stage::with_controllers("cascade");
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
    let behalf = "--format=%(trailers:key=X-ConfigButler-OnBehalfOf,valueonly,separator=%x2C)";
    assert_eq!(stage.git_log(behalf, &of_child)[0], "bob");
}
