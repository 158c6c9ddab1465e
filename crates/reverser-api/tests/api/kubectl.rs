use std::fs;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use reverser_api::crd_yaml::{crds, crds_yaml};
use reverser_testkit::command;
use reverser_testkit::control_plane::ControlPlane;
use serde_json::{Value, json};

use crate::installed::{KINDS, installed, kubectl, smallest};

/// Creates an object of each kind in a namespace, with the status that the operator would write.
fn objects_in(plane: &ControlPlane, namespace: &str) {
    let ready = |status: &str, reason: &str, message: &str| {
        json!([{
            "type": "Ready", "status": status, "reason": reason, "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }])
    };
    let statuses = [
        json!({"conditions": ready("False", "CredentialsRefused", "the server said no")}),
        json!({
            "conditions": ready("True", "InSync", "all is written"),
            "objects": 42, "waitingFiles": 3, "lastPushTime": "2026-01-01T00:00:00Z",
            "lastPushedCommit": "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
        }),
        json!({"conditions": ready("True", "Watching", "2 types are followed"), "watchedTypes": 2}),
        json!({"conditions": ready("False", "AccessDenied", "set allowClusterRules"), "watchedTypes": 0}),
    ];
    for (kind, status) in KINDS.into_iter().zip(statuses) {
        let mut object = smallest(kind);
        object["metadata"]["name"] = json!(namespace);
        apply(plane, namespace, &object);
        let patch = json!({"status": status}).to_string();
        command::run(kubectl(plane).args([
            "patch",
            kind,
            namespace,
            "--namespace",
            namespace,
            "--subresource=status",
            "--type=merge",
            "--patch",
            &patch,
        ]));
    }
}

fn apply(plane: &ControlPlane, namespace: &str, object: &Value) {
    command::run_with_input(
        kubectl(plane).args(["apply", "--namespace", namespace, "-f", "-"]),
        object.to_string().as_bytes(),
    );
}

/// The table that `kubectl get` prints, each row split at its columns.
fn table(plane: &ControlPlane, namespace: &str, what: &[&str]) -> Vec<Vec<String>> {
    let mut get = kubectl(plane);
    get.args(["get", "--namespace", namespace]).args(what);
    let output = command::run(&mut get);
    let columns = |line: &str| {
        let columns = line
            .split("   ")
            .map(str::trim)
            .filter(|column| !column.is_empty());
        columns.map(str::to_owned).collect::<Vec<_>>()
    };
    output.stdout.lines().map(columns).collect()
}

#[test]
fn kubectl_get_answers_whether_it_is_well_and_why_not() {
    let plane = installed();
    let namespace = plane.namespace("columns");
    objects_in(&plane, &namespace);
    let name = namespace.as_str();

    let rows = table(&plane, name, &["grc", name]);
    assert_eq!(rows[0], ["NAME", "READY", "REASON", "URL", "AGE"]);
    let url = "https://git.example.com/platform/mirror.git";
    assert_eq!(rows[1][..4], [name, "False", "CredentialsRefused", url]);

    let rows = table(&plane, name, &["gdest", name]);
    assert_eq!(
        rows[0],
        [
            "NAME",
            "READY",
            "REASON",
            "BRANCH",
            "FOLDER",
            "OBJECTS",
            "WAITING",
            "LAST PUSH",
            "AGE"
        ]
    );
    assert_eq!(
        rows[1][..7],
        [name, "True", "InSync", "main", "clusters/prod", "42", "3"]
    );
    assert!(
        rows[1][7].ends_with('d') || rows[1][7].contains('y'),
        "{:?}",
        rows[1][7]
    );

    let rows = table(&plane, name, &["wr", name]);
    assert_eq!(
        rows[0],
        ["NAME", "READY", "REASON", "DESTINATION", "TYPES", "AGE"]
    );
    assert_eq!(rows[1][..5], [name, "True", "Watching", "shop", "2"]);

    let rows = table(&plane, name, &["cwr", name]);
    assert_eq!(
        rows[0],
        [
            "NAME",
            "READY",
            "REASON",
            "DESTINATION",
            "NAMESPACE",
            "TYPES",
            "AGE"
        ]
    );
    assert_eq!(
        rows[1][..6],
        [name, "False", "AccessDenied", "shop", "default", "0"]
    );
}

#[test]
fn kubectl_get_wide_shows_the_sentence_and_the_commit() {
    let plane = installed();
    let namespace = plane.namespace("wide");
    objects_in(&plane, &namespace);
    let rows = table(&plane, &namespace, &["gdest", &namespace, "-o", "wide"]);
    assert!(
        rows[0].ends_with(&["LAST COMMIT".into(), "AGE".into(), "MESSAGE".into()]),
        "{rows:?}"
    );
    assert!(
        rows[1].contains(&"4b825dc642cb6eb9a060e54bf8d69288fbee4904".to_owned()),
        "{rows:?}"
    );
    assert!(rows[1].contains(&"all is written".to_owned()), "{rows:?}");
}

#[test]
fn kubectl_get_reverser_shows_all_four_kinds() {
    let plane = installed();
    let namespace = plane.namespace("category");
    objects_in(&plane, &namespace);
    let mut get = kubectl(&plane);
    get.args([
        "get",
        "reverser",
        "--output=name",
        "--namespace",
        &namespace,
    ]);
    let output = command::run(&mut get).stdout;
    for kind in KINDS {
        let line = format!("{}.configbutler.ai/{namespace}", kind.to_lowercase());
        assert!(
            output.lines().any(|found| found == line),
            "{line} in {output}"
        );
    }
}

#[test]
fn kubectl_wait_understands_ready() {
    let plane = installed();
    let namespace = plane.namespace("wait");
    objects_in(&plane, &namespace);
    let mut wait = kubectl(&plane);
    wait.args([
        "wait",
        "--for=condition=Ready",
        "--timeout=5s",
        "--namespace",
        &namespace,
    ]);
    command::run(wait.args(["gitdestination", &namespace]));
}

#[test]
fn kubectl_explain_says_what_every_field_means() {
    let plane = installed();
    let output = command::run(kubectl(&plane).args(["explain", "gdest.spec.baseFolder"])).stdout;
    assert!(
        output.contains("The folder of the branch that this destination owns"),
        "{output}"
    );

    for crd in crds() {
        let schema = serde_json::to_value(&crd.spec.versions[0].schema).unwrap();
        assert_described(&crd.spec.names.kind, &schema["openAPIV3Schema"]);
    }
}

fn assert_described(path: &str, schema: &Value) {
    assert!(
        schema["description"]
            .as_str()
            .is_some_and(|text| !text.is_empty()),
        "{path}"
    );
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        assert_described(&format!("{path}.{name}"), child);
    }
    for (name, child) in schema["items"]["properties"]
        .as_object()
        .into_iter()
        .flatten()
    {
        assert_described(&format!("{path}[].{name}"), child);
    }
}

#[test]
fn a_misspelled_field_is_refused_by_its_name() {
    let plane = installed();
    let mut object = smallest("GitRepoConfig");
    object["spec"]["repoURL"] = json!("x");
    let file = plane.dir().join("misspelled.json");
    fs::write(&file, object.to_string()).unwrap();
    let mut apply = kubectl(&plane);
    apply.args(["apply", "--dry-run=server", "-f"]).arg(&file);
    let refusal = command::run_to_fail(&mut apply);
    assert!(
        refusal.stderr.contains(r#"unknown field "spec.repoURL""#),
        "{}",
        refusal.stderr
    );
}

#[test]
fn kubectl_reads_all_definitions_as_one_stream() {
    let plane = installed();
    let mut apply = kubectl(&plane);
    apply.args(["apply", "--dry-run=server", "--output=json", "-f", "-"]);
    let output = command::run_with_input(&mut apply, crds_yaml().as_bytes());
    assert_eq!(output.stderr, "", "no warnings");
    let list: Value = serde_json::from_str(&output.stdout).unwrap();
    for (read, ours) in list["items"].as_array().unwrap().iter().zip(crds()) {
        let read: CustomResourceDefinition = serde_json::from_value(read.clone()).unwrap();
        assert_eq!(read.spec.versions, ours.spec.versions);
    }
}
