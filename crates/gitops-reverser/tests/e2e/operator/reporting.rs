//! What users and those who look from outside are told.

use reverser_testkit::command;
use reverser_testkit::control_plane::User;
use serde_json::{Value, json};

use super::installation::{Installation, soon};

/// Reason and action of every event about an object, the oldest first.
fn events(world: &Installation, kind: &str, name: &str) -> Vec<(String, String)> {
    events_in(world, &world.namespace, kind, name)
}

fn events_in(
    world: &Installation,
    namespace: &str,
    kind: &str,
    name: &str,
) -> Vec<(String, String)> {
    let listed = ["-n", namespace, "get", "events.events.k8s.io", "-o", "json"];
    let listed: Value = serde_json::from_str(&world.kubectl(&listed)).unwrap();
    let mut events: Vec<(String, String, String)> = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["regarding"]["kind"] == kind && event["regarding"]["name"] == name)
        .map(|event| {
            let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
            (text("eventTime"), text("reason"), text("action"))
        })
        .collect();
    events.sort();
    let told = events.into_iter();
    told.map(|(_, reason, action)| (reason, action)).collect()
}

#[track_caller]
fn await_event(world: &Installation, name: &str, reason: &str, action: &str) {
    await_told(&format!("{action} {reason}"), (reason, action), || {
        events(world, "GitDestination", name)
    });
}

#[track_caller]
fn await_told(what: &str, wanted: (&str, &str), look: impl Fn() -> Vec<(String, String)>) {
    soon(what, || {
        let seen = look();
        let told = |(reason, action): &(String, String)| (&**reason, &**action) == wanted;
        if seen.iter().any(told) {
            Ok(())
        } else {
            Err(format!("{seen:?}"))
        }
    });
}

#[test]
fn events_tell_the_first_sync_trouble_and_its_end_once_each() {
    let mut world = Installation::start("events");
    world.apply(&world.config_map("web", "one"));
    world.apply(&world.rule("rule", &json!([{"resources": ["configmaps"]}])));
    world.await_names(&["web"]);
    await_event(&world, "prod", "SecretsReadable", "Warn");
    await_event(&world, "prod", "InSync", "Sync");

    world
        .repository
        .hook("pre-receive", "echo 'closed for today' >&2; exit 1");
    world.apply(&world.config_map("api", "one"));
    world.apply(&world.config_map("db", "one"));
    world.await_ready("gitdestination/prod", "False", "PushRefused");
    await_event(&world, "prod", "PushRefused", "Warn");
    world.repository.remove_hook("pre-receive");
    world.await_ready("gitdestination/prod", "True", "InSync");
    await_event(&world, "prod", "InSync", "Recover");

    let before = events(&world, "GitDestination", "prod");
    world.stop();
    world.run();
    world.apply(&world.config_map("web", "two"));
    world.await_file("web", "value: two");
    world.await_ready("gitdestination/prod", "True", "InSync");
    assert_eq!(events(&world, "GitDestination", "prod"), before);
    let refused = before.iter().filter(|(reason, _)| reason == "PushRefused");
    assert_eq!(refused.count(), 1, "{before:?}");
    world.finish();
}

#[test]
fn a_rule_that_is_not_let_in_says_so_in_events_and_when_it_is() {
    let world = Installation::start("denied");
    let guest = world.plane.namespace("denied-guest");
    let mut rule = world.guest_rule(&guest, &json!([{"resources": ["configmaps"]}]));
    rule["metadata"]["name"] = json!(guest);
    world.apply(&rule);
    world.apply(&world.cluster_rule(&json!([{"scope": "Cluster", "resources": ["nodes"]}])));
    let await_both = |reason: &str, action: &str| {
        await_told(reason, (reason, action), || {
            events_in(&world, &guest, "WatchRule", &guest)
        });
        // Events about what lives in no namespace are in `default`.
        await_told(reason, (reason, action), || {
            events_in(&world, "default", "ClusterWatchRule", &world.namespace)
        });
    };
    await_both("AccessDenied", "Warn");
    let open = json!({"accessPolicy": {
        "namespacedRules": {"mode": "AllNamespaces"}, "allowClusterRules": true,
    }});
    world.apply(&world.repo("repo", &open));
    world.apply(&world.destination("prod", "clusters/prod", &open));
    await_both("Watching", "Recover");
    world.finish();
}

#[test]
fn a_refused_object_is_named_in_status_and_the_others_are_written() {
    let world = Installation::start("set-aside");
    world.apply(&world.rule("rule", &json!([{"resources": ["configmaps"]}])));
    world.apply(&world.config_map("web", "one"));
    world.await_names(&["web"]);
    world.repository.hook(
        "pre-receive",
        "while read old new ref; do \
         git log --format= --name-only \"$new\" --not --all | grep -q bad && \
         { echo 'bad files are against our rules' >&2; exit 1; }; done; exit 0",
    );
    world.apply(&world.config_map("bad", "one"));
    let message = world.await_ready("gitdestination/prod", "False", "ObjectsSetAside");
    assert!(message.contains("against our rules"), "{message}");
    let named = world.kubectl(&[
        "get",
        "gitdestination/prod",
        "-o",
        "jsonpath={.status.setAside[*].path} {.status.setAsideObjects}",
    ]);
    assert_eq!(named, format!("clusters/prod/{} 1", world.path("bad")));
    world.apply(&world.config_map("api", "one"));
    world.await_names(&["api", "web"]);
    world.kubectl(&["delete", "configmap", "bad"]);
    world.await_ready("gitdestination/prod", "True", "InSync");
    world.finish();
}

#[test]
fn every_metric_moves_in_a_small_run() {
    let world = Installation::start("metrics");
    world.apply(&world.config_map("web", "one"));
    world.apply(&world.rule("rule", &json!([{"resources": ["configmaps"]}])));
    world.await_names(&["web"]);
    world.apply(&world.config_map("web", "two"));
    world.await_file("web", "value: two");
    world.kubectl(&["delete", "configmap", "web"]);
    world.await_names(&[]);
    world.await_ready("gitdestination/prod", "True", "InSync");
    let moving = [
        "objects_scanned_total{gvk=\"v1/ConfigMap\"",
        "objects_written_total{gvk=\"v1/ConfigMap\"",
        "files_deleted_total{",
        "events_processed_total",
        "commits_total",
        "commit_bytes_total",
        "commit_batches_total",
        "event_to_push_seconds_count",
        "push_duration_seconds_count",
        "watched_types",
        "last_push_age_seconds{",
    ];
    let still = [
        "repo_branch_active_workers",
        "repo_branch_queue_depth{",
        "unknown_scopes",
    ];
    // A look at the remote may be under way.
    soon("the metrics of a run that is over", || {
        let text = world.scrape();
        let value = |name: &str| {
            let mut lines = text.lines();
            let line = lines.find(|line| line.starts_with(&format!("gitopsreverser_{name}")))?;
            line.rsplit_once(' ')?.1.parse::<f64>().ok()
        };
        let moved = |name: &&str| value(name).is_some_and(|value| value > 0.0);
        let rests = |name: &&str| value(name).is_some_and(|value| value < 1.0);
        (moving.iter().all(moved) && still.iter().all(rests))
            .then_some(())
            .ok_or(text)
    });
    world.finish();
}

#[test]
fn without_ingestion_specs_are_checked_and_nothing_is_written() {
    let mut world = Installation::prepare("disabled");
    world.settings.enabled = false;
    world.apply(&world.config_map("web", "one"));
    world.apply(&world.rule("rule", &json!([{"resources": ["configmaps"]}])));
    world.run();
    for object in [
        "gitrepoconfig/repo",
        "gitdestination/prod",
        "watchrule/rule",
    ] {
        world.await_ready(object, "False", "IngestionDisabled");
    }
    world.assert_quiet();
    assert_eq!(world.commits(), 0);
    world.stop();
    world.settings.enabled = true;
    world.run();
    world.await_names(&["web"]);
    world.await_ready("watchrule/rule", "True", "Watching");
    world.finish();
}

#[test]
fn whoever_waits_until_rule_and_destination_are_ready_finds_everything_in_git() {
    let world = Installation::start("wait");
    world.apply(&world.config_map("web", "one"));
    let message = world.await_ready("gitdestination/prod", "True", "NoRules");
    assert!(message.contains("WatchRule"), "{message}");
    world.apply(&world.rule("rule", &json!([{"resources": ["configmaps", "services"]}])));
    let ready = ["--for=condition=Ready", "--timeout=180s"];
    // Before the rule is seen the destination has nothing to do, and is Ready.
    let both = ["wait", "watchrule/rule", "gitdestination/prod"];
    world.kubectl(&[&both[..], &ready].concat());
    assert_eq!(world.names(), ["web"]);

    world.kubectl(&["delete", "watchrule/rule"]);
    world.await_names(&[]);
    world.await_ready("gitdestination/prod", "True", "NoRules");
    world.finish();
}

#[test]
fn objects_that_are_made_anew_under_their_names_have_a_status_again() {
    let world = Installation::start("anew");
    let ours = [
        ("gitrepoconfig/repo", world.repo("repo", &json!({}))),
        (
            "gitdestination/prod",
            world.destination("prod", "clusters/prod", &json!({})),
        ),
        (
            "watchrule/rule",
            world.rule("rule", &json!([{"resources": ["configmaps"]}])),
        ),
    ];
    world.apply(&ours[2].1);
    world.apply(&world.config_map("web", "one"));
    world.await_names(&["web"]);
    for (name, object) in &ours {
        let uid = || world.kubectl(&["get", name, "-o", "jsonpath={.metadata.uid}"]);
        let before = uid();
        let mut kubectl = world.plane.kubectl(User::Alice);
        let replace = kubectl.args(["replace", "--force", "-f", "-"]);
        command::run_with_input(replace, object.to_string().as_bytes());
        assert_ne!(uid(), before);
    }
    world.await_ready("gitrepoconfig/repo", "True", "Reachable");
    world.await_ready("watchrule/rule", "True", "Watching");
    world.await_ready("gitdestination/prod", "True", "InSync");
    world.await_names(&["web"]);
    world.finish_reselected();
}
