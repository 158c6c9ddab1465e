//! Replicas that run outside of the cluster, where no Service leads to them.

use reverser_testkit::control_plane::User;
use reverser_testkit::{command, wait};

use super::front::Selects;
use super::stage::{IN_TIME, Stage};

/// Waits until the API server is told to ask a replica.
#[track_caller]
fn await_url(stage: &Stage, replica: usize) {
    let url = stage.front.url_of(replica);
    let path = "jsonpath={.webhooks[*].clientConfig.url}";
    let get = ["get", "validatingwebhookconfiguration", &stage.home, "-o"];
    let asks = || {
        let mut kubectl = stage.cluster.plane.kubectl(User::Admin);
        let told =
            command::try_run(kubectl.args(get).arg(path)).map_err(|error| error.to_string())?;
        let mut urls = told.stdout.split(' ');
        let there = urls.all(|told| told == url);
        if there { Ok(()) } else { Err(told.stdout) }
    };
    wait::until_blocking(&url, IN_TIME, asks).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_new_leader_tells_the_api_server_its_own_url() {
    let mut stage = Stage::with_webhook("own-url", Selects::Nobody);
    stage.add();
    stage.add();
    let (first, _) = stage.await_leader(&[0, 1]);
    await_url(&stage, first);
    stage.await_asked();
    stage.await_ready(1 - first);
    stage.replicas[first].kill().unwrap();
    stage.await_leader(&[1 - first]);
    await_url(&stage, 1 - first);
    stage.await_asked();
}
