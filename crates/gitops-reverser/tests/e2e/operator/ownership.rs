//! Whose a folder is: its marker, and what it stops.

use reverser_core::commit_message::Installation as Identity;
use reverser_core::owner_marker::{OWNER_MARKER, OwnerMarker};
use reverser_testkit::command;
use reverser_testkit::control_plane::User;
use reverser_testkit::git_server::FileChange;
use serde_json::{Value, json};

use super::installation::{Installation, soon};
use super::oracle::Expected;

fn marker_path() -> String {
    format!("clusters/prod/{OWNER_MARKER}")
}

fn marker(world: &Installation) -> Option<String> {
    world.repository.tip("main")?;
    world.repository.files("main").remove(&marker_path())
}

fn cluster_uid(world: &Installation) -> String {
    let mut kubectl = world.plane.kubectl(User::Admin);
    let uid = [
        "get",
        "namespace",
        "kube-system",
        "-o",
        "jsonpath={.metadata.uid}",
    ];
    command::run(kubectl.args(uid)).stdout
}

fn identity(world: &Installation, cluster_uid: &str, instance_id: &str) -> Identity {
    Identity {
        cluster_uid: cluster_uid.to_owned(),
        controller_namespace: world.settings.namespace.clone(),
        controller_name: "gitops-reverser".to_owned(),
        instance_id: instance_id.to_owned(),
    }
}

/// A world whose folder another installation has marked; the operator does not run yet.
fn marked_by(name: &str, cluster: Option<&str>, change: &Value) -> Installation {
    let world = Installation::prepare(name);
    let cluster = cluster.map_or_else(|| cluster_uid(&world), str::to_owned);
    let marker = OwnerMarker {
        owner: identity(&world, &cluster, "another"),
        created: "2026-01-01T00:00:00Z".to_owned(),
    };
    world.repository.commit(
        "main",
        "mark it",
        &[FileChange::Write(&marker_path(), &marker.to_yaml())],
    );
    world.apply(&world.destination("prod", "clusters/prod", change));
    world.apply(&world.rule("all", &json!([{"resources": ["configmaps"]}])));
    world.apply(&world.config_map("one", "1"));
    world
}

fn take_over(world: &Installation, sentence: &str) {
    let annotation = "configbutler.ai/take-over: ";
    let id = sentence.split_once(annotation).expect(sentence).1;
    let annotation = format!("configbutler.ai/take-over={id}");
    world.kubectl(&["annotate", "gitdestination", "prod", &annotation]);
}

#[test]
fn a_folder_is_marked_with_its_first_commit_and_not_again() {
    let mut world = Installation::start("marker");
    world.apply(&world.rule("all", &json!([{"resources": ["configmaps"]}])));
    world.apply(&world.config_map("one", "1"));
    world.await_names(&["one"]);
    let first = marker(&world).expect("a marker");
    let owner = OwnerMarker::parse(&first).unwrap().owner;
    let instance = world.settings.instance_id.clone();
    assert_eq!(owner, identity(&world, &cluster_uid(&world), &instance));
    world.apply(&world.config_map("one", "2"));
    world.await_file("one", "\"2\"");
    world.kubectl(&["delete", "configmap", "one"]);
    world.await_names(&[]);
    assert_eq!(marker(&world), Some(first), "it is no object's file");
    let commits = world.commits();
    world.stop();
    world.run();
    world.await_ready("gitdestination/prod", "True", "InSync");
    world.assert_quiet();
    assert_eq!(world.commits(), commits);
    world.finish();
}

#[test]
fn an_exclusive_destination_leaves_the_folder_of_another_installation_alone() {
    let mut world = marked_by("exclusive", None, &json!({"exclusiveMode": true}));
    let before = marker(&world);
    world.run();
    let sentence = world.await_ready("gitdestination/prod", "False", "OwnershipConflict");
    assert!(sentence.contains("the installation another"), "{sentence}");
    assert_eq!(world.commits(), 1);
    let destination = format!("{{destination=\"{}/prod\"}} 1", world.namespace);
    let counted = format!("gitopsreverser_marker_conflicts_total{destination}");
    assert!(world.scrape().contains(&counted), "{}", world.scrape());
    take_over(&world, &sentence);
    world.await_ready("gitdestination/prod", "True", "InSync");
    world.await_mirror(&[Expected::config_maps(&world.namespace)]);
    let now = marker(&world);
    assert_ne!(now, before);
    assert!(now.is_some_and(|marker| !marker.contains("another")));
    world.finish();
}

#[test]
fn a_destination_that_is_not_exclusive_warns_and_writes() {
    let mut world = marked_by("shared-folder", None, &json!({}));
    let before = marker(&world);
    world.run();
    world.await_mirror(&[Expected::config_maps(&world.namespace)]);
    let warning = "jsonpath={.status.conditions[?(@.type==\"ForeignOwner\")].message}";
    soon("a warning", || {
        let message = world.kubectl(&["get", "gitdestination", "prod", "-o", warning]);
        if message.contains("the installation another") {
            Ok(())
        } else {
            Err(message)
        }
    });
    world.await_ready("gitdestination/prod", "True", "InSync");
    assert_eq!(
        marker(&world),
        before,
        "two owners must not take turns at the marker"
    );
    world.finish();
}

#[test]
fn files_of_another_cluster_are_deleted_only_when_somebody_says_so() {
    let mut world = marked_by("other-cluster", Some("another-cluster"), &json!({}));
    let orphan = format!("clusters/prod/{}", world.path("orphan"));
    let orphaned = world.config_map("orphan", "1").to_string();
    let change = [FileChange::Write(&orphan, &orphaned)];
    world
        .repository
        .commit("main", "an object of that cluster", &change);
    world.run();
    let sentence = world.await_ready("gitdestination/prod", "False", "MassDeleteGuard");
    assert!(
        sentence.contains("not the work of this cluster"),
        "{sentence}"
    );
    world.await_names(&["one", "orphan"]);
    let guard = "jsonpath={.status.massDeleteGuard.id}";
    let id = world.kubectl(&["get", "gitdestination", "prod", "-o", guard]);
    let annotation = format!("configbutler.ai/acknowledge-mass-delete={id}");
    world.kubectl(&["annotate", "gitdestination", "prod", &annotation]);
    world.await_names(&["one"]);
    world.await_ready("gitdestination/prod", "True", "InSync");
    let marker = marker(&world).unwrap();
    assert!(
        marker.contains(&cluster_uid(&world)),
        "from now on it is ours: {marker}"
    );
    world.finish();
}

#[test]
fn an_installation_with_another_name_takes_its_folder_over_once_and_marks_it_anew() {
    let mut world = Installation::start("renamed");
    world.apply(&world.rule("all", &json!([{"resources": ["configmaps"]}])));
    world.apply(&world.config_map("one", "1"));
    world.await_names(&["one"]);
    let before = marker(&world).expect("a marker");
    world.stop();

    "renamed".clone_into(&mut world.settings.instance_id);
    world.run();
    world.apply(&world.config_map("one", "2"));
    world.await_file("one", "\"2\"");
    assert_eq!(marker(&world).as_ref(), Some(&before), "nobody said so");
    let warning = "jsonpath={.status.conditions[?(@.type==\"ForeignOwner\")].message}";
    let sentence = soon("a warning", || {
        let message = world.kubectl(&["get", "gitdestination", "prod", "-o", warning]);
        if message.contains("the installation test") {
            Ok(message)
        } else {
            Err(message)
        }
    });
    take_over(&world, &sentence);
    soon("the warning to go", || {
        let message = world.kubectl(&["get", "gitdestination", "prod", "-o", warning]);
        if message.is_empty() {
            Ok(())
        } else {
            Err(message)
        }
    });
    world.apply(&world.config_map("one", "3"));
    world.await_file("one", "\"3\"");
    let after = marker(&world).expect("a marker");
    let owner = OwnerMarker::parse(&after).unwrap().owner;
    assert_eq!(owner, identity(&world, &cluster_uid(&world), "renamed"));
    world.apply(&world.config_map("one", "4"));
    world.await_file("one", "\"4\"");
    assert_eq!(marker(&world), Some(after), "it is not written again");
    world.finish();
}
