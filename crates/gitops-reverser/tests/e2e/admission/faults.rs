//! A webhook that does not answer, or not in time.

use std::net::TcpListener;

use super::registering::{await_asked, await_resources, installed, rule_on};
use crate::operator::installation::Installation;

/// The user and the certainty of the commits that touched the file of an object, newest first.
fn authors(world: &Installation, name: &str) -> Vec<String> {
    let path = format!("clusters/prod/{}", world.path(name));
    let trailer =
        |key: &str| format!("%(trailers:key=X-ConfigButler-{key},valueonly,separator=%x2C)");
    let format = format!("--format={} {}", trailer("User"), trailer("Attribution"));
    let log = world.repository.git(&["log", &format, "main", "--", &path]);
    log.lines().map(str::to_owned).collect()
}

#[test]
fn a_webhook_that_is_down_or_slow_or_restarts_holds_up_nothing_and_names_nobody() {
    let (world, mut webhook) = installed("faults");
    world.apply(&world.rule("rule", &rule_on(&["configmaps"])));
    await_resources(&world, &webhook, &["configmaps"]);
    await_asked(&world, &webhook);

    // Nobody listens.
    webhook.stop();
    world.apply(&world.config_map("down", "1"));
    world.await_file("down", "value: \"1\"");

    // Somebody listens who never says anything: the API server gives up.
    let silent = TcpListener::bind(("127.0.0.1", webhook.port())).unwrap();
    world.apply(&world.config_map("slow", "1"));
    world.apply(&world.config_map("slow", "2"));
    world.await_file("slow", "value: \"2\"");
    drop(silent);

    // The same certificates, and the same configuration.
    webhook.start();
    webhook.await_told("alice updates configmaps down", || {
        world.kubectl(&["annotate", "configmap", "down", "restarted=true"]);
        world.kubectl(&["annotate", "configmap", "down", "restarted-"]);
    });
    world.kubectl(&["delete", "configmap", "slow"]);
    webhook.await_told("alice deletes configmaps slow", || {});
    world.await_names(&["down", "probe"]);
    let told = webhook.told();
    for nobody in [
        "alice creates configmaps down",
        "alice creates configmaps slow",
    ] {
        assert!(!told.contains(&nobody.to_owned()), "{told:?}");
    }
    let down = authors(&world, "down");
    assert_eq!(down.last().unwrap(), "unknown unknown", "{down:?}");
    let slow = authors(&world, "slow");
    let (deletion, before) = slow.split_first().unwrap();
    assert_eq!(deletion, "alice exact", "{slow:?}");
    assert!(
        before.iter().all(|one| one == "unknown unknown"),
        "{slow:?}"
    );
    world.assert_quiet();
}
