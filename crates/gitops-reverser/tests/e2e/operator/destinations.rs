//! Several destinations, and how each is written.

use serde_json::json;

use super::installation::{Installation, soon};
use super::oracle::Expected;

#[test]
fn destinations_on_other_branches_and_in_other_folders_do_not_leak() {
    let world = Installation::start("several");
    world.apply(&world.destination("staging", "clusters/prod", &json!({"branch": "staging"})));
    world.apply(&world.destination("beside", "clusters/beside", &json!({})));
    for (name, tier) in [("a", "one"), ("b", "two"), ("c", "three")] {
        let mut object = world.config_map(name, "x");
        object["metadata"]["labels"] = json!({"tier": tier});
        world.apply(&object);
    }
    for (destination, tier) in [("prod", "one"), ("staging", "two"), ("beside", "three")] {
        let mut rule = world.rule_to(
            destination,
            destination,
            &json!([{"resources": ["configmaps"]}]),
        );
        rule["spec"]["objectSelector"] = json!({"matchLabels": {"tier": tier}});
        world.apply(&rule);
    }
    let here =
        |tier: &str| [Expected::config_maps(&world.namespace).labelled(&format!("tier={tier}"))];
    world.await_equal("main", "clusters/prod/", &here("one"));
    world.await_equal("staging", "clusters/prod/", &here("two"));
    world.await_mirror_of("main", "clusters/beside/", &here("three"));
    let folders = |branch: &str| -> Vec<String> {
        let files = world.repository.files(branch).into_keys();
        files.filter(|path| path.contains("/configmaps/")).collect()
    };
    assert_eq!(folders("main").len(), 2);
    assert_eq!(folders("staging").len(), 1);

    world.kubectl(&["delete", "watchrule", "beside"]);
    world.await_mirror_of("main", "clusters/beside/", &[]);
    world.await_mirror(&here("one"));
    // Moving a destination to a branch that holds files already loses none of them on the way.
    world.kubectl(&[
        "patch",
        "gitdestination",
        "beside",
        "--type=merge",
        "-p",
        r#"{"spec":{"branch":"staging"}}"#,
    ]);
    world.apply(&world.rule_to("beside", "beside", &json!([{"resources": ["configmaps"]}])));
    world.await_mirror_of(
        "staging",
        "clusters/beside/",
        &[Expected::config_maps(&world.namespace)],
    );
    world.await_mirror_of("staging", "clusters/prod/", &here("two"));
    world.finish();
}

#[test]
fn of_two_overlapping_folders_the_younger_is_refused_until_it_moves() {
    let world = Installation::start("overlap");
    world.await_ready("gitdestination/prod", "True", "NoRules");
    // Of the same second, the first by name counts as the older.
    world.apply(&world.destination("within", "clusters/prod/inner", &json!({})));
    let message = world.await_ready("gitdestination/within", "False", "FolderOverlap");
    assert!(message.contains("prod"), "{message}");
    world.apply(&world.destination("within", "clusters/within", &json!({})));
    world.await_ready("gitdestination/within", "True", "NoRules");
    world.finish();
}

#[test]
fn secrets_are_written_with_a_warning_or_skipped() {
    let world = Installation::start("secrets");
    world.kubectl(&[
        "create",
        "secret",
        "generic",
        "password",
        "--from-literal=key=value",
    ]);
    world.apply(&world.rule("rule", &json!([{"resources": ["secrets", "configmaps"]}])));
    let secrets = Expected::new("", "v1", "secrets", "Secret").within(&world.namespace);
    world.await_mirror(&[secrets]);
    let warning = r#"jsonpath={.status.conditions[?(@.type=="SecretsReadable")].status}"#;
    soon("a warning", || {
        let status = world.kubectl(&["get", "gitdestination", "prod", "-o", warning]);
        (status == "True").then_some(()).ok_or(status)
    });

    let skip = json!({"secrets": {"mode": "Skip"}});
    world.apply(&world.destination("prod", "clusters/prod", &skip));
    world.await_mirror(&[]);
    soon("no warning", || {
        match world.kubectl(&["get", "gitdestination", "prod", "-o", warning]) {
            none if none.is_empty() => Ok(()),
            other => Err(other),
        }
    });
    world.finish();
}

#[test]
fn ignored_fields_make_no_commits_and_suspending_stops_writing() {
    let world = Installation::start("ignoring");
    let ignore = json!({"ignore": {
        "annotations": ["noise.example.com/*"], "labels": ["generation"],
        "fields": [{"pointer": "/data/counter"}],
    }});
    world.apply(&world.destination("prod", "clusters/prod", &ignore));
    world.apply(&world.rule("rule", &json!([{"resources": ["configmaps"]}])));
    let mut object = world.config_map("web", "one");
    object["metadata"]["annotations"] = json!({"noise.example.com/time": "1", "kept": "yes"});
    object["metadata"]["labels"] = json!({"generation": "1"});
    object["data"]["counter"] = json!("1");
    world.apply(&object);
    world.await_file("web", "value: one");
    let file = world.files()[&world.path("web")].clone();
    assert!(
        file.contains("kept") && !file.contains("noise") && !file.contains("counter"),
        "{file}"
    );
    let before = world.commits();
    object["metadata"]["annotations"]["noise.example.com/time"] = json!("2");
    object["metadata"]["labels"] = json!({"generation": "2"});
    object["data"]["counter"] = json!("2");
    world.apply(&object);
    world.assert_quiet();
    assert_eq!(world.commits(), before);

    let suspend = |yes: bool| format!(r#"{{"spec":{{"suspend":{yes}}}}}"#);
    let patch = |yes| {
        world.kubectl(&[
            "patch",
            "gitdestination",
            "prod",
            "--type=merge",
            "-p",
            &suspend(yes),
        ])
    };
    patch(true);
    world.await_ready("gitdestination/prod", "False", "Suspended");
    world.apply(&world.config_map("web", "two"));
    world.apply(&world.config_map("new", "two"));
    world.assert_quiet();
    assert_eq!(world.commits(), before);
    patch(false);
    world.await_file("web", "value: two");
    world.await_names(&["new", "web"]);
    world.await_ready("gitdestination/prod", "True", "InSync");
    world.finish();
}
