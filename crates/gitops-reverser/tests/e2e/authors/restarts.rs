//! An operator that does not run or does not see while people work, and a webhook that hears them.

use std::time::Duration;

use gitops_reverser::attribution::Attribution;
use gitops_reverser::telemetry::{Telemetry, metrics};
use reverser_core::attribution::StoreLimits;
use reverser_testkit::control_plane::User;
use reverser_testkit::fault_proxy::{Fault, FaultProxy};
use reverser_testkit::wait;

use super::stage::{SOON, Stage};
use crate::operator::installation::Installation;

/// An installation that remembers records however long a busy machine takes.
pub(super) fn patient(name: &str) -> Installation {
    let mut installation = Installation::prepare(name);
    let limits = StoreLimits {
        ttl: Duration::from_mins(10),
        ..StoreLimits::default()
    };
    let telemetry = Telemetry::register(&mut metrics::registry());
    installation.attribution = Attribution::new(limits, telemetry);
    installation
}

fn create(stage: &Stage, names: &[&str]) {
    for name in names {
        stage.expect(name, &stage.path(name), "alice exact", || {
            stage.applies(User::Alice, &stage.config_map(name, "start"), &["create"]);
        });
    }
}

fn patch(stage: &Stage, user: User, name: &str, value: &str) {
    let change = format!(r#"{{"data":{{"value":"{value}"}}}}"#);
    stage.does(user, &["patch", "configmap", name, "-p", &change]);
}

/// What several people do while nobody sees it, and what is said about it afterwards.
fn work_unseen(stage: &Stage) {
    patch(stage, User::Bob, "of-one", "middle");
    patch(stage, User::Bob, "of-one", "end");
    patch(stage, User::Alice, "of-two", "middle");
    patch(stage, User::Bob, "of-two", "end");
    patch(stage, User::Alice, "same", "other");
    patch(stage, User::Bob, "same", "start");
    stage.applies(User::Robot, &stage.config_map("new", "end"), &["create"]);
    stage.does(User::Bob, &["delete", "configmap", "gone"]);
}

fn expect_after_work(stage: &Stage) {
    let robot = "system:serviceaccount:default:robot coalesced";
    expect(stage, "of-one", &["bob coalesced", "alice exact"]);
    expect(stage, "of-two", &["unknown unknown", "alice exact"]);
    expect(stage, "new", &[robot]);
    // Nobody saw the object go, only that it is not there.
    expect(stage, "gone", &["unknown reconcile", "alice exact"]);
    expect(stage, "same", &["alice exact"]);
}

#[track_caller]
fn expect(stage: &Stage, name: &str, expected: &[&str]) {
    let path = stage.path(name);
    wait::until_blocking(format!("{expected:?} for {name}"), SOON, || {
        let log = stage.log(&path);
        (log == expected).then_some(()).ok_or(format!("{log:?}"))
    })
    .unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn after_a_restart_changes_of_one_user_name_them_and_those_of_several_name_nobody() {
    let mut stage = Stage::on(patient("restarted"));
    create(&stage, &["of-one", "of-two", "unheard", "gone", "same"]);
    stage.stop();
    work_unseen(&stage);
    stage.stop_serving();
    patch(&stage, User::Bob, "unheard", "end");
    stage.serve();
    patch(&stage, User::Bob, "unheard", "end of the end");
    stage.run();

    expect_after_work(&stage);
    expect(&stage, "unheard", &["unknown unknown", "alice exact"]);
    stage.assert_quiet();
    stage.await_asked();
    stage.expect("as before", &stage.path("of-two"), "alice exact", || {
        patch(&stage, User::Alice, "of-two", "after");
    });
}

#[test]
fn after_an_interrupted_watch_the_same_holds_and_then_every_change_has_its_author_again() {
    let mut installation = patient("interrupted");
    let proxy = FaultProxy::start(&installation.config);
    installation.config = proxy.kube_config(installation.config.clone());
    let stage = Stage::on(installation);
    create(&stage, &["of-one", "of-two", "gone", "same"]);
    proxy.fault("GET configmaps", Fault::Close, usize::MAX);
    proxy.cut();
    let before = proxy.seen().len();
    work_unseen(&stage);
    // A watch that could go on where it was cut would show single changes.
    wait::until_blocking("a new list", SOON, || {
        let seen = proxy.seen().split_off(before);
        let is_list = |line: &String| {
            let asks = line.contains("sendInitialEvents=true") || line.contains("limit=");
            line.contains("/configmaps?") && asks
        };
        seen.iter()
            .any(is_list)
            .then_some(())
            .ok_or(format!("{seen:?}"))
    })
    .unwrap_or_else(|error| panic!("{error}"));
    proxy.heal();

    expect_after_work(&stage);
    stage.expect("as before", &stage.path("of-two"), "alice exact", || {
        patch(&stage, User::Alice, "of-two", "after");
    });
    stage.expect("deleted", &stage.path("of-one"), "bob exact", || {
        stage.does(User::Bob, &["delete", "configmap", "of-one"]);
    });
}
