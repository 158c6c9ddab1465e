//! Objects of our own that slipped past validation.

use reverser_testkit::control_plane::User;
use serde_json::{Value, json};

use super::installation::{Installation, soon};

/// Takes the validation of a kind away, as an older definition of it might.
fn let_anything_in(world: &Installation, definition: &str) {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let patch = json!([{
        "op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": schema,
    }]);
    let name = format!("{definition}.configbutler.ai");
    world.kubectl(&[
        "patch",
        "crd",
        &name,
        "--type=json",
        "-p",
        &patch.to_string(),
    ]);
}

/// Changes a spec, once the API server lets it.
fn patch(world: &Installation, object: &str, spec: &Value) {
    let patch = json!({"spec": spec}).to_string();
    soon(&format!("{object} takes {spec}"), || {
        let mut kubectl = world.plane.kubectl(User::Alice);
        kubectl.args(["-n", &world.namespace, "patch", object, "--type=merge"]);
        let output = kubectl.args(["-p", &patch]).output().unwrap();
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    });
}

#[test]
fn an_unreadable_object_of_ours_says_so_and_hurts_nobody_else() {
    let mut world = Installation::alone("unreadable");
    let rules = |resource: &str| json!([{"resources": [resource]}]);
    world.apply(&world.destination("other", "clusters/other", &json!({})));
    world.apply(&world.rule("good", &rules("configmaps")));
    world.apply(&world.rule("bad", &rules("resourcequotas")));
    world.apply(&world.rule_to("other", "elsewhere", &rules("configmaps")));
    world.apply(&world.config_map("web", "one"));
    world.kubectl(&["create", "quota", "limit", "--hard=pods=3"]);
    world.run();
    let quota = format!("core/v1/resourcequotas/{}/limit.yaml", world.namespace);
    let await_quota = |world: &Installation| {
        soon("the quota's file", || {
            let files: Vec<String> = world.files().into_keys().collect();
            files
                .contains(&quota)
                .then_some(())
                .ok_or(format!("{files:?}"))
        });
    };
    await_quota(&world);
    world.await_names(&["web"]);

    for definition in ["watchrules", "gitdestinations"] {
        let_anything_in(&world, definition);
    }
    patch(&world, "watchrule/bad", &json!({"rules": "nonsense"}));
    patch(&world, "gitdestination/other", &json!({"branch": 5}));
    let message = world.await_ready("watchrule/bad", "False", "InvalidSpec");
    assert!(message.contains("nonsense"), "{message}");
    world.await_ready("gitdestination/other", "False", "InvalidSpec");
    world.await_ready("watchrule/elsewhere", "False", "ReferenceNotReady");

    // What it selected is not known any more, so nothing that it may have written goes.
    for value in ["two", "three"] {
        world.apply(&world.config_map("web", value));
        world.await_file("web", &format!("value: {value}"));
        await_quota(&world);
        world.await_ready("gitdestination/prod", "True", "InSync");
        world.stop();
        world.run();
    }

    patch(
        &world,
        "watchrule/bad",
        &json!({"rules": rules("resourcequotas")}),
    );
    patch(&world, "gitdestination/other", &json!({"branch": "main"}));
    world.await_ready("watchrule/bad", "True", "Watching");
    world.await_ready("gitdestination/other", "True", "InSync");
    world.await_ready("watchrule/elsewhere", "True", "Watching");
    world.finish();
}
