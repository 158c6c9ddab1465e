//! One fault after the other while everything changes, and two at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use reverser_testkit::control_plane::User;
use reverser_testkit::fault_proxy::{Fault as ApiFault, FaultProxy};
use reverser_testkit::git_server::{Fault as GitFault, FileChange, HttpFront, Request};
use serde_json::{Value, json};

use super::api_faults::{Deleted, be_impatient, behind_a_proxy, change_all};
use super::installation::{Installation, soon};
use super::oracle::Expected;

/// As often as it takes.
const ALWAYS: usize = usize::MAX;

/// Fifty changes a second, as far as the API server takes them: some objects change all the time, and
/// others come and go. Counts those that were taken.
async fn change_steadily(api: Api<ConfigMap>, taken: Arc<AtomicUsize>) {
    let mut beat = tokio::time::interval(Duration::from_millis(20));
    let write = async |name: String, value: usize| {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name}, "data": {"value": value.to_string()},
        });
        let how = PatchParams::apply("load").force();
        api.patch(&name, &how, &Patch::Apply(object)).await.is_ok()
    };
    for number in 0.. {
        beat.tick().await;
        let (generation, step) = (number / 10, number % 10);
        let is_taken = match step {
            0 => write(format!("passing-{generation}"), number).await,
            5 if generation >= 5 => {
                let old = format!("passing-{}", generation - 5);
                api.delete(&old, &DeleteParams::default()).await.is_ok()
            }
            _ => write(format!("steady-{step}"), number).await,
        };
        taken.fetch_add(usize::from(is_taken), Ordering::Relaxed);
    }
}

#[test]
fn an_api_server_that_is_killed_again_and_again_under_load_costs_nothing() {
    let mut world = Installation::alone("crashing");
    be_impatient(&mut world);
    world.apply(&world.rule("rule", &json!([{"resources": ["configmaps"]}])));
    world.run();
    world.await_ready("gitdestination/prod", "True", "InSync");
    let taken = Arc::new(AtomicUsize::new(0));
    let load = {
        let _guard = world.runtime.enter();
        let client = world.plane.client(User::Alice).unwrap();
        let api = Api::namespaced(client, &world.namespace);
        world.runtime.spawn(change_steadily(api, taken.clone()))
    };
    let await_changes = || {
        let enough = taken.load(Ordering::Relaxed) + 100;
        soon("changes", || {
            let taken = taken.load(Ordering::Relaxed);
            (taken >= enough).then_some(()).ok_or(taken.to_string())
        });
    };
    for _ in 0..3 {
        await_changes();
        world.plane.apiserver().restart().unwrap();
    }
    await_changes();
    load.abort();
    let _ = world.runtime.block_on(load);
    world.await_mirror(&[Expected::config_maps(&world.namespace)]);
    world.await_ready("gitdestination/prod", "True", "InSync");
    assert!(world.names().len() > 8, "{:?}", world.names());
    world.finish();
}

#[derive(Clone, Copy, Debug)]
enum Trouble {
    GitIsDown,
    GitHangsUp,
    PushIsNotAnswered,
    ApiHangsUp,
    ApiFails,
    TypeIsSilent,
    PastIsGone,
    OperatorStartsAnew,
    SomebodyElseCommits,
    BranchIsDeleted,
}

const TROUBLES: [Trouble; 10] = [
    Trouble::GitIsDown,
    Trouble::GitHangsUp,
    Trouble::PushIsNotAnswered,
    Trouble::ApiHangsUp,
    Trouble::ApiFails,
    Trouble::TypeIsSilent,
    Trouble::PastIsGone,
    Trouble::OperatorStartsAnew,
    Trouble::SomebodyElseCommits,
    Trouble::BranchIsDeleted,
];

impl Trouble {
    fn strike(self, world: &mut Installation, api: &FaultProxy, git: &HttpFront) {
        let status = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure"}"#;
        match self {
            Self::GitIsDown => git.fault(Request::Any, GitFault::Status(503), ALWAYS),
            Self::GitHangsUp => git.fault(Request::Any, GitFault::DropRequest, ALWAYS),
            Self::PushIsNotAnswered => git.fault(Request::Push, GitFault::CutAnswer(0), 1),
            Self::ApiHangsUp => api.fault("", ApiFault::Close, ALWAYS),
            Self::ApiFails => api.fault("", ApiFault::answer(500, status), ALWAYS),
            Self::TypeIsSilent => api.fault("/configmaps", ApiFault::Hang, ALWAYS),
            Self::PastIsGone => api.fault("watch=", ApiFault::answer(410, status), 4),
            Self::OperatorStartsAnew => {
                world.stop();
                world.run();
            }
            Self::SomebodyElseCommits => {
                let note = [FileChange::Write("NOTES.md", "mine\n")];
                world.repository.commit("main", "by hand", &note);
            }
            Self::BranchIsDeleted => world.repository.set_branch("main", None),
        }
        api.cut();
    }
}

/// Where choices come from: the same each time, so that a change is never blamed for a pair that nobody
/// has met before. `REVERSER_SEED` chooses others.
fn random() -> fastrand::Rng {
    let seed = std::env::var("REVERSER_SEED").map(|seed| seed.parse());
    let seed = seed.unwrap_or(Ok(1)).expect("REVERSER_SEED is a number");
    println!("REVERSER_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

#[test]
fn two_faults_at_once_lose_nothing_and_all_is_followed_afterwards() {
    const ROUNDS: usize = 6;
    let mut world = Installation::prepare("storm");
    let api = behind_a_proxy(&mut world);
    be_impatient(&mut world);
    let git = HttpFront::start(world.folder.path());
    world.apply(&world.repo("repo", &json!({"repoUrl": git.url("repo.git")})));
    let mut objects: Vec<Value> = (0..ROUNDS)
        .map(|round| world.config_map(&format!("old-{round}"), "x"))
        .collect();
    objects.push(world.config_map("web", "x"));
    world.create_all(&objects);
    world.apply(&world.rule("maps", &json!([{"resources": ["configmaps"]}])));
    world.run();
    let expected = [Expected::config_maps(&world.namespace)];
    world.await_mirror(&expected);

    let mut random = random();
    let mut deleted = Deleted::default();
    for round in 0..ROUNDS {
        let mut troubles = TROUBLES;
        random.shuffle(&mut troubles);
        println!("{:?}", &troubles[..2]);
        for trouble in &troubles[..2] {
            trouble.strike(&mut world, &api, &git);
        }
        change_all(&world, &mut deleted, round);
        api.heal();
        git.heal();
        world.await_equal("main", "clusters/prod/", &expected);
        world.await_ready("gitdestination/prod", "True", "InSync");
    }
    world.await_mirror(&expected);
    deleted.assert_history(&world);
    world.finish();
}
