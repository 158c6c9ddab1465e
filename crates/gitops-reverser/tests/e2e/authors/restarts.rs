//! An operator that does not run while people work, and a webhook that hears them.

use std::time::Duration;

use gitops_reverser::attribution::Attribution;
use gitops_reverser::telemetry::{Telemetry, metrics};
use reverser_core::attribution::StoreLimits;
use reverser_testkit::control_plane::User;
use reverser_testkit::wait;

use super::stage::{SOON, Stage};
use crate::operator::installation::Installation;

#[test]
fn after_a_restart_changes_of_one_user_name_them_and_those_of_several_name_nobody() {
    let mut installation = Installation::prepare("restarted");
    // However long a busy machine takes for all this.
    let limits = StoreLimits {
        ttl: Duration::from_mins(10),
        ..StoreLimits::default()
    };
    let telemetry = Telemetry::register(&mut metrics::registry());
    installation.attribution = Attribution::new(limits, telemetry);
    let mut stage = Stage::on(installation);
    let patch = |stage: &Stage, user: User, name: &str, value: &str| {
        let change = format!(r#"{{"data":{{"value":"{value}"}}}}"#);
        stage.does(user, &["patch", "configmap", name, "-p", &change]);
    };
    for name in ["of-one", "of-two", "unheard", "gone", "same"] {
        stage.expect(name, &stage.path(name), "alice exact", || {
            stage.applies(User::Alice, &stage.config_map(name, "start"), &["create"]);
        });
    }
    stage.stop();
    patch(&stage, User::Bob, "of-one", "middle");
    patch(&stage, User::Bob, "of-one", "end");
    patch(&stage, User::Alice, "of-two", "middle");
    patch(&stage, User::Bob, "of-two", "end");
    patch(&stage, User::Alice, "same", "other");
    patch(&stage, User::Bob, "same", "start");
    stage.applies(User::Robot, &stage.config_map("new", "end"), &["create"]);
    stage.does(User::Bob, &["delete", "configmap", "gone"]);
    stage.stop_serving();
    patch(&stage, User::Bob, "unheard", "end");
    stage.serve();
    patch(&stage, User::Bob, "unheard", "end of the end");
    stage.run();

    let robot = "system:serviceaccount:default:robot coalesced";
    for (name, expected) in [
        ("of-one", vec!["bob coalesced", "alice exact"]),
        ("of-two", vec!["unknown unknown", "alice exact"]),
        ("unheard", vec!["unknown unknown", "alice exact"]),
        // Nobody saw the object go, only that it is not there.
        ("gone", vec!["unknown reconcile", "alice exact"]),
        ("same", vec!["alice exact"]),
        ("new", vec![robot]),
    ] {
        let file = stage.path(name);
        wait::until_blocking(format!("{expected:?} for {name}"), SOON, || {
            let log = stage.log(&file);
            (log == expected).then_some(()).ok_or(format!("{log:?}"))
        })
        .unwrap_or_else(|error| panic!("{error}"));
    }
    stage.assert_quiet();
    stage.await_asked();
    stage.expect("as before", &stage.path("of-two"), "alice exact", || {
        patch(&stage, User::Alice, "of-two", "after");
    });
}
