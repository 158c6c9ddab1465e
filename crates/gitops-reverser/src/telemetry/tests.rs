use std::time::{Duration, Instant};

use prometheus_client::encoding::text;
use reverser_git::{BranchName, CommitId, RemoteUrl, Scheme};

use super::facts::{
    AdmissionAnswered, AdmissionOutcome, BatchPushed, BranchMoved, CertificateLoaded,
    CertificateUnusable, CertificatesChanged, CommitPushed, ConnectionRefused, DestinationInSync,
    DiscoveryFailed, EventProcessed, Leading, LeaseFailed, MarkerConflict, NobodyAsked,
    ObjectListed, ObjectsNotReady, PushRetried, RecordNotShared, RecordStoreFailed,
    RecordStoreWorks, RecordUnreadable, Serving, Started, Stopping, WebhookNotRegistered,
    WebhookRegistered,
};
use super::labels::{BranchLabels, DestinationLabels, Gvk, ObjectScope, TypeLabels};
use super::state::BranchState;
use super::*;

fn branch() -> BranchLabels {
    let repo = RemoteUrl::parse("https://git.example.com/a.git", Scheme::DEFAULT_ALLOWED).unwrap();
    BranchLabels::of(&repo, &BranchName::parse("main").unwrap())
}

fn commit() -> CommitId {
    "0123456789012345678901234567890123456789".parse().unwrap()
}

pub(super) fn emit_every_fact(telemetry: &Telemetry) {
    let deployments = TypeLabels::new(
        Gvk::new("apps", "v1", "Deployment"),
        ObjectScope::Namespaced,
    );
    let nodes = TypeLabels::new(Gvk::new("", "v1", "Node"), ObjectScope::Cluster);
    let (branch, destination) = (branch(), DestinationLabels::new("shop", "prod"));
    telemetry.emit(Started {
        instance_id: "prod",
        version: "1.0.0",
    });
    telemetry.emit(Serving {
        paths: "/metrics",
        address: ([127, 0, 0, 1], 8080).into(),
    });
    telemetry.emit(ObjectListed { of: &deployments });
    telemetry.emit(EventProcessed {
        of: &nodes,
        event: "ADDED",
        namespace: None,
        name: "a",
    });
    telemetry.emit(DiscoveryFailed {
        group: "metrics.k8s.io/v1beta1",
        reason: "503",
    });
    telemetry.emit(CommitPushed {
        branch: &branch,
        destination: &destination,
        commit: &commit(),
        written: &[(deployments.clone(), 3), (nodes.clone(), 1)],
        deleted: 2,
        bytes: 4096,
    });
    telemetry.emit(BatchPushed {
        branch: &branch,
        commits: 1,
        took: Duration::from_millis(200),
        since_events: &[Duration::from_millis(700), Duration::from_secs(2)],
    });
    telemetry.emit(DestinationInSync {
        branch: &branch,
        destination: &destination,
        objects: 3,
    });
    telemetry.emit(BranchMoved {
        branch: &branch,
        attempt: 1,
    });
    telemetry.emit(PushRetried {
        branch: &branch,
        attempt: 1,
        after: Duration::from_secs(1),
        reason: "connection lost",
    });
    for outcome in [
        AdmissionOutcome::Recorded,
        AdmissionOutcome::Ignored,
        AdmissionOutcome::Refused,
    ] {
        telemetry.emit(AdmissionAnswered {
            outcome,
            took: Duration::from_micros(80),
            why: "",
        });
    }
    telemetry.emit(ConnectionRefused {
        reason: "no certificate",
    });
    let until = jiff::Timestamp::from_second(1_900_000_000).ok();
    telemetry.emit(CertificatesChanged {
        change: "created",
        until,
    });
    telemetry.emit(CertificateLoaded { until });
    telemetry.emit(CertificateUnusable { reason: "no file" });
    telemetry.emit(WebhookNotRegistered {
        reason: "forbidden",
    });
    telemetry.emit(NobodyAsked);
    telemetry.emit(WebhookRegistered {
        name: "gitops-reverser",
        types: 17,
    });
    emit_facts_of_replicas(telemetry, &destination);
    telemetry.emit(Stopping { signal: "SIGTERM" });
    telemetry.read_state_from(move || OperatorState {
        last_round: None,
        watched_types: 17,
        unknown_scopes: 1,
        active_workers: 2,
        branches: vec![BranchState {
            branch: branch.clone(),
            queue_depth: 5,
            held_back: 7,
            last_push: Instant::now().checked_sub(Duration::from_secs(30)),
            attempt_began: None,
        }],
    });
}

fn emit_facts_of_replicas(telemetry: &Telemetry, destination: &DestinationLabels) {
    telemetry.emit(Leading);
    telemetry.emit(ObjectsNotReady {
        kind: "GitDestination",
        reason: "MassDeleteGuard",
        objects: 2,
    });
    telemetry.emit(LeaseFailed {
        worker: "gitops-reverser-leader-prod",
        reason: "forbidden",
    });
    telemetry.emit(MarkerConflict {
        destination,
        reason: "the installation another",
        refused: false,
    });
    telemetry.emit(RecordStoreFailed {
        reason: "redis://redis:6379: it does not answer in time",
        news: true,
    });
    telemetry.emit(RecordUnreadable);
    telemetry.emit(RecordNotShared);
    telemetry.emit(RecordStoreWorks {
        store: "redis://redis:6379",
    });
}

fn scrape(registry: &Registry) -> String {
    let mut scrape = String::new();
    text::encode(&mut scrape, registry).unwrap();
    scrape
}

#[test]
fn every_fact_counts_under_the_documented_names() {
    let mut registry = metrics::registry();
    let telemetry = Telemetry::register(&mut registry);
    emit_every_fact(&telemetry);
    let scrape = scrape(&registry);
    let on_branch = r#"{repo="https://git.example.com/a.git",branch="main"}"#;
    for series in [
        r#"objects_scanned_total{gvk="apps/v1/Deployment",scope="Namespaced"} 1"#,
        r#"objects_scanned_total{gvk="v1/Node",scope="Cluster"} 1"#,
        r#"objects_written_total{gvk="apps/v1/Deployment",scope="Namespaced"} 3"#,
        r#"objects_written_total{gvk="v1/Node",scope="Cluster"} 1"#,
        r#"files_deleted_total{destination="shop/prod"} 2"#,
        "commits_total 1",
        "commit_bytes_total 4096",
        "commit_batches_total 1",
        "rebase_retries_total 1",
        &format!("push_retries_total{on_branch} 1"),
        "repo_branch_active_workers 2",
        &format!("repo_branch_queue_depth{on_branch} 5"),
        &format!("repo_branch_deletions_held_back{on_branch} 7"),
        "discovery_errors_total 1",
        "events_processed_total 1",
        r#"event_to_push_seconds_bucket{le="0.75"} 1"#,
        "event_to_push_seconds_count 2",
        "push_duration_seconds_sum 0.2",
        r#"admission_reviews_total{outcome="Recorded"} 1"#,
        r#"admission_reviews_total{outcome="Refused"} 1"#,
        r#"admission_duration_seconds_bucket{le="0.0001"} 2"#,
        "admission_connections_refused_total 1",
        "webhook_registered 1",
        "webhook_certificate_end_seconds 1900000000",
        r#"lease_acquire_failures_total{worker="gitops-reverser-leader-prod"} 1"#,
        r#"marker_conflicts_total{destination="shop/prod"} 1"#,
        "attribution_store_errors_total 2",
        "attribution_store_dropped_total 1",
        "leader 1",
        r#"objects_not_ready{kind="GitDestination",reason="MassDeleteGuard"} 2"#,
        "watched_types 17",
        "unknown_scopes 1",
    ] {
        let line = format!("\ngitopsreverser_{series}\n");
        assert!(scrape.contains(&line), "{series} is not in\n{scrape}");
    }
    let age = format!("\ngitopsreverser_last_push_age_seconds{on_branch} 30.");
    assert!(scrape.contains(&age), "{scrape}");
}

#[test]
fn every_metric_is_described_before_anything_happened() {
    let described = |scrape: &str| -> Vec<String> {
        let lines = scrape.lines().filter(|line| line.starts_with("# "));
        lines.map(str::to_owned).collect()
    };
    let mut registry = metrics::registry();
    let telemetry = Telemetry::register(&mut registry);
    let before = scrape(&registry);
    emit_every_fact(&telemetry);
    assert_eq!(described(&before), described(&scrape(&registry)));
    assert!(
        before.contains("# TYPE gitopsreverser_push_retries counter\n"),
        "{before}"
    );
    assert!(
        before.contains("# UNIT gitopsreverser_commit_bytes bytes\n"),
        "{before}"
    );
    assert!(before.ends_with("# EOF\n"), "{before}");
}

#[test]
fn a_branch_that_is_gone_has_no_gauge() {
    let mut registry = metrics::registry();
    let telemetry = Telemetry::register(&mut registry);
    emit_every_fact(&telemetry);
    telemetry.read_state_from(OperatorState::default);
    let scrape = scrape(&registry);
    assert!(!scrape.contains("repo_branch_queue_depth{"), "{scrape}");
    assert!(!scrape.contains("last_push_age_seconds{"), "{scrape}");
}
