//! What ends a batch, each cause by itself, and how much is written at once: by the flags.
//!
//! The other limits are set beyond the patience of the test, so that only one cause is left.

use std::time::Duration;

use reverser_testkit::git_server::BareRepository;
use reverser_testkit::wait;
use serde_json::{Value, json};

use super::installation::{Installation, soon};

/// Shorter than the longest time of quiet that the flags allow, and far longer than a push takes.
const BEFORE_QUIET: Duration = Duration::from_secs(50);

/// A look at the remote writes what waits, whatever the limits say.
const SELDOM: Duration = Duration::from_mins(10);

/// Limits that nothing in a test reaches.
const FAR: [&str; 4] = [
    "--git-batch-max-files=100000",
    "--git-batch-max-bytes-mib=1024",
    "--git-batch-max-wait-sec=3600",
    "--git-batch-quiet-ms=60000",
];

/// An operator whose destination is in sync, with one limit that is near.
fn with_limit(name: &str, near: &str) -> Installation {
    let flag = near.split_once('=').map_or(near, |(flag, _)| flag);
    let far = FAR.iter().filter(|far| !far.starts_with(flag)).copied();
    let mut world = Installation::prepare(name);
    world.configure(&far.chain([near]).collect::<Vec<_>>());
    world.settings.poll = SELDOM;
    world.apply(&world.rule("rule", &json!([{"resources": ["configmaps"]}])));
    world.run();
    world.await_ready("gitdestination/prod", "True", "InSync");
    world
}

#[track_caller]
fn await_commits(world: &Installation, count: usize) {
    wait::until_blocking("commits", BEFORE_QUIET, || {
        let seen = world.commits();
        (seen >= count).then_some(()).ok_or(seen.to_string())
    })
    .unwrap_or_else(|error| panic!("{error}"));
}

fn config_maps(world: &Installation, count: usize, value: &str) -> Vec<Value> {
    (0..count)
        .map(|index| world.config_map(&format!("map-{index}"), value))
        .collect()
}

#[test]
fn enough_files_end_a_batch() {
    let world = with_limit("batch-files", "--git-batch-max-files=20");
    world.create_all(&config_maps(&world, 20, "x"));
    await_commits(&world, 1);
    // A definition that others make meanwhile counts as a change too.
    let written = world.names().len();
    assert!(written > 10, "{written}");
    world.finish();
}

#[test]
fn enough_bytes_end_a_batch() {
    let world = with_limit("batch-bytes", "--git-batch-max-bytes-mib=1");
    world.create_all(&config_maps(&world, 2, &"x".repeat(600 << 10)));
    await_commits(&world, 1);
    assert_eq!(world.names().len(), 2);
    world.finish();
}

#[test]
fn a_quiet_moment_ends_a_batch() {
    let world = with_limit("batch-quiet", "--git-batch-quiet-ms=200");
    world.create_all(&config_maps(&world, 3, "x"));
    await_commits(&world, 1);
    soon("all of them", || {
        let names = world.names();
        (names.len() == 3).then_some(()).ok_or(format!("{names:?}"))
    });
    world.finish();
}

#[test]
fn under_constant_change_the_longest_wait_ends_a_batch() {
    let mut world = Installation::prepare("batch-age");
    let near = ["--git-batch-max-wait-sec=5", "--git-batch-quiet-ms=5000"];
    world.configure(&[&FAR[..2], &near].concat());
    world.settings.poll = SELDOM;
    world.apply(&world.rule("rule", &json!([{"resources": ["configmaps"]}])));
    world.run();
    world.await_ready("gitdestination/prod", "True", "InSync");
    let mut round = 0;
    wait::until_blocking("a commit in the middle of changes", BEFORE_QUIET, || {
        round += 1;
        world.create_all(&[world.config_map(&format!("map-{round}"), "x")]);
        world.commits() > 0
    })
    .unwrap_or_else(|error| panic!("{error}"));
    world.finish();
}

#[test]
fn a_repository_sets_how_many_files_end_a_batch() {
    let world = with_limit("batch-own", "--git-batch-max-files=100000");
    world.apply(&world.repo("repo", &json!({"push": {"maxCommits": 3}})));
    // Taken once the operator has seen it: until then the files only gather.
    let mut made = 0;
    wait::until_blocking("a commit", BEFORE_QUIET, || {
        made += 1;
        world.create_all(&[world.config_map(&format!("map-{made}"), "x")]);
        world.commits() > 0
    })
    .unwrap_or_else(|error| panic!("{error}"));
    world.finish();
}

/// A hook that notes when two pushes with the same lock run at the same time.
fn note_overlaps(world: &Installation, repository: &BareRepository, lock: &str) {
    let folder = world.folder.path().display();
    repository.hook(
        "pre-receive",
        &format!(
            "mkdir {folder}/{lock} || echo two >> {folder}/overlaps; sleep 0.3; \
             rmdir {folder}/{lock}; exit 0"
        ),
    );
}

/// Two branches of each of two repositories, with something to write for all of them at the start.
fn four_branches(name: &str, flag: &str, locks: [&str; 2]) {
    let mut world = Installation::prepare(name);
    world.configure(&[flag]);
    let second = BareRepository::create(world.folder.path(), "second.git");
    note_overlaps(&world, &world.repository, locks[0]);
    note_overlaps(&world, &second, locks[1]);
    let url = format!("file://{}", second.path().display());
    world.apply(&world.repo("second", &json!({"repoUrl": url})));
    world.create_all(&config_maps(&world, 3, "x"));
    let branches = [
        ("repo", "a"),
        ("repo", "b"),
        ("second", "c"),
        ("second", "d"),
    ];
    for (repo, branch) in branches {
        let change = json!({"branch": branch, "repoRef": {"name": repo}});
        world.apply(&world.destination(branch, branch, &change));
        world.apply(&world.rule_to(branch, branch, &json!([{"resources": ["configmaps"]}])));
    }
    world.run();
    for (repo, branch) in branches {
        world.await_ready(&format!("gitdestination/{branch}"), "True", "InSync");
        let repository = if repo == "repo" {
            &world.repository
        } else {
            &second
        };
        let mut files = repository.files(branch);
        files.retain(|path, _| !path.contains("/.configbutler/"));
        assert_eq!(files.len(), 3, "{branch}");
    }
    assert!(!world.folder.path().join("overlaps").exists());
    world.finish();
}

#[test]
fn no_more_branches_are_written_at_once_than_the_flags_allow() {
    four_branches("workers", "--workers-max-global=1", ["all", "all"]);
    four_branches("workers-repo", "--workers-max-per-repo=1", ["one", "other"]);
}
