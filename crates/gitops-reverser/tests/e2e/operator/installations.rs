//! Two installations with different instance ids that meet at one repository.

use std::time::Duration;

use gitops_reverser::leases::LeaseSettings;
use gitops_reverser::operator::BranchTurns;
use reverser_testkit::command;
use reverser_testkit::control_plane::{ControlPlane, User};
use serde_json::json;

use super::installation::{Installation, soon};
use super::oracle::Expected;

/// An installation that takes turns by Leases in a namespace, not started yet.
fn prepare(name: &str, leases: &str) -> Installation {
    let mut installation = turns(name, leases);
    let home = installation.namespace.clone();
    let leases = format!("controller.leases.namespace={leases}");
    installation.be_a_release(&home, &[&leases]);
    installation
}

/// The same, with no right to Leases in that namespace.
fn turns(name: &str, leases: &str) -> Installation {
    let mut installation = Installation::prepare(name);
    name.clone_into(&mut installation.settings.instance_id);
    installation.settings.turns = Some(BranchTurns {
        leases: LeaseSettings {
            renew: Duration::from_secs(1),
            length: Duration::from_secs(4),
        },
        namespace: leases.to_owned(),
    });
    installation
}

/// Sends what an installation writes to the repository of another.
fn share(guest: &Installation, host: &Installation, branch: &str, folder: &str) {
    let url = format!("file://{}", host.repository.path().display());
    guest.apply(&guest.repo("repo", &json!({"repoUrl": url})));
    guest.apply(&guest.destination("prod", folder, &json!({"branch": branch})));
}

fn mirror_config_maps(installation: &Installation) {
    installation.apply(&installation.rule("all", &json!([{"resources": ["configmaps"]}])));
}

/// The name of the only lease of a branch in a namespace.
fn lease_in(installation: &Installation, namespace: &str) -> String {
    soon("the Lease of the branch", || {
        let mut kubectl = installation.plane.kubectl(User::Admin);
        let names = command::run(kubectl.args(["-n", namespace, "get", "leases", "-o", "name"]));
        let name = names.stdout.trim().to_owned();
        if name.is_empty() {
            Err("none yet")
        } else {
            Ok(name)
        }
        .map_err(str::to_owned)
    })
}

fn holder(installation: &Installation, namespace: &str, lease: &str) -> String {
    let mut kubectl = installation.plane.kubectl(User::Admin);
    let path = "jsonpath={.spec.holderIdentity}";
    command::run(kubectl.args(["-n", namespace, "get", lease, "-o", path])).stdout
}

#[test]
fn two_installations_take_turns_at_one_branch() {
    let leases = ControlPlane::shared().namespace("turns-leases");
    let mut host = prepare("turns-host", &leases);
    let mut guest = prepare("turns-guest", &leases);
    share(&guest, &host, "main", "clusters/guest");
    for installation in [&mut host, &mut guest] {
        mirror_config_maps(installation);
        installation.run();
    }
    let lease = lease_in(&host, &leases);
    for round in 0..5 {
        for installation in [&host, &guest] {
            let value = format!("round-{round}");
            installation.apply(&installation.config_map(&value, &value));
        }
        host.await_equal(
            "main",
            "clusters/prod/",
            &[Expected::config_maps(&host.namespace)],
        );
        soon("the guest is written", || {
            let files = host.files_of("main", "clusters/guest/");
            let path = guest.path(&format!("round-{round}"));
            files
                .get(&path)
                .map(drop)
                .ok_or_else(|| format!("{:?}", files.keys()))
        });
    }
    let files = host.files_of("main", "clusters/");
    assert_eq!(files.len(), 2 * 5, "{:?}", files.keys());
    // A lease that is kept is let go at the end.
    host.stop();
    guest.stop();
    assert_eq!(holder(&host, &leases, &lease), "");
    host.repository.assert_sound("main");
}

#[test]
fn a_branch_that_another_installation_holds_is_not_written_and_status_says_so() {
    let leases = ControlPlane::shared().namespace("held-leases");
    let mut installation = prepare("held", &leases);
    mirror_config_maps(&installation);
    installation.run();
    installation.apply(&installation.config_map("one", "1"));
    installation.await_names(&["one"]);
    let lease = lease_in(&installation, &leases);
    installation.stop();

    let patch = r#"{"spec":{"holderIdentity":"elsewhere","leaseDurationSeconds":3600}}"#;
    let kubectl = |arguments: &[&str]| {
        let mut kubectl = installation.plane.kubectl(User::Admin);
        command::run(kubectl.args(["-n", &leases]).args(arguments))
    };
    kubectl(&["patch", &lease, "--type=merge", "-p", patch]);
    let commits = installation.commits();
    installation.apply(&installation.config_map("two", "2"));
    installation.run();
    let sentence = installation.await_ready("gitdestination/prod", "False", "OwnershipConflict");
    assert!(
        sentence.contains("written by the installation elsewhere, which holds the Lease"),
        "{sentence}"
    );
    soon("an event", || {
        let events = installation.kubectl(&["get", "events", "-o", "jsonpath={.items[*].reason}"]);
        if events.contains("OwnershipConflict") {
            Ok(())
        } else {
            Err(events)
        }
    });
    assert_eq!(installation.commits(), commits);
    assert!(
        installation
            .scrape()
            .contains("gitopsreverser_ownership_conflicts_total 1")
    );

    let mut kubectl = installation.plane.kubectl(User::Admin);
    command::run(kubectl.args(["-n", &leases, "delete", &lease]));
    installation.await_names(&["one", "two"]);
    installation.await_ready("gitdestination/prod", "True", "InSync");
}

#[test]
fn without_a_lease_nothing_is_written_and_status_says_what_is_missing() {
    let mut installation = turns("no-leases", "no-such-namespace");
    mirror_config_maps(&installation);
    installation.apply(&installation.config_map("one", "1"));
    let somebody = installation.config.auth_info.impersonate.take();
    for (user, missing) in [
        (None, "the namespace no-such-namespace does not exist"),
        (
            somebody,
            "the operator's role needs get, create and update of leases there",
        ),
    ] {
        installation.config.auth_info.impersonate = user;
        installation.run();
        soon(missing, || {
            let ready =
                installation.await_ready("gitdestination/prod", "False", "LeaseUnavailable");
            if ready.contains(missing) {
                Ok(())
            } else {
                Err(ready)
            }
        });
        installation.stop();
    }
    assert_eq!(installation.commits(), 0);
}
