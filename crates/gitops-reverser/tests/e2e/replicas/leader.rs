//! Whatever becomes of the leader, another replica goes on, and the branch never goes back.

use std::time::Duration;

use reverser_testkit::control_plane::User;
use reverser_testkit::fault_proxy::{Fault, FaultProxy};
use reverser_testkit::{command, wait};

use super::front::Selects;
use super::history::{self, Account};
use super::load::{Load, Work};
use super::stage::{IN_TIME, LEASE, Stage};

/// Between two changes.
const EVERY: Duration = Duration::from_millis(100);

/// Waits until so many more changes were made.
pub(super) fn more_changes(load: &Load, changes: usize) {
    let goal = load.changes() + changes;
    let reached = || (load.changes() >= goal).then_some(()).ok_or(load.changes());
    wait::until_blocking("more changes", IN_TIME, reached).unwrap();
}

/// Waits until something is committed that is not now.
pub(super) fn next_commit(stage: &Stage) {
    let before = stage.cluster.commits();
    let committed = || (stage.cluster.commits() > before).then_some(());
    wait::until_blocking("a commit", IN_TIME, committed).unwrap();
}

/// Stops the load, and looks at what was written.
#[track_caller]
pub(super) fn settle(stage: &Stage, load: Load, what: &str) -> Account {
    next_commit(stage);
    let changes = load.changes();
    let deletions = load.stop();
    stage.await_mirror();
    let account = history::assert_honest(&history::read(stage), &deletions);
    let Account {
        gap,
        changes: written,
        unknown,
    } = account;
    let share = account.share();
    println!(
        "{what}: {changes} changes, {written} written, {unknown} without author ({share} % with), the \
         longest time without a commit was {gap:?}"
    );
    account
}

#[test]
fn a_leader_that_ends_hands_over_at_once_and_one_that_is_killed_after_its_lease() {
    let mut stage = Stage::with_webhook("leader-ends", Selects::Leader);
    for _ in 0..3 {
        stage.add();
    }
    let (first, _) = stage.await_leader(&[0, 1, 2]);
    stage.await_asked();
    let load = Load::start(&stage, EVERY, Work::Deletions);
    next_commit(&stage);
    let labelled = || (stage.labelled_pods() == format!("replica-{first}")).then_some(());
    wait::until_blocking("the leader's pod has the label", IN_TIME, labelled).unwrap();

    stage.replicas[first].stop().unwrap();
    let rest: Vec<usize> = (0..3).filter(|replica| *replica != first).collect();
    let (second, took) = stage.await_leader(&rest);
    println!("after SIGTERM another replica leads within {took:?}");
    next_commit(&stage);
    more_changes(&load, 10);

    stage.replicas[second].kill().unwrap();
    let last: Vec<usize> = rest
        .into_iter()
        .filter(|replica| *replica != second)
        .collect();
    let (third, took) = stage.await_leader(&last);
    println!("after kill -9 another replica leads within {took:?}, with leases of {LEASE:?}");
    let labelled = || (stage.labelled_pods() == format!("replica-{third}")).then_some(());
    wait::until_blocking("only the leader's pod has the label", IN_TIME, labelled).unwrap();
    settle(&stage, load, "SIGTERM and kill -9");
}

#[test]
fn a_leader_that_was_stopped_for_long_writes_nothing_when_it_wakes_and_ends() {
    let mut stage = Stage::with_webhook("leader-sleeps", Selects::Leader);
    stage.add();
    stage.add();
    let (first, _) = stage.await_leader(&[0, 1]);
    stage.await_asked();
    let load = Load::start(&stage, EVERY, Work::Deletions);
    next_commit(&stage);
    stage.replicas[first].pause().unwrap();
    let (_, took) = stage.await_leader(&[1 - first]);
    println!("after SIGSTOP another replica leads within {took:?}");
    next_commit(&stage);
    more_changes(&load, 30);
    stage.replicas[first].resume().unwrap();
    assert_eq!(stage.await_end(first), Some(1));
    stage.log_has(first, "leadership is lost");
    settle(&stage, load, "SIGSTOP");
}

#[test]
fn a_leader_that_cannot_renew_its_lease_ends() {
    let mut stage = Stage::with_webhook("leader-cut-off", Selects::Leader);
    let proxy = FaultProxy::start(&stage.cluster.plane.kube_config(User::Admin));
    stage.add_with(Some(&proxy), &[]);
    stage.await_leader(&[0]);
    stage.add();
    stage.await_asked();
    let load = Load::start(&stage, EVERY, Work::Deletions);
    next_commit(&stage);
    proxy.fault("/leases/", Fault::Hang, usize::MAX);
    assert_eq!(stage.await_end(0), Some(1));
    stage.log_has(0, "leadership is lost: it could not be renewed in time");
    let (_, took) = stage.await_leader(&[1]);
    println!("after its end another replica leads within {took:?}");
    settle(&stage, load, "lease calls cut");
}

#[test]
fn a_lease_that_is_stolen_ends_the_leader_and_one_that_is_deleted_is_made_again() {
    let mut stage = Stage::with_webhook("lease-stolen", Selects::Leader);
    stage.add();
    stage.add();
    let (first, _) = stage.await_leader(&[0, 1]);
    stage.await_asked();
    let load = Load::start(&stage, EVERY, Work::Deletions);
    next_commit(&stage);
    let lease = |arguments: &[&str]| {
        let mut kubectl = stage.cluster.plane.kubectl(User::Admin);
        command::run(kubectl.args(["-n", "default"]).args(arguments));
    };
    lease(&["delete", "lease", "gitops-reverser-leader-main"]);
    let (second, took) = stage.await_leader(&[0, 1]);
    println!("a deleted Lease is there again within {took:?}");
    more_changes(&load, 20);
    // As if the clock of whoever renews it had jumped.
    for time in ["1999-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"] {
        let jump = format!(r#"{{"spec":{{"renewTime":"{time}","acquireTime":"{time}"}}}}"#);
        let name = "gitops-reverser-leader-main";
        lease(&["patch", "lease", name, "--type=merge", "-p", &jump]);
        more_changes(&load, 10);
        assert_eq!(stage.holder(), Some(second), "times are for people");
    }
    if second != first {
        assert_eq!(stage.await_end(first), Some(1));
        stage.replicas[first].start().unwrap();
    }
    let stolen = r#"{"spec":{"holderIdentity":"thief"}}"#;
    lease(&[
        "patch",
        "lease",
        "gitops-reverser-leader-main",
        "--type=merge",
        "-p",
        stolen,
    ]);
    assert_eq!(stage.await_end(second), Some(1));
    stage.log_has(second, "leadership is lost: thief leads now");
    let (_, took) = stage.await_leader(&[1 - second]);
    println!("after a thief that does not renew, another replica leads within {took:?}");
    settle(&stage, load, "Lease deleted and stolen");
}
