//! Certificates that end while the API server asks.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use gitops_reverser::admission::{CertificateSource, Lifetimes};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::{Patch, PatchParams};
use reverser_testkit::certificates::Authority;
use reverser_testkit::control_plane::{ControlPlane, User};
use reverser_testkit::wait;
use serde_json::json;
use tokio::runtime::Builder;

use super::caller::Caller;
use super::registering::{await_asked, await_resources, rule_on};
use super::webhook::{SOON, Webhook};
use crate::operator::installation::Installation;

/// Long enough for a busy machine to be late, short enough to see all of it.
const LIFETIMES: Lifetimes = Lifetimes {
    authority: Duration::from_secs(36),
    serving: Duration::from_secs(18),
    announced: Duration::from_secs(4),
};

/// More than the connections that an API server keeps: some are new all the time.
const WRITERS: usize = 40;

/// Between two changes of a writer: no call may wait for the machine longer than a webhook may take.
const PAUSE: Duration = Duration::from_secs(1);

/// All lifetimes, and what a busy machine adds.
const ENOUGH: Duration = Duration::from_mins(4);

/// What the API server counts about our webhooks: calls that were answered, and all others.
async fn calls(client: &kube::Client) -> (f64, f64) {
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    let metrics = client.request_text(request).await.unwrap();
    let ours = metrics
        .lines()
        .filter(|line| line.contains("authors.configbutler.ai"));
    let (mut answered, mut others) = (0.0, 0.0);
    for line in ours {
        let value: f64 = line.rsplit(' ').next().unwrap().parse().unwrap();
        if line.starts_with("apiserver_admission_webhook_request_total") {
            if line.contains("code=\"200\"") && line.contains("rejected=\"false\"") {
                answered += value;
            } else {
                others += value;
            }
        }
        let failures = [
            "apiserver_admission_webhook_fail_open_count",
            "apiserver_admission_webhook_rejection_count",
        ];
        if failures.iter().any(|name| line.starts_with(name)) {
            others += value;
        }
    }
    (answered, others)
}

/// Changes an object again and again, each writer its own.
async fn write(client: &kube::Client, namespace: &str, stop: &AtomicBool) -> u32 {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let count = AtomicU32::new(0);
    let writers = (0..WRITERS).map(|number| {
        let (api, done) = (&api, &count);
        async move {
            let name = format!("load-{number}");
            let mut count = 0;
            while !stop.load(Ordering::Relaxed) {
                count += 1;
                let change = json!({
                    "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
                    "data": {"value": count.to_string()},
                });
                let params = PatchParams::apply("load");
                api.patch(&name, &params, &Patch::Apply(change))
                    .await
                    .unwrap();
                done.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(PAUSE).await;
            }
        }
    });
    futures::future::join_all(writers).await;
    count.into_inner()
}

/// Every authority and every serving certificate that was ever in use, until there were enough.
async fn watch_certificates(client: &kube::Client, namespace: &str) -> String {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let (mut authorities, mut serving) = (BTreeSet::new(), BTreeSet::new());
    let enough = wait::until("two authorities came and went", ENOUGH, async || {
        let name = format!("{namespace}-webhook-certificate");
        let secret = api.get(&name).await.unwrap();
        let mut data = secret.data.unwrap();
        authorities.insert(data.remove("ca.crt").unwrap().0);
        serving.insert(data.remove("tls.crt").unwrap().0);
        let (trusted, shown) = (authorities.len(), serving.len());
        let seen = format!("{trusted} states of trust, {shown} serving certificates");
        if trusted >= 4 && shown >= 5 {
            Ok(seen)
        } else {
            Err(seen)
        }
    });
    enough.await.unwrap()
}

#[test]
fn certificates_are_replaced_under_load_without_a_failed_call() {
    // Its counters are about this test alone.
    let mut world = Installation::alone("rotation");
    let mut webhook = Webhook::part_of(&mut world);
    webhook.settings.lifetimes = LIFETIMES;
    webhook.start();
    world.settings.admission = Some(webhook.settings.clone());
    world.run();
    world.apply(&world.rule("rule", &rule_on(&["configmaps"])));
    await_resources(&world, &webhook, &["configmaps"]);
    await_asked(&world, &webhook);

    let plane: &ControlPlane = &world.plane;
    let (home, namespace) = (&webhook.settings.namespace, &world.namespace);
    let stop = AtomicBool::new(false);
    let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
    let looking = runtime();
    let client = looking.block_on(async { plane.client(User::Alice).unwrap() });
    let (before, failed_before) = looking.block_on(calls(&client));
    let writes = thread::scope(|scope| {
        let writing = scope.spawn(|| {
            runtime().block_on(async {
                let client = plane.client(User::Alice).unwrap();
                write(&client, namespace, &stop).await
            })
        });
        let enough = looking.block_on(watch_certificates(&client, home));
        stop.store(true, Ordering::Relaxed);
        println!("{enough}");
        writing.join().unwrap()
    });
    let (after, failed_after) = looking.block_on(calls(&client));
    println!("{writes} writes, {} calls", after - before);
    assert!(
        after - before >= f64::from(writes),
        "every write was asked about"
    );
    let failed = failed_after - failed_before;
    assert!(failed < 0.5, "{failed} calls failed");
}

/// What cert-manager leaves in a folder, one file after the other.
fn write_certificates(folder: &Path, authority: &Authority, trusted: &str) {
    let identity = authority.issue(&["127.0.0.1"]).unwrap();
    for (name, text) in [
        ("ca.crt", trusted),
        ("tls.crt", &identity.certificate_pem),
        ("tls.key", &identity.key_pem),
    ] {
        let new = folder.join(format!("{name}.new"));
        fs::write(&new, text).unwrap();
        fs::rename(&new, folder.join(name)).unwrap();
    }
}

#[test]
fn files_that_somebody_replaces_are_used_without_a_restart() {
    let mut world = Installation::prepare("files");
    let mut webhook = Webhook::part_of(&mut world);
    let folder = world.folder.path().join("certificates");
    fs::create_dir(&folder).unwrap();
    let old = Authority::new("old").unwrap();
    write_certificates(&folder, &old, &old.pem());
    webhook.settings.certificates = CertificateSource::Folder {
        folder: folder.clone(),
        inject_from: None,
    };
    webhook.start();
    world.settings.admission = Some(webhook.settings.clone());
    world.run();
    world.apply(&world.rule("rule", &rule_on(&["configmaps"])));
    await_resources(&world, &webhook, &["configmaps"]);
    await_asked(&world, &webhook);

    let shows = |authority: &Authority| {
        let called = Caller::connect(webhook.port(), &authority.pem(), None);
        called.and_then(|mut caller| caller.post(b"{}"))
    };
    let new = Authority::new("new").unwrap();
    assert!(shows(&old).is_ok() && shows(&new).is_err());
    write_certificates(&folder, &new, &new.pem());
    wait::until_blocking("the new certificate", SOON, || {
        shows(&new).map(|_| ()).map_err(|error| error.to_string())
    })
    .unwrap_or_else(|error| panic!("{error}"));
    assert!(shows(&old).is_err(), "the old one is no longer shown");
    // The API server has learnt whom to trust.
    let mut count = 0;
    webhook.await_told("alice creates configmaps after", || {
        count += 1;
        world.kubectl(&["create", "configmap", "after"]);
        world.kubectl(&["delete", "configmap", "after"]);
    });
    println!("asked after {count} changes");
}
