//! An installation that sleeps in the middle of an attempt, and wakes when its turn is over.

use std::time::Instant;

use reverser_testkit::control_plane::User;
use reverser_testkit::git_server::{Fault, FileChange, HttpFront, Request};
use reverser_testkit::{command, wait};
use serde_json::json;

use super::front::Selects;
use super::stage::{IN_TIME, LEASE, Peculiarity, Stage};

/// The fetch is over and the commit is not made when the process sleeps. Nobody else can stop it: it is
/// the only replica, so it has no leadership to lose, and the branch is where it was fetched.
#[test]
fn an_attempt_that_sleeps_through_its_turn_commits_nothing_when_it_wakes() {
    let mut stage = Stage::with_webhook("asleep", Selects::Leader);
    let cluster = &stage.cluster;
    let front = HttpFront::start(cluster.folder.path());
    let url = json!({"repoUrl": front.url("repo.git")});
    cluster.apply(&cluster.repo("repo", &url));
    stage.add_with(&Peculiarity {
        flags: &["--leader-elect=false"],
        ..Peculiarity::default()
    });
    let cluster = &stage.cluster;
    cluster.apply(&cluster.config_map("one", "1"));
    cluster.await_file("one", "value: \"1\"");
    let kubectl = |arguments: &[&str]| {
        let mut kubectl = cluster.plane.kubectl(User::Admin);
        command::run(kubectl.args(["-n", &stage.home]).args(arguments)).stdout
    };
    let leases = kubectl(&["get", "leases", "-o", "name"]);
    let mut leases = leases.lines();
    let lease = leases.find(|name| name.contains("-branch-")).unwrap();

    // A change that is known and waits, and a fetch that takes longer than the lease.
    front.fault(Request::Any, Fault::Status(503), usize::MAX);
    cluster.apply(&cluster.config_map("two", "2"));
    wait::until_blocking("the change to be known", IN_TIME, || {
        let objects = "jsonpath={.status.objects}";
        let objects = cluster.kubectl(&["get", "gitdestination", "prod", "-o", objects]);
        (objects == "2").then_some(()).ok_or(objects)
    })
    .unwrap();
    let seen = front.seen().len();
    front.fault_only(Request::FetchRefs, Fault::Delay(LEASE * 2), 1);
    let asks = |line: &String| line.contains("git-upload-pack");
    wait::until_blocking("an attempt", IN_TIME, || {
        front.seen()[seen..].iter().any(asks)
    })
    .unwrap();
    let (process, slept) = (&stage.replicas[0], Instant::now());
    process.pause().unwrap();
    let taken = r#"{"spec":{"holderIdentity":"elsewhere","leaseDurationSeconds":3600}}"#;
    kubectl(&["patch", lease, "--type=merge", "-p", taken]);
    let hand = [FileChange::Write("README", "by hand\n")];
    let tip = cluster.repository.commit("main", "by hand", &hand);
    wait::until_blocking("the lease to run out", IN_TIME, || {
        slept.elapsed() > LEASE * 2
    })
    .unwrap();

    process.resume().unwrap();
    let conflict = cluster.await_ready("gitdestination/prod", "False", "OwnershipConflict");
    assert!(conflict.contains("installation elsewhere"), "{conflict}");
    assert_eq!(cluster.repository.tip("main"), Some(tip));
    assert!(process.ended().unwrap().is_none());
    kubectl(&["delete", lease]);
    cluster.await_file("two", "value: \"2\"");
    cluster.await_ready("gitdestination/prod", "True", "InSync");
    cluster.repository.assert_sound("main");
}
