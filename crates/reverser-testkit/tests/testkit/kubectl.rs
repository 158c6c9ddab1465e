//! kubectl is the real one, and knows only this plane.

use std::os::unix::fs::PermissionsExt;

use reverser_testkit::command::{run, run_to_fail, run_with_input};
use reverser_testkit::control_plane::{ControlPlane, User};

#[test]
fn it_acts_as_the_user() {
    let plane = ControlPlane::shared();
    let who = run(plane.kubectl(User::Bob).args([
        "auth",
        "whoami",
        "--output=jsonpath={.status.userInfo.username}",
    ]));
    assert_eq!(who.stdout, "bob");
}

#[test]
fn it_applies_from_its_input_and_diffs() {
    let plane = ControlPlane::shared();
    let namespace = plane.namespace("kubectl");
    let kubectl = || {
        let mut command = plane.kubectl(User::Alice);
        command.args(["--namespace", &namespace]);
        command
    };
    let manifest = "{apiVersion: v1, kind: ConfigMap, metadata: {name: applied}, data: {a: b}}";
    run_with_input(kubectl().args(["apply", "-f", "-"]), manifest.as_bytes());
    let diff = run_with_input(kubectl().args(["diff", "-f", "-"]), manifest.as_bytes());
    assert_eq!(diff.stdout, "");
}

#[test]
fn what_it_may_not_do_fails_with_the_words_of_the_server() {
    let plane = ControlPlane::shared();
    let refused = run_to_fail(plane.kubectl(User::Tenant).args(["get", "nodes"]));
    assert!(
        refused.stderr.contains(r#"User "tenant" cannot list"#),
        "{}",
        refused.stderr
    );
}

#[test]
fn it_sees_no_configuration_but_that_of_the_plane() {
    let plane = ControlPlane::shared();
    let mut kubectl = plane.kubectl(User::Alice);
    let seen = |name: &str| {
        kubectl
            .get_envs()
            .find(|(key, _)| *key == name)
            .and_then(|(_, value)| value)
            .map(std::path::PathBuf::from)
    };
    assert!(seen("HOME").unwrap().starts_with(plane.dir()));
    assert_eq!(seen("KUBECONFIG").unwrap(), plane.kubeconfig(User::Alice));
    let view = run(kubectl.args(["config", "view", "--output=jsonpath={.users[*].name}"]));
    assert_eq!(view.stdout, "alice");
}

#[test]
fn nobody_else_may_read_its_configuration() {
    let plane = ControlPlane::shared();
    for user in User::ALL {
        let mode = plane.kubeconfig(user).metadata().unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
    }
}
