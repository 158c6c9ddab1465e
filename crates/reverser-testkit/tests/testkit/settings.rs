//! What a plane is asked for reaches the programs, and what they do not take is told in their words.

use reverser_testkit::command::run;
use reverser_testkit::control_plane::{ControlPlane, StartError, User};

#[test]
fn feature_gates_and_arguments_reach_the_server() {
    let plane = ControlPlane::builder()
        .feature_gate("StorageVersionAPI", true)
        .apiserver_argument("--runtime-config=internal.apiserver.k8s.io/v1alpha1=true")
        .start()
        .unwrap();
    let versions = run(plane.kubectl(User::Alice).args(["api-versions"])).stdout;
    assert!(
        versions.contains("internal.apiserver.k8s.io/v1alpha1"),
        "{versions}"
    );
    let metrics = run(plane
        .kubectl(User::Alice)
        .args(["get", "--raw", "/metrics"]))
    .stdout;
    let gate = r#"kubernetes_feature_enabled{name="StorageVersionAPI",stage="ALPHA"} 1"#;
    assert!(metrics.contains(gate));
}

#[test]
fn a_server_that_refuses_its_arguments_is_quoted_and_its_log_stays() {
    let started = ControlPlane::builder()
        .apiserver_argument("--no-such-flag=1")
        .start();
    let Err(StartError::Component(error)) = started else {
        panic!("{started:?}");
    };
    let text = error.to_string();
    assert!(text.contains("kube-apiserver ended"), "{text}");
    assert!(text.contains("unknown flag: --no-such-flag"), "{text}");
    let log = error.log().unwrap();
    assert!(log.is_file());
    // This failure is wanted, nobody will look at it.
    std::fs::remove_dir_all(log.parent().unwrap().parent().unwrap()).unwrap();
}
