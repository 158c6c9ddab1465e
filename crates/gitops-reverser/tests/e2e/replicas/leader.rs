//! Whatever becomes of the leader, another replica goes on, and the branch never goes back: while
//! people work, with three replicas and with the two that are left.

use std::time::{Duration, Instant};

use reverser_testkit::control_plane::User;
use reverser_testkit::fault_proxy::{Fault, FaultProxy};
use reverser_testkit::{command, wait};

use super::front::Selects;
use super::history::{self, Account};
use super::load::{Load, Work, Worked};
use super::stage::{IN_TIME, LEASE, Peculiarity, Stage, promises_are_held};

/// Between two changes.
pub(super) const EVERY: Duration = Duration::from_millis(100);
/// So long a leader sleeps.
const ASLEEP: Duration = Duration::from_mins(1);
/// What may be added to a take-over's time by looking for it.
const LOOKING: Duration = Duration::from_millis(500);

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

/// Three replicas, of which the one that is told leads, and people who work.
fn three(name: &str) -> (Stage, Load, usize) {
    let mut stage = Stage::with_webhook(name, Selects::Leader);
    for _ in 0..3 {
        stage.add();
    }
    let (leader, load) = begin(&stage, &[0, 1, 2]);
    (stage, load, leader)
}

/// Waits until one of these leads, and lets people work.
pub(super) fn begin(stage: &Stage, replicas: &[usize]) -> (usize, Load) {
    let (leader, _) = stage.await_leader(replicas);
    for replica in replicas {
        stage.await_ready(*replica);
    }
    stage.await_asked();
    let load = Load::start(stage, EVERY, Work::Deletions);
    next_commit(stage);
    (leader, load)
}

/// Those that are not this one.
fn others(replicas: &[usize], one: usize) -> Vec<usize> {
    let others = replicas.iter().copied();
    others.filter(|replica| *replica != one).collect()
}

/// Stops the load, and looks at what was written.
#[track_caller]
pub(super) fn settle(stage: &Stage, load: Load, what: &str) -> Account {
    next_commit(stage);
    let changes = load.changes();
    let Worked { deletions, gap } = load.stop();
    stage.await_mirror();
    stage.assert_allowed();
    let account = history::assert_honest(&history::read(stage), &deletions);
    let Account {
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
    let (stage, load, mut leader) = three("leader-ends");
    let mut replicas = vec![0, 1, 2];
    let kill = |leader: usize| stage.replicas[leader].kill().unwrap();
    let stop = |leader: usize| stage.replicas[leader].stop().unwrap();
    // One that has ended comes back, so that three are there again, and then two.
    for (what, end, promised) in [
        ("SIGTERM", &stop as &dyn Fn(usize), Duration::from_secs(2)),
        (
            "kill -9",
            &kill as &dyn Fn(usize),
            LEASE + Duration::from_secs(2),
        ),
    ] {
        for left in [3, 2] {
            end(leader);
            let rest = others(&replicas, leader);
            let (next, took) = stage.await_leader(&rest);
            println!("{what}, {left} replicas: another leads within {took:?}");
            assert!(
                !promises_are_held() || took < promised + LOOKING,
                "{took:?}"
            );
            let labelled = || (stage.labelled_pods() == format!("replica-{next}")).then_some(());
            wait::until_blocking("only the leader's pod has the label", IN_TIME, labelled).unwrap();
            next_commit(&stage);
            more_changes(&load, 10);
            replicas = rest;
            leader = next;
        }
        for replica in others(&[0, 1, 2], leader) {
            stage.replicas[replica].start().unwrap();
            stage.await_ready(replica);
        }
        replicas = vec![0, 1, 2];
    }
    settle(&stage, load, "SIGTERM and kill -9");
}

#[test]
fn a_leader_that_sleeps_for_a_minute_writes_nothing_when_it_wakes_and_ends() {
    let (stage, load, first) = three("leader-sleeps");
    let slept = Instant::now();
    stage.replicas[first].pause().unwrap();
    let rest = others(&[0, 1, 2], first);
    let (second, took) = stage.await_leader(&rest);
    println!("SIGSTOP, 3 replicas: another leads within {took:?}");
    next_commit(&stage);
    more_changes(&load, 10);
    let slept_too = Instant::now();
    stage.replicas[second].pause().unwrap();
    let (third, took) = stage.await_leader(&others(&rest, second));
    println!("SIGSTOP, 2 replicas: another leads within {took:?}");
    next_commit(&stage);
    for (sleeper, since) in [(first, slept), (second, slept_too)] {
        while since.elapsed() < ASLEEP {
            more_changes(&load, 5);
        }
        stage.replicas[sleeper].resume().unwrap();
        assert_eq!(stage.await_end(sleeper), Some(1));
        stage.log_has(sleeper, "leadership is lost");
        assert_eq!(stage.holder(), Some(third));
    }
    settle(&stage, load, "SIGSTOP for a minute");
}

#[test]
fn a_leader_that_cannot_renew_its_lease_ends() {
    let mut stage = Stage::with_webhook("leader-cut-off", Selects::Leader);
    let admin = stage.cluster.plane.kube_config(User::Admin);
    let proxies = [(); 3].map(|()| FaultProxy::start(&admin));
    for proxy in &proxies {
        stage.add_with(&Peculiarity {
            proxy: Some(proxy),
            ..Peculiarity::default()
        });
    }
    let mut replicas = vec![0, 1, 2];
    let (mut leader, load) = begin(&stage, &replicas);
    for left in [3, 2] {
        proxies[leader].fault("/leases/", Fault::Hang, usize::MAX);
        assert_eq!(stage.await_end(leader), Some(1));
        stage.log_has(
            leader,
            "leadership is lost: it could not be renewed in time",
        );
        replicas = others(&replicas, leader);
        let took;
        (leader, took) = stage.await_leader(&replicas);
        println!("lease calls cut, {left} replicas: after its end another leads within {took:?}");
        next_commit(&stage);
    }
    settle(&stage, load, "lease calls cut");
}

#[test]
fn a_lease_that_is_stolen_ends_the_leader_and_one_that_is_deleted_is_made_again() {
    let (stage, load, mut leader) = three("lease-stolen");
    let mut replicas = vec![0, 1, 2];
    let lease = |arguments: &[&str]| {
        let mut kubectl = stage.cluster.plane.kubectl(User::Admin);
        command::run(kubectl.args(["-n", &stage.home]).args(arguments));
    };
    let name = "gitops-reverser-leader-main";
    for left in [3, 2] {
        lease(&["delete", "lease", name]);
        let (next, took) = stage.await_leader(&replicas);
        println!("Lease deleted, {left} replicas: it is there again within {took:?}");
        more_changes(&load, 10);
        if next != leader {
            assert_eq!(stage.await_end(leader), Some(1));
            stage.replicas[leader].start().unwrap();
            stage.await_ready(leader);
        }
        let stolen = r#"{"spec":{"holderIdentity":"thief"}}"#;
        lease(&["patch", "lease", name, "--type=merge", "-p", stolen]);
        assert_eq!(stage.await_end(next), Some(1));
        stage.log_has(next, "leadership is lost: thief leads now");
        replicas = others(&replicas, next);
        let took;
        (leader, took) = stage.await_leader(&replicas);
        println!(
            "Lease stolen, {left} replicas: the thief does not renew, another leads within {took:?}"
        );
        next_commit(&stage);
    }
    settle(&stage, load, "Lease deleted and stolen");
}
