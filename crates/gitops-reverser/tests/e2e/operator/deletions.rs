//! What limits deletions.

use serde_json::{Value, json};

use super::installation::{Installation, soon};
use super::oracle::Expected;

/// So many ConfigMaps, mirrored, and the operator stopped.
fn mirrored_and_stopped(name: &str, count: usize) -> Installation {
    let mut world = Installation::prepare(name);
    let objects: Vec<_> = (0..count)
        .map(|number| world.config_map(&format!("object-{number:03}"), "x"))
        .collect();
    world.create_all(&objects);
    world.apply(&world.rule("rule", &json!([{"resources": ["configmaps"]}])));
    world.run();
    world.await_mirror(&[Expected::config_maps(&world.namespace)]);
    world.stop();
    world
}

/// Waits until status says that so many deletions are held back, and why.
#[track_caller]
fn await_held_back(world: &Installation, files: usize, why: &str) {
    soon(&format!("{files} deletions that are held back"), || {
        let seen = world.kubectl(&["get", "gitdestination", "prod", "-o", "json"]);
        let status = &serde_json::from_str::<Value>(&seen).unwrap()["status"];
        let message = |type_: &str| {
            let mut conditions = status["conditions"].as_array().into_iter().flatten();
            let found = conditions.find(|condition| condition["type"] == type_);
            let message = found.and_then(|condition| condition["message"].as_str());
            message.unwrap_or_default().to_owned()
        };
        let summary = message("Ready");
        let told = if files == 0 {
            status["heldBackDeletions"].is_null()
                && message("DeletionsHeldBack").is_empty()
                && !summary.contains("held back")
        } else {
            let noun = if files == 1 { "file" } else { "files" };
            status["heldBackDeletions"] == files
                && message("DeletionsHeldBack").contains(why)
                && summary.ends_with(&format!("and {files} {noun} whose deletion is held back"))
        };
        told.then_some(()).ok_or(status.to_string())
    });
    let metric = "gitopsreverser_repo_branch_deletions_held_back{";
    soon("the metric", || {
        let text = world.scrape();
        let mut lines = text.lines().filter(|line| line.starts_with(metric));
        let told = lines.any(|line| line.ends_with(&format!("}} {files}")));
        told.then_some(()).ok_or(text)
    });
}

#[test]
fn a_cap_lets_so_many_files_go_in_each_cycle_in_the_order_of_their_paths() {
    let mut world = mirrored_and_stopped("cap", 250);
    world.apply(&world.config_map("stays", "x"));
    world.kubectl(&["label", "configmap", "stays", "keep=yes"]);
    world.delete_config_maps("keep!=yes");
    world.settings.deletes_cap = Some(0);
    world.run();
    world.await_ready("gitdestination/prod", "True", "InSync");
    world.await_file("stays", "value: x");
    world.assert_quiet();
    assert_eq!(world.names().len(), 251, "a cap of zero deletes nothing");
    await_held_back(&world, 250, "--deletes-cap-per-cycle");
    let before = world.commits();
    world.stop();

    world.settings.deletes_cap = Some(100);
    world.run();
    world.await_mirror(&[Expected::config_maps(&world.namespace)]);
    assert_eq!(world.commits(), before + 3);
    await_held_back(&world, 0, "");
    // In the order of their paths, a hundred at a time.
    let cycles: Vec<String> = world.repository.history("main")[..3]
        .iter()
        .rev()
        .map(|commit| {
            let changed = ["show", "--name-only", "--format=", commit];
            world.repository.git(&changed)
        })
        .collect();
    let gone: Vec<Vec<&str>> = cycles.iter().map(|cycle| cycle.lines().collect()).collect();
    assert_eq!(
        [gone[0].len(), gone[1].len(), gone[2].len()],
        [100, 100, 50]
    );
    let in_order = |number| {
        format!(
            "clusters/prod/{}",
            world.path(&format!("object-{number:03}"))
        )
    };
    let expected: Vec<String> = (0..250).map(in_order).collect();
    assert_eq!(gone.concat(), expected);
    world.finish();
}

#[test]
fn the_guard_stops_the_disappearance_of_everything_until_it_is_acknowledged() {
    let mut world = mirrored_and_stopped("guard", 12);
    world.apply(&world.destination("beside", "clusters/beside", &json!({})));
    world.apply(&world.rule_to(
        "beside",
        "beside",
        &json!([{"resources": ["resourcequotas"]}]),
    ));
    world.kubectl(&["create", "quota", "limit", "--hard=pods=3"]);
    world.delete_config_maps("");
    world.run();
    let message = world.await_ready("gitdestination/prod", "False", "MassDeleteGuard");
    assert!(message.contains("acknowledge-mass-delete"), "{message}");
    world.await_ready("gitdestination/beside", "True", "InSync");
    world.assert_quiet();
    assert_eq!(world.names().len(), 12);
    let guard = "jsonpath={.status.massDeleteGuard.id}";
    let id = world.kubectl(&["get", "gitdestination", "prod", "-o", guard]);
    let wrong = "configbutler.ai/acknowledge-mass-delete=another";
    world.kubectl(&["annotate", "gitdestination", "prod", wrong]);
    world.assert_quiet();
    assert_eq!(world.names().len(), 12);
    let acknowledge = format!("configbutler.ai/acknowledge-mass-delete={id}");
    world.kubectl(&[
        "annotate",
        "--overwrite",
        "gitdestination",
        "prod",
        &acknowledge,
    ]);
    world.await_mirror(&[]);
    world.await_ready("gitdestination/prod", "True", "InSync");
    let quotas =
        Expected::new("", "v1", "resourcequotas", "ResourceQuota").within(&world.namespace);
    world.await_mirror_of("main", "clusters/beside/", &[quotas]);
    world.finish();
}

#[test]
fn prune_modes_keep_what_was_not_seen_to_go() {
    let mut world = mirrored_and_stopped("modes", 3);
    let prune =
        |mode: &str| world.destination("prod", "clusters/prod", &json!({"prune": {"mode": mode}}));
    world.apply(&prune("OnEvent"));
    let never = prune("Never");
    world.kubectl(&["delete", "configmap", "object-000"]);
    // Its file shows that everything is listed.
    world.apply(&world.config_map("fresh", "x"));
    world.run();
    world.await_file("fresh", "value: x");
    world.assert_quiet();
    assert_eq!(world.names().len(), 4, "its deletion was not seen");
    await_held_back(&world, 1, "spec.prune.mode is OnEvent");
    world.kubectl(&["delete", "configmap", "object-001"]);
    world.await_names(&["fresh", "object-000", "object-002"]);
    world.apply(&never);
    soon("the new spec is observed", || {
        let observed = "jsonpath={.metadata.generation} {.status.observedGeneration}";
        let seen = world.kubectl(&["get", "gitdestination", "prod", "-o", observed]);
        match seen.split_once(' ') {
            Some((one, other)) if one == other => Ok(()),
            _ => Err(seen),
        }
    });
    world.kubectl(&["delete", "configmap", "object-002"]);
    world.assert_quiet();
    assert_eq!(world.names(), ["fresh", "object-000", "object-002"]);
    await_held_back(&world, 2, "spec.prune.mode is Never");
    // One of them comes back.
    world.apply(&world.config_map("object-000", "back"));
    world.await_file("object-000", "value: back");
    await_held_back(&world, 1, "spec.prune.mode is Never");
    world.finish();
}

#[test]
fn orphans_of_one_destination_touch_no_other_folder_and_no_other_branch() {
    let mut world = Installation::prepare("orphans");
    let rules = json!([{"resources": ["configmaps"]}]);
    let folders = [
        ("prod", "main", "clusters/prod"),
        ("beside", "main", "clusters/beside"),
        ("branch", "other", "clusters/prod"),
    ];
    for (name, branch, folder) in folders {
        world.apply(&world.destination(name, folder, &json!({"branch": branch})));
        let mut rule = world.rule_to(name, name, &rules);
        rule["spec"]["objectSelector"] = json!({"matchLabels": {name: "yes"}});
        world.apply(&rule);
    }
    // Each is in all three, and leaves one, two or all of them.
    let names = ["one", "two", "all", "gone", "stays"];
    let labels = json!({"prod": "yes", "beside": "yes", "branch": "yes"});
    let objects = names.map(|name| {
        let mut object = world.config_map(name, "x");
        object["metadata"]["labels"] = labels.clone();
        object
    });
    world.create_all(&objects);
    world.run();
    let await_all = |world: &Installation| {
        for (name, branch, folder) in folders {
            let selected = Expected::config_maps(&world.namespace).labelled(&format!("{name}=yes"));
            world.await_mirror_of(branch, &format!("{folder}/"), &[selected]);
        }
    };
    await_all(&world);
    world.stop();
    let unlabel = |name: &str, labels: &[&str]| {
        world.kubectl(&[&["label", "configmap", name], labels].concat());
    };
    unlabel("one", &["prod-"]);
    unlabel("two", &["beside-", "branch-"]);
    unlabel("all", &["prod-", "beside-", "branch-"]);
    world.kubectl(&["delete", "configmap", "gone"]);
    world.run();
    await_all(&world);
    let count = |branch: &str, folder: &str| world.files_of(branch, folder).len();
    assert_eq!(count("main", "clusters/prod/"), 2, "two and stays");
    assert_eq!(count("main", "clusters/beside/"), 2, "one and stays");
    assert_eq!(count("other", "clusters/prod/"), 2, "one and stays");
    world.finish();
}
