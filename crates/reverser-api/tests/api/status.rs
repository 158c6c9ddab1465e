use reverser_testkit::command;
use serde_json::{Value, json};

use crate::installed::{KINDS, installed, kubectl, smallest};

fn read(output: &command::Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap()
}

#[test]
fn status_is_written_apart_from_the_spec() {
    let plane = installed();
    let namespace = plane.namespace("status");
    let namespaced = ["--namespace", namespace.as_str(), "--output=json"];
    for kind in KINDS {
        let mut object = smallest(kind);
        object["metadata"]["name"] = json!(namespace);
        object["status"] = json!({"observedGeneration": 7});
        let mut create = kubectl(&plane);
        create.args(["create", "-f", "-"]).args(namespaced);
        let created = read(&command::run_with_input(
            &mut create,
            object.to_string().as_bytes(),
        ));
        assert!(
            created.get("status").is_none(),
            "{kind}: nobody but the operator writes status"
        );

        let patch = json!({
            "spec": {"rules": null, "branch": "other", "repoUrl": "https://other/x"},
            "status": {"observedGeneration": 1},
        });
        let mut write = kubectl(&plane);
        write.args([
            "patch",
            kind,
            &namespace,
            "--subresource=status",
            "--type=merge",
        ]);
        write.args(["--patch", &patch.to_string()]).args(namespaced);
        let written = read(&command::run(&mut write));
        assert_eq!(written["status"]["observedGeneration"], 1, "{kind}");
        assert_eq!(
            written["spec"], created["spec"],
            "{kind}: writing status leaves the spec alone"
        );
        assert_eq!(
            written["metadata"]["generation"], 1,
            "{kind}: and its generation"
        );
    }
}

#[test]
fn two_writers_of_conditions_do_not_overwrite_each_other() {
    let plane = installed();
    let namespace = plane.namespace("conditions");
    let mut object = smallest("GitDestination");
    object["metadata"]["name"] = json!("shared");
    command::run_with_input(
        kubectl(&plane).args(["create", "--namespace", &namespace, "-f", "-"]),
        object.to_string().as_bytes(),
    );
    for condition in ["Ready", "Example"] {
        let mut status = smallest("GitDestination");
        status.as_object_mut().unwrap().remove("spec");
        status["metadata"]["name"] = json!("shared");
        status["status"]["conditions"] = json!([{
            "type": condition, "status": "True", "reason": "Test", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]);
        let mut apply = kubectl(&plane);
        apply.args([
            "apply",
            "--server-side",
            "--subresource=status",
            "--namespace",
            &namespace,
        ]);
        apply
            .arg(format!("--field-manager={condition}"))
            .args(["-f", "-"]);
        command::run_with_input(&mut apply, status.to_string().as_bytes());
    }
    let mut get = kubectl(&plane);
    get.args([
        "get",
        "gdest",
        "shared",
        "--namespace",
        &namespace,
        "--output=json",
    ]);
    let found = read(&command::run(&mut get));
    assert_eq!(found["status"]["conditions"].as_array().unwrap().len(), 2);
}
