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
    let mut owned = stage.config_map("owned", "one");
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid});
    owned["metadata"]["ownerReferences"] = json!([owner]);
    stage.applies(User::Alice, &owned, &["create"]);
    stage.await_file("owned", "one");
    stage.await_file("owner", "one");
    let (owner, owned) = (stage.path("owner"), stage.path("owned"));
    let collector = "system:serviceaccount:kube-system:generic-garbage-collector exact";
    stage.expect("what it owned", &owned, collector, || {
        stage.does(User::Bob, &["delete", "configmap", "owner"]);
    });
    assert_eq!(stage.log(&owner)[0], "bob exact");
    let behalf = "--format=%(trailers:key=X-ConfigButler-OnBehalfOf,valueonly,separator=%x2C)";
    assert_eq!(stage.git_log(behalf, &owned)[0], "bob");
}
