//! Attempts that another webhook refused, of which ours was told all the same.

use std::time::{SystemTime, UNIX_EPOCH};

use reverser_testkit::command;
use reverser_testkit::control_plane::User;
use reverser_testkit::ports::Port;
use reverser_testkit::wait;
use serde_json::json;

use super::stage::{SOON, Stage};

/// A webhook that lets Bob and the robot do nothing: it must be asked about them, and never answers.
struct Refusing<'s> {
    stage: &'s Stage,
    name: String,
    _port: Port,
}

impl<'s> Refusing<'s> {
    fn start(stage: &'s Stage) -> Self {
        let (port, name) = (
            Port::reserve().unwrap(),
            format!("refusing-{}", stage.namespace),
        );
        let users = "request.userInfo.username in ['bob', 'system:serviceaccount:default:robot']";
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [{
                "name": "refusing.example.com", "failurePolicy": "Fail", "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"url": format!("https://127.0.0.1:{}/", port.number())},
                "matchConditions": [{"name": "some", "expression": users}],
                "namespaceSelector": {
                    "matchLabels": {"kubernetes.io/metadata.name": stage.namespace},
                },
                "rules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
                    "operations": ["CREATE", "UPDATE", "DELETE"],
                }],
            }],
        });
        stage.applies(User::Admin, &configuration, &["create"]);
        wait::until_blocking("Bob is refused", SOON, || {
            let mut kubectl = stage.kubectl_as(User::Bob);
            let create = ["create", "configmap", "refused", "--dry-run=server"];
            let output = kubectl.args(create).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let refused = said.contains("refusing.example.com");
            refused.then_some(()).ok_or(said)
        })
        .unwrap_or_else(|error| panic!("{error}"));
        Self {
            stage,
            name,
            _port: port,
        }
    }
}

impl Drop for Refusing<'_> {
    fn drop(&mut self) {
        let mut kubectl = self.stage.plane.kubectl(User::Admin);
        let delete = ["delete", "validatingwebhookconfiguration", &self.name];
        let _ = kubectl.args(delete).output();
    }
}

/// The server notes seconds: what is done in another one can be told from what was done before.
fn await_another_second() {
    let second = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs()
    };
    let before = second();
    wait::until_blocking("another second", SOON, || second() > before).unwrap();
}

fn patch(value: &str) -> [String; 5] {
    let change = format!(r#"{{"data":{{"value":"{value}"}}}}"#);
    ["patch", "configmap", "map", "-p", &change].map(str::to_owned)
}

#[test]
fn what_another_webhook_refused_names_nobody_even_if_it_is_all_that_is_known() {
    let mut stage = Stage::start("refused");
    let map = stage.path("map");
    stage.expect("create", &map, "alice exact", || {
        stage.applies(User::Alice, &stage.config_map("map", "one"), &["apply"]);
    });
    let does = |stage: &Stage, value: &str| {
        command::run(stage.kubectl_as(User::Alice).args(patch(value)));
    };
    let is_refused = |stage: &Stage, user: User, arguments: &[String]| {
        let failed = command::run_to_fail(stage.kubectl_as(user).args(arguments));
        assert!(failed.stderr.contains("refusing.example.com"), "{failed:?}");
    };

    let refusing = Refusing::start(&stage);
    is_refused(&stage, User::Bob, &patch("two"));
    is_refused(&stage, User::Robot, &patch("two"));
    await_another_second();
    stage.expect("the same by another", &map, "alice exact", || {
        does(&stage, "two");
    });

    // The only record is the wrong one: the same change, from the same version, with the same tool.
    is_refused(&stage, User::Bob, &patch("three"));
    drop(refusing);
    await_another_second();
    stage.stop_serving();
    stage.expect("nobody heard of it", &map, "unknown unknown", || {
        does(&stage, "three");
    });
    stage.serve();
    stage.await_asked();

    // Three deletions from one version, of which one came true: which one, only its user knows.
    let refusing = Refusing::start(&stage);
    let delete = ["delete", "configmap", "map"].map(str::to_owned);
    is_refused(&stage, User::Bob, &delete);
    is_refused(&stage, User::Robot, &delete);
    stage.expect("one of three deletions", &map, "unknown unknown", || {
        stage.does(User::Alice, &["delete", "configmap", "map"]);
    });
    drop(refusing);
}
