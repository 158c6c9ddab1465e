//! Tests of one binary do not get into each other's way.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::ListParams;
use reverser_testkit::control_plane::{ControlPlane, NAMESPACE_LABEL, User};

#[tokio::test]
async fn each_namespace_is_new_exists_and_is_labelled() {
    let plane = ControlPlane::shared();
    let made: BTreeSet<String> = (0..3).map(|_| plane.namespace("labelled")).collect();
    assert_eq!(made.len(), 3);

    let namespaces: Api<Namespace> = Api::all(plane.client(User::Alice).unwrap());
    let label = format!("{NAMESPACE_LABEL}=labelled");
    let found = namespaces
        .list(&ListParams::default().labels(&label))
        .await
        .unwrap();
    let found: BTreeSet<String> = found
        .into_iter()
        .filter_map(|namespace| namespace.metadata.name)
        .collect();
    assert_eq!(found, made);
}

/// No runtime here: everything but a client can be used without one.
#[test]
fn a_test_without_a_runtime_has_a_namespace_too() {
    let plane = ControlPlane::shared();
    assert!(plane.namespace("blocking").starts_with("blocking-"));
}
