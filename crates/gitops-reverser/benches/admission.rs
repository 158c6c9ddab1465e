//! What the webhook costs those who write, beside a webhook that does nothing.
//!
//! A real API server asks three about the same writes: nobody, a server that only says yes, and ours.
//! The writes take turns, so that whatever else the machine does falls on all three alike.
//!
//! `cargo bench -p gitops-reverser --bench admission`
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a program for people at a terminal, with rounded figures"
)]

use std::convert::Infallible;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gitops_reverser::admission::{
    self, AdmissionSettings, CertificateSource, Endpoint, Lifetimes, Records,
};
use gitops_reverser::telemetry::{Telemetry, metrics};
use http_body_util::{BodyExt as _, Full};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use reverser_testkit::certificates::{Authority, Identity};
use reverser_testkit::control_plane::{ControlPlane, User};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// How many times each is asked, one write after the other.
const ROUNDS: usize = 3_000;
/// The same with so many writers at once.
const WRITERS: usize = 8;
/// What ours may cost more than the one that does nothing, at p99.
const TARGET: Duration = Duration::from_millis(2);

fn main() {
    let plane = ControlPlane::builder().start().unwrap();
    let authority = Authority::new("webhooks").unwrap();
    let identity = authority.issue(&["127.0.0.1"]).unwrap();
    let runtime = Runtime::new().unwrap();
    // As the controller does it: what answers has threads of its own.
    let answering = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let nothing = answering.block_on(says_yes(&identity));
    let ours = answering.block_on(ours(&plane, &identity));

    let none = plane.namespace("none");
    let floor = plane.namespace("floor");
    let measured = plane.namespace("measured");
    runtime.block_on(async {
        let client = plane.client(User::Admin).unwrap();
        for (namespace, port) in [(&floor, nothing), (&measured, ours)] {
            register(&client, namespace, port, &authority).await;
        }
        for namespace in [&none, &floor, &measured] {
            for writer in 0..WRITERS {
                create(&client, namespace, writer).await;
            }
        }
        // The API server learns of webhooks a moment later.
        tokio::time::sleep(Duration::from_secs(3)).await;
        println!("\n{ROUNDS} changes of a Deployment with each, in turns\n");
        println!("| writers | asked | p50 | p99 | p99 over the floor | target |");
        println!("|---|---|---|---|---|---|");
        let namespaces = [&none, &floor, &measured];
        for writers in [1, WRITERS] {
            let _warm = turns(&client, namespaces, writers, ROUNDS / 10).await;
            show(writers, turns(&client, namespaces, writers, ROUNDS).await);
        }
    });
    answering.shutdown_background();
}

/// Each writer changes its object in one namespace after the other.
async fn turns(
    client: &kube::Client,
    namespaces: [&String; 3],
    writers: usize,
    rounds: usize,
) -> [Vec<Duration>; 3] {
    let took = Mutex::new([const { Vec::new() }; 3]);
    let writing = (0..writers).map(|writer| {
        let (took, client) = (&took, client.clone());
        async move {
            for round in 0..rounds / writers {
                for (which, namespace) in namespaces.iter().enumerate() {
                    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
                    let note = json!({"metadata": {"annotations": {"round": round.to_string()}}});
                    let began = Instant::now();
                    let name = format!("web-{writer}");
                    api.patch(&name, &PatchParams::default(), &Patch::Merge(note))
                        .await
                        .unwrap();
                    took.lock().unwrap()[which].push(began.elapsed());
                }
            }
        }
    });
    futures::future::join_all(writing).await;
    took.into_inner().unwrap()
}

fn show(writers: usize, mut took: [Vec<Duration>; 3]) {
    for one in &mut took {
        one.sort();
    }
    let at = |which: usize, share: f64| {
        let one: &Vec<Duration> = &took[which];
        one[((one.len() as f64 * share) as usize).min(one.len() - 1)]
    };
    let milliseconds = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1e3);
    for (which, name) in ["nobody", "one that does nothing", "ours"]
        .iter()
        .enumerate()
    {
        let (median, slow) = (at(which, 0.5), at(which, 0.99));
        let (over, target) = if which == 2 {
            let over = slow.as_secs_f64() - at(1, 0.99).as_secs_f64();
            (format!("{:+.2} ms", over * 1e3), milliseconds(TARGET))
        } else {
            (String::new(), String::new())
        };
        let (median, slow) = (milliseconds(median), milliseconds(slow));
        println!("| {writers} | {name} | {median} | {slow} | {over} | {target} |");
    }
}

async fn create(client: &kube::Client, namespace: &str, writer: usize) {
    let name = format!("web-{writer}");
    let labels = json!({"app": name});
    let environment: Vec<Value> = (0..20)
        .map(|n| json!({"name": format!("VARIABLE_{n}"), "value": "a usual value of some length"}))
        .collect();
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{
                    "name": "web", "image": "registry.example.com/web:1.2.3", "env": environment,
                    "ports": [{"containerPort": 8080}],
                    "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
                }]},
            },
        },
    });
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let deployment = serde_json::from_value(deployment).unwrap();
    api.create(&PostParams::default(), &deployment)
        .await
        .unwrap();
}

/// As the operator writes it, for one namespace.
async fn register(client: &kube::Client, namespace: &str, port: u16, authority: &Authority) {
    let bundle = k8s_openapi::ByteString(authority.pem().into_bytes());
    let configuration = json!({
        "metadata": {"name": namespace},
        "webhooks": [{
            "name": format!("{namespace}.configbutler.ai"),
            "admissionReviewVersions": ["v1"], "sideEffects": "NoneOnDryRun",
            "failurePolicy": "Fail", "timeoutSeconds": 2, "matchPolicy": "Equivalent",
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "clientConfig": {
                "url": format!("https://127.0.0.1:{port}{}", admission::PATH), "caBundle": bundle,
            },
            "rules": [{
                "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"],
                "operations": ["CREATE", "UPDATE", "DELETE"],
            }],
        }],
    });
    let api: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let configuration = serde_json::from_value(configuration).unwrap();
    api.create(&PostParams::default(), &configuration)
        .await
        .unwrap();
}

/// The webhook of the operator.
async fn ours(plane: &ControlPlane, identity: &Identity) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let settings = AdmissionSettings {
        name: "ours".to_owned(),
        endpoint: Endpoint::Url(format!("https://127.0.0.1:{port}{}", admission::PATH)),
        namespace: "default".to_owned(),
        certificates: CertificateSource::Folder {
            folder: files(plane.dir(), identity),
            inject_from: None,
        },
        lifetimes: Lifetimes::default(),
        client_authority: None,
        owner_cluster_role: None,
    };
    let client = plane.client(User::Admin).unwrap();
    let taken = Mutex::new(Vec::new());
    let records: Records = Arc::new(move |record| {
        let mut taken = taken.lock().unwrap();
        taken.push(record);
        // As many as the operator keeps.
        if taken.len() == 10_000 {
            taken.clear();
        }
    });
    let telemetry = Telemetry::register(&mut metrics::registry());
    let until = CancellationToken::new();
    tokio::spawn(admission::serve(
        listener, client, settings, records, telemetry, until,
    ));
    port
}

fn files(folder: &Path, identity: &Identity) -> PathBuf {
    let folder = folder.join("webhook");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("tls.crt"), &identity.certificate_pem).unwrap();
    fs::write(folder.join("tls.key"), &identity.key_pem).unwrap();
    folder
}

/// The plainest webhook: reads the question and says yes.
async fn says_yes(identity: &Identity) -> u16 {
    let certificate = CertificateDer::from_pem_slice(identity.certificate_pem.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                stream.set_nodelay(true).unwrap();
                let stream = acceptor.accept(stream).await?;
                let service = service_fn(|request: hyper::Request<hyper::body::Incoming>| async {
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    let start = b"\"uid\":\"";
                    let at = body
                        .windows(start.len())
                        .position(|part| part == start)
                        .unwrap();
                    let uid = &body[at + start.len()..at + start.len() + 36];
                    let answer = json!({
                        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                        "response": {"uid": String::from_utf8_lossy(uid), "allowed": true},
                    });
                    let answer = Full::<bytes::Bytes>::from(answer.to_string());
                    Ok::<_, Infallible>(hyper::Response::new(answer))
                });
                let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                let _ = serving.await;
                Ok::<_, std::io::Error>(())
            });
        }
    });
    port
}
