//! Servers restart and stand still, and what was written is still there.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use reverser_testkit::control_plane::{ComponentError, ControlPlane, User};
use reverser_testkit::wait;

const SOON: Duration = Duration::from_mins(2);

#[tokio::test]
async fn what_was_written_survives_restarts_and_pauses() {
    let plane = ControlPlane::builder().start().unwrap();
    let namespace = plane.namespace("kept");
    let namespaces: Api<Namespace> = Api::all(plane.client(User::Alice).unwrap());
    let before = namespaces.get(&namespace).await.unwrap();
    let is_back = async || {
        let again = wait::until("the namespace", SOON, async || {
            namespaces.get(&namespace).await
        });
        assert_eq!(again.await.unwrap().metadata.uid, before.metadata.uid);
    };

    let old = plane.apiserver().pid();
    plane.apiserver().restart().unwrap();
    assert_ne!(plane.apiserver().pid(), old);
    is_back().await;

    plane.etcd().kill().unwrap();
    assert!(plane.etcd().pid().is_none());
    plane.etcd().start().unwrap();
    is_back().await;

    plane.etcd().pause().unwrap();
    let silent = tokio::time::timeout(Duration::from_millis(300), namespaces.get(&namespace));
    assert!(silent.await.is_err(), "read without a running etcd");
    plane.etcd().resume().unwrap();
    is_back().await;
}

#[test]
fn what_does_not_run_cannot_be_paused_and_what_runs_cannot_be_started() {
    let plane = ControlPlane::shared();
    let error = plane.apiserver().start().unwrap_err();
    assert_eq!(error.to_string(), "kube-apiserver runs already");
    assert!(matches!(error, ComponentError::Process(_)));
}
