//! The real binary, built with the feature `otlp`, and a collector that it sends spans to.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use reverser_testkit::control_plane::{ControlPlane, User};
use reverser_testkit::git_server::BareRepository;
use reverser_testkit::process::Process;
use reverser_testkit::scratch::Scratch;
use reverser_testkit::{command, wait};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

const SOON: Duration = Duration::from_mins(2);

/// What a collector was sent.
type Sent = Arc<Mutex<Vec<u8>>>;

/// Takes whatever is posted where spans belong.
fn collector(runtime: &Runtime) -> (SocketAddr, Sent) {
    let sent = Sent::default();
    let take = |State(sent): State<Sent>, body: Bytes| async move {
        sent.lock().unwrap().extend_from_slice(&body);
    };
    let router = axum::Router::new()
        .route("/v1/traces", post(take))
        .with_state(sent.clone());
    let bind = tokio::net::TcpListener::bind("127.0.0.1:0");
    let listener = runtime.block_on(bind).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async { axum::serve(listener, router).await });
    (address, sent)
}

#[test]
fn what_takes_time_arrives_at_a_collector_as_spans_and_secrets_do_not() {
    let runtime = Runtime::new().unwrap();
    let (address, sent) = collector(&runtime);
    let plane = ControlPlane::builder().start().unwrap();
    let scratch = Scratch::create("traces").unwrap();
    let folder = scratch.data();
    let repository = BareRepository::create(&folder, "mirror.git");
    let apply = |text: &str| {
        let mut kubectl = plane.kubectl(User::Admin);
        let apply = kubectl.args(["apply", "--server-side", "-f", "-"]);
        command::run_with_input(apply, text.as_bytes());
    };
    apply(&reverser_api::crd_yaml::crds_yaml());
    let namespace = plane.namespace("traced");
    let ours = |kind: &str, spec: Value| {
        json!({
            "apiVersion": "configbutler.ai/v1alpha1", "kind": kind,
            "metadata": {"name": "mirror", "namespace": namespace}, "spec": spec,
        })
    };
    let url = format!("file://{}", repository.path().display());
    let definitions = "crd/gitrepoconfigs.configbutler.ai crd/gitdestinations.configbutler.ai \
                       crd/watchrules.configbutler.ai";
    let mut kubectl = plane.kubectl(User::Admin);
    let wait_for = ["wait", "--for=condition=Established", "--timeout=110s"];
    command::run(kubectl.args(wait_for).args(definitions.split_whitespace()));
    for object in [
        ours(
            "GitRepoConfig",
            json!({"repoUrl": url, "allowedBranches": ["main"]}),
        ),
        ours(
            "GitDestination",
            json!({"repoRef": {"name": "mirror"}, "branch": "main", "baseFolder": "prod"}),
        ),
        ours(
            "WatchRule",
            json!({"destinationRef": {"name": "mirror"}, "rules": [{}]}),
        ),
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "login", "namespace": namespace},
            "stringData": {"password": "hunter2-hunter2"},
        }),
    ] {
        apply(&object.to_string());
    }

    let binary = assert_cmd::cargo::cargo_bin!("gitops-reverser");
    let operator = Process::new(
        &scratch,
        "operator",
        binary,
        [
            "controller".to_owned(),
            format!("--kubeconfig={}", plane.kubeconfig(User::Admin).display()),
            format!("--work-dir={}", folder.join("work").display()),
            format!("--otlp-endpoint=http://{address}"),
            "--allow-url-schemes=file".to_owned(),
            "--leader-elect=false".to_owned(),
            "--webhook-bind-address=0".to_owned(),
            "--metrics-bind-address=0".to_owned(),
            "--health-probe-bind-address=0".to_owned(),
        ],
    );
    operator.start().unwrap();
    wait::until_blocking("a commit", SOON, || {
        let tip = repository.tip("main");
        tip.ok_or_else(|| operator.log_tail())
    })
    .unwrap_or_else(|error| panic!("{error}"));
    let names = ["discovery", "list", "batch", "fetch", "plan", "push"];
    wait::until_blocking("every span", SOON, || {
        let sent = String::from_utf8_lossy(&sent.lock().unwrap()).into_owned();
        let missing: Vec<_> = names.iter().filter(|name| !sent.contains(**name)).collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(format!("without {missing:?}"))
        }
    })
    .unwrap_or_else(|error| panic!("{error}"));
    operator.stop().unwrap();

    let sent = String::from_utf8_lossy(&sent.lock().unwrap()).into_owned();
    let destination = format!("{namespace}/mirror");
    for said in ["gitops-reverser", "configmaps", &destination, &url] {
        assert!(sent.contains(said), "{said} in {sent}");
    }
    assert!(!sent.contains("hunter2"), "{sent}");
}

#[test]
fn an_address_that_nobody_can_send_to_is_refused_at_start() {
    let mut binary = Command::new(assert_cmd::cargo::cargo_bin!("gitops-reverser"));
    let refused = command::try_run(binary.args(["controller", "--otlp-endpoint=grpc://c:4317"]));
    let said = refused.unwrap_err().to_string();
    assert!(said.contains("--otlp-endpoint"), "{said}");
    assert!(said.contains("over plain HTTP"), "{said}");
}
