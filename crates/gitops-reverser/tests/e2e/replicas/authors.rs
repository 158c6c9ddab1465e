//! Who did what survives the one who heard of it.

use std::fs;

use reverser_testkit::control_plane::User;
use reverser_testkit::redis_server::{Protection, RedisServer};
use reverser_testkit::{command, wait};
use serde_json::json;

use super::front::Selects;
use super::stage::{IN_TIME, Peculiarity, Stage};

fn change(stage: &Stage, user: User, name: &str, number: usize) {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"number": number.to_string()},
        "metadata": {"name": name, "namespace": stage.cluster.namespace},
    });
    let mut kubectl = stage.cluster.plane.kubectl(user);
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    command::run_with_input(kubectl.args(apply), map.to_string().as_bytes());
}

#[track_caller]
fn await_warning(stage: &Stage, there: bool) {
    let path = "{.status.conditions[?(@.type==\"AttributionStoreUnavailable\")].message}";
    let path = format!("jsonpath={path}");
    wait::until_blocking("the warning about the store", IN_TIME, || {
        let said = stage
            .cluster
            .kubectl(&["get", "gitdestination", "prod", "-o", &path]);
        if said.is_empty() == there {
            Err(said)
        } else {
            Ok(())
        }
    })
    .unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn authors_survive_a_leader_that_is_killed_where_replicas_share_what_they_hear() {
    let redis = RedisServer::start(Protection::UserAndTls);
    let store = format!("--attribution-store={}", redis.url());
    let credentials = redis.credentials();
    let credentials = format!(
        "--attribution-store-credentials-dir={}",
        credentials.display()
    );
    // Only the leader is asked, so that nobody else can know.
    let mut stage = Stage::with_webhook("shared-authors", Selects::Leader);
    let shares = Peculiarity {
        flags: &[&store, &credentials, "--attribution-ttl-sec=600"],
        ..Peculiarity::default()
    };
    for _ in 0..2 {
        stage.add_with(&shares);
    }
    let (first, _) = stage.await_leader(&[0, 1]);
    stage.await_ready(1 - first);
    stage.await_asked();
    for (user, name) in [
        (User::Alice, "alices"),
        (User::Bob, "bobs"),
        (User::Bob, "theirs"),
    ] {
        change(&stage, user, name, 0);
        stage.cluster.await_file(name, "number: \"0\"");
    }

    // The store may go and come: nothing else suffers.
    redis.process().kill().unwrap();
    await_warning(&stage, true);
    stage
        .cluster
        .await_ready("gitdestination/prod", "True", "InSync");
    change(&stage, User::Bob, "bobs", 1);
    stage.cluster.await_file("bobs", "number: \"1\"");
    assert_eq!(stage.users_of("main", "bobs")[0], "bob exact");
    redis.start_again();
    await_warning(&stage, false);

    // What is changed now reaches nobody before the leader is killed.
    let repository = stage.cluster.repository.path().to_owned();
    let away = repository.with_extension("away");
    fs::rename(&repository, &away).unwrap();
    change(&stage, User::Alice, "alices", 2);
    change(&stage, User::Alice, "alices", 3);
    change(&stage, User::Bob, "bobs", 4);
    change(&stage, User::Alice, "new", 5);
    change(&stage, User::Alice, "theirs", 6);
    change(&stage, User::Bob, "theirs", 7);
    stage.replicas[first].kill().unwrap();
    fs::rename(&away, &repository).unwrap();
    stage.await_leader(&[1 - first]);
    stage.await_mirror();
    for (name, number, user) in [
        ("alices", 3, "alice coalesced"),
        ("bobs", 4, "bob coalesced"),
        ("new", 5, "alice coalesced"),
        // Two changes by two people, seen as one: nobody knows whose it is.
        ("theirs", 7, "unknown"),
    ] {
        stage
            .cluster
            .await_file(name, &format!("number: \"{number}\""));
        let users = stage.users_of("main", name);
        assert!(users[0].starts_with(user), "{name}: {users:?}");
    }
    for secret in [RedisServer::PASSWORD, "/process-validating-webhook?"] {
        for replica in &stage.replicas {
            let log = fs::read_to_string(replica.log()).unwrap();
            assert!(!log.contains(secret), "{log}");
        }
    }
}
