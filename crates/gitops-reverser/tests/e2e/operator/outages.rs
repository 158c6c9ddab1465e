//! A Git server that is down, that hangs, and one that has nothing to do.

use std::fs;
use std::time::{Duration, Instant};

use reverser_git::CancelToken;
use reverser_testkit::git_server::{Fault, HttpFront, Request};
use serde_json::json;

use super::installation::{Installation, soon};
use super::oracle::Expected;

/// As often as it takes.
const ALWAYS: usize = usize::MAX;

/// Three ConfigMaps, mirrored by way of a server that can fail.
fn mirrored(name: &str) -> (Installation, HttpFront) {
    let mut world = Installation::prepare(name);
    let server = HttpFront::start(world.folder.path());
    world.apply(&world.repo("repo", &json!({"repoUrl": server.url("repo.git")})));
    for name in ["a", "b", "c"] {
        world.apply(&world.config_map(name, "x"));
    }
    world.apply(&world.rule("rule", &json!([{"resources": ["configmaps"]}])));
    world.run();
    world.await_mirror(&[Expected::config_maps(&world.namespace)]);
    (world, server)
}

#[track_caller]
fn await_waiting(world: &Installation, files: &str) {
    let waiting = "jsonpath={.status.waitingFiles}";
    soon(&format!("{files} files that wait"), || {
        let seen = world.kubectl(&["get", "gitdestination", "prod", "-o", waiting]);
        (seen == files).then_some(()).ok_or(seen)
    });
}

#[test]
fn while_the_server_is_down_files_are_counted_that_wait_and_not_their_changes() {
    let (world, server) = mirrored("waiting");
    await_waiting(&world, "0");
    server.fault(Request::Any, Fault::Status(503), ALWAYS);
    world.await_reconciling(&["gitrepoconfig/repo"], "Unreachable");
    world.await_reconciling(&["gitdestination/prod"], "Unreachable");
    await_waiting(&world, "0");
    for round in 0..3 {
        for name in ["a", "b", "c"] {
            world.apply(&world.config_map(name, &format!("round-{round}")));
        }
    }
    await_waiting(&world, "3");
    server.heal();
    world.await_mirror(&[Expected::config_maps(&world.namespace)]);
    await_waiting(&world, "0");
    world.finish();
}

#[test]
fn looks_at_the_remote_of_a_quiet_cluster_push_nothing() {
    let (world, server) = mirrored("quiet");
    let refs = || world.repository.git(&["for-each-ref"]);
    let (before, seen_before) = (refs(), server.seen().len());
    soon("three looks at the remote", || {
        let seen = server.seen().split_off(seen_before);
        let looks = seen.iter().filter(|line| line.contains("info/refs"));
        let looks = looks.count();
        (looks >= 3).then_some(()).ok_or(looks.to_string())
    });
    let seen = server.seen().split_off(seen_before);
    assert!(
        !seen.iter().any(|line| line.contains("receive-pack")),
        "{seen:?}"
    );
    assert_eq!(refs(), before);
    world.finish();
}

/// The programs that work for an operator with this folder.
fn programs(world: &Installation) -> Vec<String> {
    let mark = format!(
        "GITOPS_REVERSER_MIRROR={}",
        world.settings.work_dir.display()
    );
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let marked = processes.filter(|process| {
        let environment = fs::read(process.path().join("environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|variable| variable.starts_with(mark.as_bytes()))
    });
    let command = |process: fs::DirEntry| fs::read_to_string(process.path().join("cmdline"));
    marked.filter_map(|process| command(process).ok()).collect()
}

#[test]
fn an_operator_that_is_to_end_cuts_off_a_push_that_hangs_and_the_next_one_makes_up_for_it() {
    let (mut world, server) = mirrored("hanging");
    server.fault(Request::Push, Fault::Hang, ALWAYS);
    world.apply(&world.config_map("a", "late"));
    soon("a push", || {
        let running = programs(&world);
        let pushes = running.iter().any(|line| line.contains("push"));
        pushes.then_some(()).ok_or(format!("{running:?}"))
    });
    let start = Instant::now();
    world.stop();
    // Left alone, the push would go on for five minutes.
    let took = start.elapsed();
    assert!(took < Duration::from_secs(90), "{took:?}");
    soon("the end of the push", || match programs(&world) {
        running if running.is_empty() => Ok(()),
        running => Err(format!("{running:?}")),
    });

    server.heal();
    world.settings.cut_off = CancelToken::new();
    world.run();
    world.await_file("a", "value: late");
    world.await_mirror(&[Expected::config_maps(&world.namespace)]);
    world.finish();
}
