use std::process::Stdio;

use reverser_api::git_destination::SecretsMode;
use rustix::process::Signal;
use serde_json::Value;

use super::world::{OnTerminal, Started, World};
use crate::operator::installation::{Installation, await_right, soon};

fn world_of(installation: &Installation) -> World {
    World::in_namespace(&installation.namespace)
}

#[test]
fn destinations_rules_and_what_is_wrong_are_shown_in_one_place() {
    let installation = Installation::start("status");
    installation
        .apply(&installation.rule("all", &serde_json::json!([{"resources": ["configmaps"]}])));
    installation.apply(&installation.config_map("one", "1"));
    installation.await_names(&["one"]);
    installation.await_ready("gitdestination/prod", "True", "InSync");
    installation.await_ready("watchrule/all", "True", "Watching");
    // The push is seen before its status.
    soon("the object in the status", || {
        let told = "jsonpath={.status.objects} {.status.lastPushedCommit}";
        let told = installation.kubectl(&["get", "gitdestination/prod", "-o", told]);
        let shown = told.starts_with("1 ") && told.len() > 2;
        shown.then_some(()).ok_or(told)
    });
    let world = world_of(&installation);
    let arguments = ["status", "-n", &installation.namespace];
    let run = world.run(&arguments);
    assert_eq!(run.code, Some(0), "{run:?}");
    let url = format!("file://{}", installation.repository.path().display());
    let text = run.stdout.replace(&url, "https://git.example.com/shop");
    // Tests that run before it decide on the number.
    let text = text.replace(&installation.namespace, "shop");
    // How long ago the push was depends on the machine.
    let text = text.lines().map(|line| {
        let words: Vec<&str> = line.split("  ").filter(|word| !word.is_empty()).collect();
        let words = words.iter().map(|word| {
            if word.ends_with(" ago") {
                "5s ago"
            } else {
                word.trim()
            }
        });
        words.collect::<Vec<_>>().join("  ") + "\n"
    });
    world.golden("status", &text.collect::<String>());
    let run = world.run(&[&arguments[..], &["--json"]].concat());
    let told: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(told["destinations"][0]["ready"], "True");
    assert_eq!(told["destinations"][0]["objects"], 1);
    assert_eq!(told["rules"][0]["types"], 1);

    // A rule that leads nowhere, and why.
    let lost = installation.rule_to("nowhere", "lost", &serde_json::json!([{}]));
    installation.apply(&lost);
    installation.await_ready("watchrule/lost", "False", "ReferenceNotFound");
    let run = world.run(&arguments);
    assert_eq!(run.code, Some(1), "{run:?}");
    let sentence = format!(
        "WatchRule {0}/lost: ReferenceNotFound: GitDestination {0}/nowhere does not exist",
        installation.namespace
    );
    assert!(run.stdout.contains(&sentence), "{run:?}");
}

#[test]
fn what_is_unknown_is_named_with_the_reason() {
    let mut installation = Installation::prepare("unknown");
    let home = installation.namespace.clone();
    // Pods are not among the types that it may read then.
    installation.be_a_release(&home, &["rbac.mode=preset"]);
    installation.run();
    let rules = serde_json::json!([{"resources": ["configmaps", "pods"]}]);
    installation.apply(&installation.rule("all", &rules));
    let world = world_of(&installation);
    soon("the type that cannot be read", || {
        let run = world.run(&["status", "-n", &home]);
        let about = format!("GitDestination {home}/prod: ScopeUnknown: ");
        let line = run.stdout.lines().find(|line| line.starts_with(&about));
        let why = line.is_some_and(|line| line.contains("pods") && line.contains("403"));
        why.then_some(()).ok_or(run.stdout)
    });
}

#[test]
fn a_watcher_sees_what_changes_until_it_is_stopped() {
    let installation = Installation::start("watching");
    installation.await_ready("gitdestination/prod", "True", "NoRules");
    let world = world_of(&installation);
    let arguments = ["status", "--watch", "-n", &installation.namespace];
    let terminal = OnTerminal::start(world.binary(&arguments));
    terminal.await_text("DESTINATION");
    let child = world
        .binary(&[&arguments[..], &["--json"]].concat())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let lines = Started::of(child.unwrap());
    installation
        .apply(&installation.rule("seen", &serde_json::json!([{"resources": ["configmaps"]}])));
    terminal.await_text(&format!("{}/seen", installation.namespace));
    terminal.signal(Signal::INT);
    assert_eq!(terminal.end().0, Some(0));
    lines.signal(Signal::INT);
    let run = lines.end();
    assert_eq!(run.code, Some(0), "{run:?}");
    for line in run.stdout.lines() {
        let _: Value = serde_json::from_str(line).unwrap();
    }
}

#[test]
fn a_destination_is_verified_as_its_rules_say() {
    let installation = Installation::start("verifying");
    installation
        .apply(&installation.rule("all", &serde_json::json!([{"resources": ["configmaps"]}])));
    installation.apply(&installation.config_map("one", "1"));
    installation.apply(&installation.config_map("two", "2"));
    installation.await_names(&["one", "two"]);
    let world = world_of(&installation);
    let name = format!("{}/prod", installation.namespace);
    let run = world.run(&["verify", "-d", &name]);
    assert_eq!(
        (run.code, &*run.stdout),
        (Some(0), "2 same, 0 different, 0 missing, 0 extra\n"),
        "{run:?}"
    );
    let mut installation = installation;
    installation.stop();
    installation.apply(&installation.config_map("two", "3"));
    let run = world.run(&["verify", "-d", &name]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stdout.contains("+  value: \"3\""), "{run:?}");
    let run = world.run(&["verify", "-d", "nowhere/prod"]);
    assert_eq!(run.code, Some(16), "{run:?}");
}

#[test]
fn a_destination_is_verified_as_the_operators_flags_say_and_no_value_of_a_secret_is_shown() {
    let mut installation = Installation::prepare("flags");
    let home = installation.namespace.clone();
    installation.be_a_release(&home, &[]);
    let flags = [
        "controller.secretsMode=Redact",
        "controller.allowUrlSchemes={file}",
    ];
    installation.apply_of_release(&home, &["deployment"], &flags);
    installation.settings.routing.secrets_mode = SecretsMode::Redact;
    let password = "--from-literal=password=canary-hunter2";
    installation.kubectl(&["create", "secret", "generic", "db", password]);
    installation.apply(&installation.rule("all", &serde_json::json!([{"resources": ["secrets"]}])));
    installation.run();
    let file = format!("core/v1/secrets/{home}/db.yaml");
    soon("the Secret in Git", || {
        let files = installation.files();
        let found = files.get(&file).map(|_| ());
        found.ok_or_else(|| format!("{:?}", files.keys().collect::<Vec<_>>()))
    });
    let world = world_of(&installation);
    let name = format!("{home}/prod");
    let here = ["verify", "-d", &name, "--operator-namespace", &home];
    let run = world.run(&here);
    assert_eq!(
        (run.code, &*run.stdout),
        (Some(0), "1 same, 0 different, 0 missing, 0 extra\n"),
        "{run:?}"
    );

    installation.stop();
    let other = r#"{"stringData":{"password":"canary-other"}}"#;
    installation.kubectl(&["patch", "secret", "db", "-p", other]);
    for more in [&[][..], &["--json"], &["--secrets", "as-is"]] {
        let run = world.run(&[&here[..], more].concat());
        assert_eq!(run.code, Some(1), "{run:?}");
        assert!(run.stdout.contains("*** (before)"), "{run:?}");
        // Neither as it is nor in base64.
        let shown = run.stdout.contains("canary") || run.stdout.contains("Y2FuYXJ5");
        assert!(!shown, "{run:?}");
    }
    // Where the operator is not found, that is said.
    let run = world.run(&here[..3]);
    let note = "note: the flags of the operator are not known";
    assert!(run.stderr.contains(note), "{run:?}");
    assert!(!run.stdout.contains("Y2FuYXJ5"), "{run:?}");
}

#[test]
fn whoever_may_read_one_namespace_sees_how_it_stands() {
    let installation = Installation::start("tenant");
    installation.apply(&installation.rule_to("nowhere", "lost", &serde_json::json!([{}])));
    installation.await_ready("watchrule/lost", "False", "ReferenceNotFound");
    let home = &installation.namespace;
    let user = format!("tenant-of-{home}");
    let viewer = [
        "create",
        "rolebinding",
        "viewer",
        "--clusterrole=gitops-reverser-viewer",
    ];
    installation.kubectl(&[&viewer[..], &["--user", &user]].concat());
    for kind in ["gitrepoconfigs", "gitdestinations", "watchrules"] {
        let kind = format!("{kind}.configbutler.ai");
        await_right(&installation.plane, &user, &["list", &kind, "-n", home]);
    }
    let world = world_of(&installation);
    let kubeconfig = world.impersonating(&user);
    let run = world.run(&["status", "-n", home, "--kubeconfig", &kubeconfig]);
    // Because of the rule.
    assert_eq!(run.code, Some(1), "{run:?}");
    for line in [
        &format!("{home}/prod  "),
        &format!("{home}/lost  False"),
        "ClusterWatchRules: Forbidden: you may not list them, so those that lead here are not shown",
    ] {
        assert!(run.stdout.contains(line), "{line}: {run:?}");
    }
    let run = world.run(&["status", "--kubeconfig", &kubeconfig]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(
        run.stderr
            .contains("write -n with a namespace that is yours"),
        "{run:?}"
    );
}
