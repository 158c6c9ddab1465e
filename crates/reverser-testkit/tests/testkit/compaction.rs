//! After a compaction the past is gone.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ListParams, PostParams, VersionMatch, WatchEvent, WatchParams};
use reverser_testkit::control_plane::{ControlPlane, User};
use serde_json::json;

async fn create(maps: &Api<ConfigMap>, name: &str) -> String {
    let map = serde_json::from_value(json!({"metadata": {"name": name}}));
    let map = map.expect("a name is all it needs");
    let created = maps.create(&PostParams::default(), &map).await;
    let metadata = created.expect("Alice may create").metadata;
    metadata.resource_version.expect("what is stored has one")
}

/// What a watch from there answers first: the name of an object, or the code of a refusal.
async fn first_answer(maps: &Api<ConfigMap>, version: &str) -> Result<String, u16> {
    let events = match maps.watch(&WatchParams::default(), version).await {
        Ok(events) => events,
        Err(kube::Error::Api(status)) => return Err(status.code),
        Err(other) => panic!("{other}"),
    };
    match events.boxed().try_next().await {
        Ok(Some(WatchEvent::Added(map))) => Ok(map.metadata.name.unwrap_or_default()),
        Ok(Some(WatchEvent::Error(status))) => Err(status.code),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_watch_from_the_past_is_gone_at_once_without_a_watch_cache() {
    let plane = ControlPlane::builder().watch_cache(false).start().unwrap();
    let namespace = plane.namespace("compacted");
    let maps: Api<ConfigMap> = Api::namespaced(plane.client(User::Alice).unwrap(), &namespace);
    let old = create(&maps, "old").await;
    create(&maps, "new").await;
    assert_eq!(first_answer(&maps, &old).await, Ok("new".to_owned()));

    let revision = plane.compact_etcd().unwrap();
    assert!(revision > old.parse().unwrap());
    assert_eq!(first_answer(&maps, &old).await, Err(410));
}

#[tokio::test]
async fn a_watch_from_the_past_is_gone_after_a_restart_with_a_watch_cache() {
    let plane = ControlPlane::builder().start().unwrap();
    let namespace = plane.namespace("compacted");
    let maps: Api<ConfigMap> = Api::namespaced(plane.client(User::Alice).unwrap(), &namespace);
    let old = create(&maps, "old").await;
    create(&maps, "new").await;
    plane.compact_etcd().unwrap();

    // The memory of the API server still knows.
    assert_eq!(first_answer(&maps, &old).await, Ok("new".to_owned()));

    plane.apiserver().restart().unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(plane.client(User::Alice).unwrap(), &namespace);
    assert_eq!(first_answer(&maps, &old).await, Err(410));
    let exactly = ListParams {
        resource_version: Some(old),
        version_match: Some(VersionMatch::Exact),
        ..ListParams::default()
    };
    let error = maps.list(&exactly).await.unwrap_err();
    assert!(matches!(&error, kube::Error::Api(status) if status.code == 410));
}
