use serde_json::Value;

use super::world::World;

/// A Deployment that was created, scaled and deleted.
fn story(name: &str) -> World {
    let world = World::empty(name);
    world.kubectl(&["create", "deployment", "web", "--image=nginx:1.29"]);
    world.mirror(&[]);
    world.kubectl(&["scale", "deployment", "web", "--replicas=3"]);
    world.mirror(&[]);
    world
}

#[test]
fn log_tells_who_changed_an_object_and_what() {
    let world = story("garden");
    let log = |more: &[&str]| {
        let mut arguments = vec!["log", "deployment/web", "--repo", "backup"];
        arguments.extend(more);
        let run = world.run(&arguments);
        assert_eq!(run.code, Some(0), "{run:?}");
        run.stdout
    };
    world.golden("log", &log(&[]));
    world.golden("log-patch", &log(&["-p", "-n", &world.namespace]));
    let told: Value = serde_json::from_str(&log(&["--json"])).unwrap();
    let commits = told["commits"].as_array().unwrap();
    assert_eq!(commits.len(), 2);
    assert_eq!(commits[0]["attribution"], "reconcile");
    assert_eq!(
        commits[0]["commit"].as_str(),
        Some(world.git(&["rev-parse", "main"]).trim())
    );
    // Also of an object that is gone.
    world.kubectl(&["delete", "deployment", "web"]);
    world.mirror(&[]);
    assert_eq!(log(&[]).lines().count(), 6);
}

#[test]
fn a_name_that_several_objects_have_is_asked_about() {
    let world = story("several");
    let other = World::new("several-too");
    let names = format!("{},{}", world.namespace, other.namespace);
    let arguments = ["mirror", "--repo", "backup", "-n", &names, "--once"];
    assert_eq!(world.run(&arguments).code, Some(0));
    let run = world.run(&["log", "deploy/web", "--repo", "backup"]);
    assert_eq!(run.code, Some(16), "{run:?}");
    assert!(
        run.stderr
            .contains("2 objects are called so; say which with -n"),
        "{run:?}"
    );
    let run = world.run(&[
        "log",
        "deploy/web",
        "--repo",
        "backup",
        "-n",
        &other.namespace,
    ]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let run = world.run(&["log", "deploy/nobody", "--repo", "backup"]);
    assert_eq!(run.code, Some(16), "{run:?}");
}

#[test]
fn blame_tells_for_each_line() {
    let world = story("library");
    let run = world.run(&["blame", "deploy/web", "--repo", "backup"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    world.golden("blame", &run.stdout);
    let first = world.git(&[
        "rev-list",
        "--max-parents=0",
        "--abbrev=10",
        "--abbrev-commit",
        "main",
    ]);
    let second = world.git(&["rev-parse", "--short=10", "main"]);
    for line in run.stdout.lines() {
        let expected = if line.ends_with("replicas: 3") {
            &second
        } else {
            &first
        };
        assert!(line.starts_with(expected.trim()), "{line}");
    }
}

#[test]
fn a_repository_on_a_server_is_read_with_its_past() {
    let world = story("remote");
    let front = reverser_testkit::git_server::HttpFront::start(world.folder.path());
    let url = front.url("backup");
    let run = world.run(&["log", "deploy/web", "--repo", &url]);
    assert_eq!(
        (run.code, run.stdout.lines().count()),
        (Some(0), 5),
        "{run:?}"
    );
    let run = world.run(&["verify", "--repo", &url, "-n", &world.namespace]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let run = world.run(&["log", "deploy/web", "--repo", &url, "--branch", "nope"]);
    assert_eq!(run.code, Some(20), "{run:?}");
}
