use std::process::Stdio;

use reverser_testkit::control_plane::User;
use reverser_testkit::wait;
use rustix::process::Signal;
use serde_json::Value;

use super::world::{OnTerminal, SOON, Started, World};
use crate::operator::installation::await_right;

#[test]
fn one_pass_creates_the_repository_and_a_second_one_changes_nothing() {
    let world = World::new("shop");
    let first = world.mirror(&[]);
    world.golden("mirror-first", &format!("{}{}", first.stderr, first.stdout));
    let ns = &world.namespace;
    assert_eq!(
        world.files(),
        [
            format!("apps/v1/deployments/{ns}/web.yaml"),
            format!("core/v1/configmaps/{ns}/settings.yaml"),
            format!("core/v1/secrets/{ns}/db.yaml"),
        ]
    );
    let tip = world.git(&["rev-parse", "main"]);
    let second = world.mirror(&[]);
    world.golden("mirror-unchanged", &second.stdout);
    assert_eq!(world.git(&["rev-parse", "main"]), tip);
    // And after a change only that.
    world.kubectl(&["delete", "configmap", "settings"]);
    world.mirror(&["--quiet"]);
    assert_eq!(world.files().len(), 2);
    assert_eq!(world.git(&["rev-list", "--count", "main"]).trim(), "2");
}

#[test]
fn secrets_are_redacted_unless_the_user_says_otherwise() {
    let world = World::new("redact");
    let secret = format!("main:core/v1/secrets/{}/db.yaml", world.namespace);
    let run = world.mirror(&[]);
    let file = world.git(&["show", &secret]);
    assert!(
        file.contains("password: ") && file.contains("configbutler.ai/redacted"),
        "{file}"
    );
    let all = world.git(&["log", "-p", "--format=%B"]) + &run.stdout + &run.stderr;
    assert!(
        !all.contains("aHVudGVyMg") && !all.contains("hunter2"),
        "{all}"
    );
    // Whoever applies the folder with kustomize does not write hashes over passwords.
    world.shell(
        "git clone -q backup work; cd work; { echo resources:; git ls-files '*.yaml' | sed 's/^/- /'; } \
         > kustomization.yaml",
    );
    let applied = world.kubectl(&["kustomize", &world.path("work")]);
    assert!(applied.contains("kind: ConfigMap"), "{applied}");
    assert!(!applied.contains("kind: Secret"), "{applied}");
    world.mirror(&["--secrets", "as-is"]);
    assert!(world.git(&["show", &secret]).contains("aHVudGVyMg=="));
    world.mirror(&["--branch", "without", "--secrets", "skip"]);
    let listed = world.git(&["ls-tree", "-r", "--name-only", "without"]);
    assert!(!listed.contains("secrets"), "{listed}");
}

#[test]
fn what_is_mirrored_is_chosen_by_namespace_type_and_label() {
    let world = World::new("choose");
    world.kubectl(&["label", "configmap", "settings", "tier=front"]);
    let other = World::new("other");
    let names = format!("{},{}", world.namespace, other.namespace);
    let run = world.run(&[
        "mirror",
        "--repo",
        "two",
        "-n",
        &names,
        "--include",
        "configmaps",
        "--once",
        "--quiet",
    ]);
    assert_eq!(
        (run.code, &*run.stdout, &*run.stderr),
        (Some(0), "", ""),
        "{run:?}"
    );
    let run = world.run(&[
        "mirror",
        "--repo",
        "backup",
        "-n",
        &names,
        "--exclude",
        "secrets,deployments",
        "--selector",
        "tier in (front, back)",
        "--folder",
        "clusters/prod",
        "--once",
    ]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let ns = &world.namespace;
    assert_eq!(
        world.files(),
        [format!(
            "clusters/prod/core/v1/configmaps/{ns}/settings.yaml"
        )]
    );
}

#[test]
fn the_cluster_is_that_of_the_context_and_the_namespace_is_that_of_the_context_too() {
    let world = World::new("contexts");
    let text = std::fs::read_to_string(world.plane.kubeconfig(User::Alice)).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    let mut here = config["contexts"][0].clone();
    here["name"] = "here".into();
    here["context"]["namespace"] = world.namespace.clone().into();
    config["clusters"]
        .as_array_mut()
        .unwrap()
        .push(serde_json::json!({
            "name": "away", "cluster": {"server": "https://127.0.0.1:1"},
        }));
    let mut away = here.clone();
    away["name"] = "away".into();
    away["context"]["cluster"] = "away".into();
    config["contexts"] = serde_json::json!([here, away]);
    config["current-context"] = "away".into();
    let path = world.path("two.yaml");
    std::fs::write(&path, config.to_string()).unwrap();
    let once = [
        "mirror",
        "--repo",
        "backup",
        "--once",
        "--kubeconfig",
        &path,
    ];
    assert_eq!(world.run(&once).code, Some(12));
    let run = world.run(&[&once[..], &["--context", "here"]].concat());
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(world.files().len(), 3);
}

#[test]
fn every_namespace_and_what_lives_in_none() {
    let world = World::new("all");
    let run = world.run(&["mirror", "--repo", "backup", "-A", "--once", "--json"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let told: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(told["outcome"], "confirmed");
    // Other tests change the cluster meanwhile, which may be pushed on top of it.
    let commit = told["commit"].as_str().unwrap();
    world.git(&["merge-base", "--is-ancestor", commit, "main"]);
    assert!(told["objects"].as_u64() > Some(3), "{told}");
    let files = world.files();
    let has = |path: &str| files.iter().any(|file| file == path);
    assert!(has(&format!(
        "apps/v1/deployments/{}/web.yaml",
        world.namespace
    )));
    assert!(
        files
            .iter()
            .any(|file| file.contains("/clusterrolebindings/")),
        "{files:?}"
    );
}

#[test]
fn types_that_may_not_be_listed_are_named_and_their_files_stay() {
    let world = World::new("rights");
    world.mirror(&["--include", "configmaps,deployments"]);
    let before = world.files();
    // Nobody is let in by default, so this user may read ConfigMaps and nothing else.
    let reader = format!("--user=reader-of-{}", world.namespace);
    world.kubectl(&[
        "create",
        "role",
        "reader",
        "--verb=get,list,watch",
        "--resource=configmaps",
    ]);
    world.kubectl(&["create", "rolebinding", "reader", "--role=reader", &reader]);
    let user = format!("reader-of-{}", world.namespace);
    await_right(
        &world.plane,
        &user,
        &["list", "configmaps", "-n", &world.namespace],
    );
    world.kubectl(&["delete", "configmap", "settings"]);
    let kubeconfig = world.impersonating(&user);
    let run = world.run(&[
        "mirror",
        "--repo",
        "backup",
        "-n",
        &world.namespace,
        "--include",
        "configmaps,deployments",
        "--once",
        "--kubeconfig",
        &kubeconfig,
    ]);
    assert_eq!(run.code, Some(2), "{run:?}");
    world.golden("mirror-partial", &run.stdout);
    let deployments: Vec<_> = before
        .iter()
        .filter(|file| file.contains("deployments"))
        .collect();
    assert_eq!(world.files().iter().collect::<Vec<_>>(), deployments);
}

#[test]
fn a_follower_pushes_what_changes_until_it_is_stopped() {
    let world = World::new("follow");
    let arguments = ["mirror", "--repo", "backup", "-n", &world.namespace];
    let child = world
        .binary(&arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let follower = Started::of(child.unwrap());
    let await_files = |count: usize| {
        wait::until_blocking(format!("{count} files"), SOON, || {
            let listed = std::process::Command::new("git")
                .args(["ls-tree", "-r", "--name-only", "main"])
                .current_dir(world.folder.path().join("backup"))
                .output();
            let listed =
                String::from_utf8(listed.map_err(|error| error.to_string())?.stdout).unwrap();
            if listed.lines().count() == count {
                Ok(())
            } else {
                Err(listed)
            }
        })
        .unwrap_or_else(|error| panic!("{error}"));
    };
    await_files(3);
    world.kubectl(&["create", "configmap", "more", "--from-literal=a=b"]);
    await_files(4);
    follower.signal(Signal::INT);
    let run = follower.end();
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(
        run.stderr
            .contains("ending; what is waiting is pushed first"),
        "{run:?}"
    );
}

#[test]
fn a_terminal_shows_bars_and_the_rest_of_the_world_lines() {
    let world = World::new("bars");
    let arguments = [
        "mirror",
        "--repo",
        "backup",
        "-n",
        &world.namespace,
        "--once",
    ];
    let (code, seen) = OnTerminal::start(world.binary(&arguments)).end();
    assert_eq!(code, Some(0), "{seen}");
    assert!(seen.contains("listing  ") && seen.contains('━'), "{seen:?}");
    assert!(seen.contains("3 objects in branch main of"), "{seen:?}");
    let lines = world.mirror(&[]);
    assert!(
        !lines.stderr.contains('\u{1b}') && lines.stderr.contains("listed "),
        "{lines:?}"
    );
    let mut quiet = world.binary(&arguments);
    quiet.arg("--quiet");
    let (code, seen) = OnTerminal::start(quiet).end();
    assert_eq!((code, &*seen), (Some(0), ""));
}

#[test]
fn a_branch_that_is_not_checked_out_can_be_used_beside_a_work_tree() {
    let world = World::new("tree");
    let git = |arguments: &[&str]| {
        let mut git = std::process::Command::new("git");
        reverser_testkit::command::run(git.current_dir(world.folder.path()).args(arguments))
    };
    git(&["init", "-q", "-b", "main", "backup"]);
    let mut arguments = vec![
        "mirror",
        "--repo",
        "backup",
        "-n",
        &world.namespace,
        "--once",
    ];
    let refused = world.run(&arguments);
    assert_eq!(refused.code, Some(22), "{refused:?}");
    world.golden("mirror-checked-out", &refused.stderr);
    arguments.extend(["--branch", "cluster"]);
    let run = world.run(&arguments);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(
        world
            .git(&["ls-tree", "-r", "--name-only", "cluster"])
            .lines()
            .count(),
        3
    );
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[test]
fn files_of_a_type_that_is_gone_go_in_one_pass() {
    let world = World::empty("gone-type");
    let definition = |name: &str| {
        let versions = r#"[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":
            {"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]"#;
        format!(
            r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
            "metadata":{{"name":"{name}.gone.example.com"}},"spec":{{"group":"gone.example.com",
            "scope":"Namespaced","names":{{"plural":"{name}","kind":"{name}"}},"versions":{versions}}}}}"#
        )
    };
    let apply = |text: &str| {
        let file = world.path("object.json");
        std::fs::write(&file, text).unwrap();
        world.kubectl(&["apply", "-f", &file]);
    };
    apply(&definition("parcels"));
    world.plane.await_kinds(["parcels.gone.example.com"]);
    apply(r#"{"apiVersion":"gone.example.com/v1","kind":"parcels","metadata":{"name":"one"}}"#);
    world.kubectl(&["create", "configmap", "stays", "--from-literal=a=b"]);
    world.mirror(&["--include", "*"]);
    assert_eq!(world.files().len(), 2);
    world.kubectl(&["delete", "crd", "parcels.gone.example.com"]);
    wait::until_blocking("the type to be served no more", SOON, || {
        let group = "--api-group=gone.example.com";
        let served = world.kubectl(&["api-resources", group, "-o", "name"]);
        served.trim().is_empty().then_some(()).ok_or(served)
    })
    .unwrap();
    world.mirror(&["--include", "*"]);
    assert_eq!(world.files(), ["core/v1/configmaps/gone-type/stays.yaml"]);
}
