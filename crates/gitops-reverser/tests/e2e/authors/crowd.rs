//! Many users change the same objects at once.

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use reverser_testkit::control_plane::User;
use reverser_testkit::wait;
use serde_json::json;

use super::restarts::patient;
use super::stage::Stage;

const USERS: usize = 8;
const OBJECTS: usize = 50;
/// Of each user; `REVERSER_CROWD=2000` is the whole crowd.
const UPDATES: usize = 250;

/// What one user does: half of it by patches, half by replacing what was read, which conflicts when
/// another was faster. What is written says who wrote it.
async fn work(api: Api<ConfigMap>, user: usize, updates: usize) -> usize {
    let mut conflicts = 0;
    for number in 0..updates {
        let name = format!("shared-{}", fastrand::usize(..OBJECTS));
        let data = json!({"by": format!("user-{user}"), "number": number.to_string()});
        loop {
            if number % 2 == 0 {
                let patch = Patch::Merge(json!({ "data": data }));
                api.patch(&name, &PatchParams::default(), &patch)
                    .await
                    .unwrap();
                break;
            }
            let mut map = api.get(&name).await.unwrap();
            map.data = serde_json::from_value(data.clone()).unwrap();
            match api.replace(&name, &PostParams::default(), &map).await {
                Ok(_) => break,
                Err(kube::Error::Api(status)) if status.code == 409 => conflicts += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
    conflicts
}

#[test]
fn not_one_commit_of_a_crowd_names_a_wrong_user() {
    let updates = std::env::var("REVERSER_CROWD").ok();
    let updates = updates.map_or(UPDATES, |updates| updates.parse().unwrap());
    let stage = Stage::on(patient("crowd"));
    let maps: Vec<_> = (0..OBJECTS)
        .map(|index| stage.config_map(&format!("shared-{index}"), "start"))
        .collect();
    stage.create_all(&maps);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let conflicts: usize = runtime.block_on(async {
        let mut users: FuturesUnordered<_> = (0..USERS)
            .map(|user| {
                let mut config = stage.plane.kube_config(User::Admin);
                config.auth_info.impersonate = Some(format!("user-{user}"));
                config.auth_info.impersonate_groups = Some(vec!["system:masters".to_owned()]);
                let client = Client::try_from(config).unwrap();
                let api = Api::namespaced(client, &stage.namespace);
                tokio::spawn(work(api, user, updates))
            })
            .collect();
        let mut conflicts = 0;
        while let Some(done) = users.next().await {
            conflicts += done.unwrap();
        }
        conflicts
    });
    // A last change by somebody else shows that all others have come.
    stage.apply(&stage.config_map("probe", "the end"));
    let path = stage.path("probe");
    wait::until_blocking("the end", Duration::from_mins(10), || {
        let probe = stage.files().remove(&path).unwrap_or_default();
        probe.contains("the end").then_some(()).ok_or(probe)
    })
    .unwrap_or_else(|error| panic!("{error}"));
    check(&stage, conflicts);
}

/// Each commit, and who wrote what it brought.
fn check(stage: &Stage, conflicts: usize) {
    let trailer =
        |key: &str| format!("%(trailers:key=X-ConfigButler-{key},valueonly,separator=%x2C)");
    let format = format!(
        "--format=commit {} {}",
        trailer("User"),
        trailer("Attribution")
    );
    let log = stage
        .repository
        .git(&["log", "--reverse", "-p", "-U0", &format, "main"]);
    let (mut user, mut how) = (String::new(), String::new());
    let (mut exact, mut unknown, mut wrong) = (0, 0, Vec::new());
    for line in log.lines() {
        if let Some(commit) = line.strip_prefix("commit ") {
            let (name, attribution) = commit.rsplit_once(' ').unwrap();
            (user, how) = (name.to_owned(), attribution.to_owned());
        } else if let Some(by) = line.strip_prefix("+  by: ") {
            match how.as_str() {
                "exact" | "coalesced" if by == user => exact += 1,
                "exact" | "coalesced" => wrong.push(format!("{by} was called {user}")),
                _ => unknown += 1,
            }
        }
    }
    let share = 100.0 * f64::from(exact) / f64::from(exact + unknown);
    println!("{exact} exact, {unknown} unknown ({share:.2} %), {conflicts} conflicts");
    assert_eq!(wrong, Vec::<String>::new());
    // The API server waits two seconds for an answer; that is little where everything else is slow.
    let least = if std::env::var_os("REVERSER_CROWD").is_some() {
        99.0
    } else {
        90.0
    };
    assert!(exact > 0 && share >= least, "{share} %");
}
