//! What a leader does between the word that it is to end and its end.

use reverser_testkit::control_plane::User;
use reverser_testkit::{command, wait};
use serde_json::json;

use super::front::Selects;
use super::stage::{IN_TIME, Peculiarity, Stage};

/// Two branches get the same change, one at once and one much later: as soon as the first has it, it
/// is known to wait for the second.
#[test]
fn a_leader_that_is_to_end_pushes_what_waits_with_its_authors_before_it_lets_go() {
    let mut stage = Stage::with_webhook("leader-flushes", Selects::Leader);
    let cluster = &stage.cluster;
    cluster.apply(&cluster.repo("quick", &json!({"push": {"interval": "1s"}})));
    let quick = json!({"repoRef": {"name": "quick"}, "branch": "quick"});
    cluster.apply(&cluster.destination("quick", "clusters/prod", &quick));
    let rules = json!([{"resources": ["configmaps"]}]);
    cluster.apply(&cluster.rule_to("quick", "quick", &rules));
    stage.add_with(&Peculiarity {
        flags: &[
            "--git-batch-quiet-ms=60000",
            "--git-batch-max-wait-sec=600",
            // A look at the remote would end the batch.
            "--git-poll-sec=3600",
        ],
        ..Peculiarity::default()
    });
    stage.await_leader(&[0]);
    let cluster = &stage.cluster;
    // The first mirror waits for nothing.
    cluster.await_ready("gitdestination/prod", "True", "InSync");
    let mut number = 0;
    wait::until_blocking("an author", IN_TIME, || {
        number += 1;
        let map = cluster.config_map("web", &number.to_string());
        let mut kubectl = cluster.plane.kubectl(User::Bob);
        let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
        command::run_with_input(kubectl.args(apply), map.to_string().as_bytes());
        let value = format!("value: \"{number}\"");
        wait::until_blocking("the change", IN_TIME, || {
            let files = cluster.files_of("quick", "clusters/prod/");
            let file = files.get(&cluster.path("web"));
            file.is_some_and(|file| file.contains(&value)).then_some(())
        })
        .unwrap();
        let users = stage.users_of("quick", "web");
        let known = users[0] == "bob exact";
        known.then_some(()).ok_or(format!("{users:?}"))
    })
    .unwrap();
    let value = format!("value: \"{number}\"");
    let before = cluster.files().remove(&cluster.path("web"));
    assert!(before.is_none_or(|file| !file.contains(&value)), "it waits");

    stage.replicas[0].stop().unwrap();
    let file = cluster.files().remove(&cluster.path("web"));
    assert!(
        file.is_some_and(|file| file.contains(&value)),
        "nobody else is there"
    );
    assert_eq!(stage.users_of("main", "web")[0], "bob exact");
    assert_eq!(stage.lease("{.spec.leaseTransitions}"), "0");
    assert_eq!(stage.holder(), None, "it has let go");
}
