//! Two API servers on one etcd.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, Client};
use reverser_testkit::command::run;
use reverser_testkit::control_plane::{ControlPlane, User};
use reverser_testkit::wait;
use serde_json::json;

fn maps(client: Client, namespace: &str) -> Api<ConfigMap> {
    Api::namespaced(client, namespace)
}

#[tokio::test]
async fn both_show_the_same_objects_and_fail_one_by_one() {
    let plane = ControlPlane::builder()
        .second_apiserver(true)
        .start()
        .unwrap();
    let (first, second) = (plane.apiserver(), plane.second_apiserver());
    assert_ne!(first.url(), second.url());
    let namespace = plane.namespace("two");

    let through_first = maps(first.client(User::Alice).unwrap(), &namespace);
    let through_second = maps(second.client(User::Bob).unwrap(), &namespace);
    let shared = serde_json::from_value(json!({"metadata": {"name": "shared"}})).unwrap();
    let created = through_first
        .create(&PostParams::default(), &shared)
        .await
        .unwrap();
    let seen = through_second.get("shared").await.unwrap();
    assert_eq!(seen.metadata.uid, created.metadata.uid);

    // The service account's token is signed with a key that both know.
    let name = "--output=jsonpath={.metadata.name}";
    let seen = run(second.kubectl(User::Robot).args([
        "--namespace",
        &namespace,
        "get",
        "configmap",
        "shared",
        name,
    ]));
    assert_eq!(seen.stdout, "shared");

    first.pause().unwrap();
    let silent = tokio::time::timeout(Duration::from_millis(300), through_first.get("shared"));
    assert!(silent.await.is_err(), "a paused server answered");
    through_second.get("shared").await.unwrap();

    first.resume().unwrap();
    wait::until("the resumed server", Duration::from_mins(1), async || {
        through_first.get("shared").await
    })
    .await
    .unwrap();

    first.kill().unwrap();
    assert!(through_first.get("shared").await.is_err());
    through_second.get("shared").await.unwrap();
}
