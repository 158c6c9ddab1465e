//! Two installations with different instance ids that meet at one repository.

use std::collections::BTreeSet;
use std::time::Duration;

use gitops_reverser::leases::LeaseSettings;
use gitops_reverser::operator::BranchTurns;
use reverser_core::owner_marker::{OWNER_MARKER, OwnerMarker};
use reverser_testkit::command;
use reverser_testkit::control_plane::{ControlPlane, User};
use serde_json::{Value, json};

use super::installation::{Installation, await_right, soon};
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
            renew: Duration::from_secs(2),
            length: Duration::from_secs(12),
        },
        namespace: leases.to_owned(),
        take_over_after: None,
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

/// The Leases of a namespace whose names begin so.
fn leases_in(installation: &Installation, namespace: &str, prefix: &str) -> Vec<Value> {
    let mut kubectl = installation.plane.kubectl(User::Admin);
    let list = command::run(kubectl.args(["-n", namespace, "get", "leases", "-o", "json"]));
    let list: Value = serde_json::from_str(&list.stdout).unwrap();
    let leases = list["items"].as_array().unwrap().iter();
    let begins = |lease: &&Value| {
        let name = lease["metadata"]["name"].as_str().unwrap();
        name.starts_with(prefix)
    };
    leases.filter(begins).cloned().collect()
}

/// The only lease of a branch in a namespace, as kubectl calls it.
fn lease_in(installation: &Installation, namespace: &str) -> String {
    soon("the Lease of the branch", || {
        let leases = leases_in(installation, namespace, "gitops-reverser-branch-");
        match &leases[..] {
            [one] => Ok(format!(
                "lease/{}",
                one["metadata"]["name"].as_str().unwrap()
            )),
            others => Err(format!("{others:?}")),
        }
    })
}

fn field(installation: &Installation, namespace: &str, lease: &str, path: &str) -> String {
    let mut kubectl = installation.plane.kubectl(User::Admin);
    let path = format!("jsonpath={path}");
    command::run(kubectl.args(["-n", namespace, "get", lease, "-o", &path])).stdout
}

fn holder(installation: &Installation, namespace: &str, lease: &str) -> String {
    field(installation, namespace, lease, "{.spec.holderIdentity}")
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
    let lease = lease_in(&host, &leases);
    host.stop();
    guest.stop();
    assert_eq!(holder(&host, &leases, &lease), "");
    host.repository.assert_sound("main");
    guest.finish();
    host.finish();
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
    installation.finish();
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
    installation.finish();
}

/// Two installations that share the namespace of their Leases; the first mirrors its ConfigMaps.
fn neighbours(name: &str) -> (Installation, Installation, String) {
    let leases = ControlPlane::shared().namespace(&format!("{name}-leases"));
    let host = prepare(&format!("{name}-host"), &leases);
    let guest = prepare(&format!("{name}-guest"), &leases);
    mirror_config_maps(&host);
    (host, guest, leases)
}

/// How many attempts to take or renew a Lease have failed.
fn lease_failures(installation: &Installation) -> u64 {
    let scrape = installation.scrape();
    let name = "gitopsreverser_lease_acquire_failures_total{";
    let lines = scrape.lines().filter(|line| line.starts_with(name));
    lines
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap())
        .sum()
}

fn change(installation: &Installation, name: &str, value: &str) {
    installation.apply(&installation.config_map(name, value));
}

/// Sends the same objects of the host to the same folder.
fn want_the_same(guest: &Installation, host: &Installation, exclusive: bool) {
    let open = json!({"namespacedRules": {"mode": "AllNamespaces"}});
    let url = format!("file://{}", host.repository.path().display());
    guest.apply(&guest.repo("repo", &json!({"repoUrl": url, "accessPolicy": open})));
    let change = json!({"exclusiveMode": exclusive, "accessPolicy": open});
    guest.apply(&guest.destination("prod", "clusters/prod", &change));
    guest.apply(&guest.guest_rule(&host.namespace, &json!([{"resources": ["configmaps"]}])));
}

/// Whom the marker of the folder names.
fn owner(host: &Installation) -> String {
    let files = host.repository.files("main");
    let marker = OwnerMarker::parse(&files[&format!("clusters/prod/{OWNER_MARKER}")]);
    marker.unwrap().owner.instance_id
}

#[test]
fn one_folder_of_two_installations_belongs_to_the_first_if_the_second_wants_it_alone() {
    let (mut host, mut guest, _) = neighbours("one-folder");
    want_the_same(&guest, &host, true);
    change(&host, "first", "1");
    host.run();
    host.await_names(&["first"]);
    guest.run();
    let sentence = guest.await_ready("gitdestination/prod", "False", "OwnershipConflict");
    assert!(sentence.contains(&host.settings.instance_id), "{sentence}");
    change(&host, "first", "2");
    let expected = [Expected::config_maps(&host.namespace)];
    host.await_mirror(&expected);
    let trailer = "--format=%(trailers:key=X-ConfigButler-InstanceID,valueonly)";
    let writers = host.repository.git(&["log", trailer, "main"]);
    assert!(!writers.contains("guest"), "{writers}");

    // Without that wish both write it, and the first stays the owner. Whoever is faster, each change
    // is committed once.
    want_the_same(&guest, &host, false);
    guest.await_ready("gitdestination/prod", "True", "InSync");
    let before = host.commits();
    for value in 3..6 {
        change(&host, "first", &value.to_string());
        host.await_mirror(&expected);
    }
    change(&host, "second", "1");
    host.await_mirror(&expected);
    host.kubectl(&["delete", "configmap", "first"]);
    host.await_mirror(&expected);
    assert_eq!(host.commits() - before, 5, "no commit is doubled");
    assert_eq!(owner(&host), host.settings.instance_id);
    host.repository.assert_sound("main");
    guest.finish();
    host.finish();
}

#[test]
fn the_folder_of_an_installation_that_is_gone_is_taken_over_and_not_that_of_one_that_is_quiet() {
    let (mut host, mut guest, leases) = neighbours("gone");
    want_the_same(&guest, &host, true);
    for installation in [&mut host, &mut guest] {
        let turns = installation.settings.turns.as_mut().unwrap();
        turns.take_over_after = Some(Duration::from_secs(1));
    }
    change(&host, "first", "1");
    host.run();
    host.await_names(&["first"]);
    guest.run();
    guest.await_ready("gitdestination/prod", "False", "OwnershipConflict");

    // The host has nothing to write, for much longer than one that is gone is waited for.
    let mut renewals = BTreeSet::new();
    soon("the host shows that it is there", || {
        let shown = leases_in(&host, &leases, "gitops-reverser-installation-");
        let id = json!("gone-host");
        let id_of =
            |lease: &Value| lease["metadata"]["annotations"]["configbutler.ai/instance-id"].clone();
        let of_host = shown.iter().filter(|lease| id_of(lease) == id);
        renewals.extend(of_host.map(|lease| lease["spec"]["renewTime"].to_string()));
        let seen = renewals.len();
        (seen > 8).then_some(()).ok_or(format!("{renewals:?}"))
    });
    guest.await_ready("gitdestination/prod", "False", "OwnershipConflict");
    assert_eq!(owner(&host), "gone-host");

    host.stop();
    change(&host, "first", "2");
    guest.await_ready("gitdestination/prod", "True", "InSync");
    host.await_mirror(&[Expected::config_maps(&host.namespace)]);
    assert_eq!(owner(&host), "gone-guest");
    guest.finish();
    host.finish();
}

#[test]
fn different_branches_are_written_without_turns() {
    let (mut host, mut guest, leases) = neighbours("branches");
    share(&guest, &host, "other", "clusters/prod");
    mirror_config_maps(&guest);
    for installation in [&mut host, &mut guest] {
        installation.run();
        change(installation, "one", "1");
    }
    let of_host = [Expected::config_maps(&host.namespace)];
    host.await_equal("main", "clusters/prod/", &of_host);
    let of_guest = [Expected::config_maps(&guest.namespace)];
    host.await_equal("other", "clusters/prod/", &of_guest);
    let both = leases_in(&host, &leases, "gitops-reverser-branch-");
    let holders = both.iter().map(|lease| &lease["spec"]["holderIdentity"]);
    let mut holders: Vec<_> = holders.filter_map(Value::as_str).collect();
    holders.sort_unstable();
    assert_eq!(holders, ["branches-guest", "branches-host"]);
    for installation in [&host, &guest] {
        let scrape = installation.scrape();
        let none = "gitopsreverser_ownership_conflicts_total 0\n";
        assert!(scrape.contains(none), "{scrape}");
    }
    guest.finish();
    host.finish();
}

#[test]
fn two_repositories_that_are_the_same_share_the_lease_of_a_branch() {
    let leases = Installation::prepare("twins-leases").namespace.clone();
    let mut installation = prepare("twins", &leases);
    // Kept however long a busy machine takes to renew it.
    installation.settings.turns.as_mut().unwrap().leases = LeaseSettings {
        renew: Duration::from_secs(2),
        length: Duration::from_secs(16),
    };
    let world = &installation;
    world.apply(&world.repo("twin", &json!({})));
    let to_twin = json!({"repoRef": {"name": "twin"}});
    world.apply(&world.destination("second", "clusters/second", &to_twin));
    let rules = json!([{"resources": ["configmaps"]}]);
    world.apply(&world.rule_to("second", "second", &rules));
    mirror_config_maps(world);
    installation.run();
    let expected = [Expected::config_maps(&installation.namespace)];
    let write = |round: usize| {
        change(&installation, "one", &round.to_string());
        for folder in ["clusters/prod/", "clusters/second/"] {
            installation.await_equal("main", folder, &expected);
        }
    };
    (0..3).for_each(write);
    // A busy machine may be late with a renewal; two who fight are always in each other's way.
    let mut round = 3;
    soon("a round in which no attempt at the Lease fails", || {
        let before = lease_failures(&installation);
        write(round);
        round += 1;
        let failures = lease_failures(&installation) - before;
        if failures == 0 {
            Ok(())
        } else {
            Err(format!("{failures} failures"))
        }
    });
    let lease = lease_in(&installation, &leases);
    assert_eq!(holder(&installation, &leases, &lease), "twins");
    let transitions = field(&installation, &leases, &lease, "{.spec.leaseTransitions}");
    assert_eq!(transitions, "0", "it was never let go");
    installation.stop();
    assert_eq!(holder(&installation, &leases, &lease), "");
    installation.finish();
}

#[test]
fn a_right_to_leases_that_is_missing_stops_writing_and_one_that_is_granted_starts_it() {
    let leases = Installation::prepare("forbidden-leases").namespace.clone();
    let mut installation = prepare("forbidden", &leases);
    let user = format!("operator-of-{}", installation.namespace);
    let grant = |installation: &Installation, name: &str, group: &str| {
        let rules = json!([{"apiGroups": group.split(' ').collect::<Vec<_>>(), "resources": ["*"], "verbs": ["*"]}]);
        let api = "rbac.authorization.k8s.io/v1";
        let metadata = json!({"name": format!("{user}-{name}")});
        installation.apply(
            &json!({"apiVersion": api, "kind": "ClusterRole", "metadata": metadata, "rules": rules}),
        );
        installation.apply(&json!({
            "apiVersion": api, "kind": "ClusterRoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": metadata["name"]},
            "subjects": [{"kind": "User", "name": user}],
        }));
    };
    let all_but_leases =
        " configbutler.ai apiextensions.k8s.io apiregistration.k8s.io events.k8s.io";
    grant(&installation, "works", all_but_leases);
    await_right(&installation.plane, &user, &["get", "namespaces"]);
    mirror_config_maps(&installation);
    change(&installation, "one", "1");
    installation.config.auth_info.impersonate = Some(user.clone());
    installation.run();
    let sentence = installation.await_ready("gitdestination/prod", "False", "LeaseUnavailable");
    assert!(
        sentence.contains("needs get, create and update of leases"),
        "{sentence}"
    );
    assert_eq!(installation.commits(), 0);
    grant(&installation, "leads", "coordination.k8s.io");
    installation.await_names(&["one"]);
    installation.await_ready("gitdestination/prod", "True", "InSync");
    installation.finish();
}
