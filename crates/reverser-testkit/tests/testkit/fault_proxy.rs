//! A proxy that forwards what it is not told to spoil.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use reverser_testkit::control_plane::{ControlPlane, User};
use reverser_testkit::fault_proxy::{Fault, FaultProxy};
use serde_json::json;

#[tokio::test]
async fn what_is_not_to_go_wrong_is_forwarded_and_the_rest_goes_wrong_as_often_as_told() {
    let plane = ControlPlane::shared();
    let namespace = plane.namespace("proxied");
    let proxy = FaultProxy::start(&plane.kube_config(User::Alice));
    let mut config = proxy.kube_config(plane.kube_config(User::Alice));
    config.default_retry = false;
    let maps: Api<ConfigMap> = Api::namespaced(Client::try_from(config).unwrap(), &namespace);
    let map = serde_json::from_value(json!({"metadata": {"name": "one"}})).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    let list = || async { maps.list(&ListParams::default()).await };
    assert_eq!(list().await.unwrap().items.len(), 1);

    proxy.fault("GET configmaps", Fault::answer(418, r#"{"code":418}"#), 2);
    for _ in 0..2 {
        let error = list().await.unwrap_err();
        assert!(matches!(error, kube::Error::Api(status) if status.code == 418));
    }
    for fault in [Fault::CutAfter(20), Fault::Close] {
        proxy.fault("configmaps", fault, 1);
        list().await.unwrap_err();
    }
    for fault in [Fault::Hang, Fault::SilentAfter(20)] {
        proxy.fault("configmaps", fault, 1);
        let silent = tokio::time::timeout(Duration::from_secs(3), list());
        assert!(silent.await.is_err(), "it answered");
    }
    proxy.fault("configmaps", Fault::Hang, usize::MAX);
    proxy.heal();
    proxy.fault("configmaps", Fault::Delay(Duration::from_millis(10)), 1);
    assert_eq!(list().await.unwrap().items.len(), 1);
    let seen = proxy.seen();
    assert_eq!(seen.len(), 9);
    assert!(
        seen[0].starts_with("POST /api/v1/namespaces/proxied"),
        "{seen:?}"
    );
}
