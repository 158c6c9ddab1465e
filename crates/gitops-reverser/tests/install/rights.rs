//! The roles that are installed, held against what the API server saw the operator do.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::{Value, json};

use crate::chart::rights;
use crate::cluster::{Cluster, soon};
use crate::manifests::kustomized;
use crate::repository;

const OPERATOR: &str = "system:serviceaccount:gitops-reverser:gitops-reverser";

/// What the operator asked for since a position of the audit log: what it was given, and what not.
struct Asked {
    given: BTreeSet<String>,
    denied: BTreeMap<String, String>,
}

fn asked(cluster: &Cluster, since: usize) -> Asked {
    let log = fs::read(cluster.audit_log().unwrap()).unwrap();
    let (mut given, mut denied) = (BTreeSet::new(), BTreeMap::new());
    for line in String::from_utf8_lossy(&log[since..]).lines() {
        // The last line may be under way.
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let object = &event["objectRef"];
        if event["user"]["username"] != OPERATOR || object["resource"].is_null() {
            continue;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut resource = text(&object["resource"]);
        if let Some(part) = object["subresource"].as_str() {
            resource = format!("{resource}/{part}");
        }
        let right = format!(
            "{}/{resource} {}",
            text(&object["apiGroup"]),
            text(&event["verb"])
        );
        match event["annotations"]["authorization.k8s.io/decision"].as_str() {
            Some("forbid") => {
                denied.insert(right, text(&event["requestURI"]));
            }
            _ => {
                given.insert(right);
            }
        }
    }
    Asked { given, denied }
}

/// Every right that the installed roles give, but for one kind: what is mirrored is listed by watches
/// that begin with all objects, and by lists only where a server does not know these.
fn granted() -> BTreeSet<String> {
    let objects = repository::documents(&kustomized("config/default"));
    let of = |role: &str| rights(&repository::one(&objects, role)["rules"]);
    let mut mirrored = of("ClusterRole/gitops-reverser-read");
    mirrored.retain(|right| !right.ends_with(" list"));
    let own = of("ClusterRole/gitops-reverser").into_iter();
    own.chain(of("Role/gitops-reverser"))
        .chain(mirrored)
        .collect()
}

#[test]
fn the_operator_is_denied_nothing_and_uses_every_right_that_it_has() {
    let cluster = Cluster::take();
    let since = fs::read(cluster.audit_log().unwrap()).unwrap().len();
    let folder = repository::path("config/default").display().to_string();
    cluster.kubectl(&["apply", "--server-side", "-k", &folder]);
    cluster.kubectl(&["create", "namespace", "rights-shop"]);
    cluster.mirror("rights-shop", "Redact");
    cluster.apply(&json!({
        "apiVersion": "configbutler.ai/v1alpha1", "kind": "ClusterWatchRule",
        "metadata": {"name": "rights"},
        "spec": {
            "destinationRef": {"name": "mirror", "namespace": "rights-shop"},
            "rules": [{"scope": "Cluster"}, {"scope": "Namespaced"}],
        },
    }));
    cluster.await_file("core/v1/configmaps/rights-shop/web.yaml");
    cluster.await_file("clusterroles/gitops-reverser.yaml");
    let ready = [
        "wait",
        "--for=condition=Ready",
        "--timeout=110s",
        "-n",
        "rights-shop",
    ];
    let mirror = |arguments: &[&str]| cluster.kubectl(&[&ready[..], arguments].concat());
    mirror(&[
        "gitdestination/mirror",
        "gitrepoconfig/mirror",
        "watchrule/mirror",
    ]);
    cluster.kubectl(&[
        "wait",
        "--for=condition=Ready",
        "--timeout=110s",
        "clusterwatchrule/rights",
    ]);
    // What happens again is told by counting the first event.
    for suspend in ["true", "false", "true", "false"] {
        let patch = format!("{{\"spec\":{{\"suspend\":{suspend}}}}}");
        let destination = ["patch", "gitdestination", "mirror", "-n", "rights-shop"];
        cluster.kubectl(&[&destination[..], &["--type=merge", "-p", &patch]].concat());
        let wanted = format!("--for=condition=Ready={}", suspend != "true");
        let wait = ["wait", "--timeout=110s", "-n", "rights-shop"];
        cluster.kubectl(&[&wait[..], &[&wanted, "gitdestination/mirror"]].concat());
    }

    let mut granted = granted();
    // Certificates are renewed after months.
    assert!(granted.remove("/secrets update"));
    soon("every right to be used", || {
        let asked = asked(&cluster, since);
        assert!(asked.denied.is_empty(), "denied: {:#?}", asked.denied);
        let idle: Vec<_> = granted.difference(&asked.given).cloned().collect();
        if idle.is_empty() {
            Ok(())
        } else {
            Err(format!("never used: {idle:#?}"))
        }
    });
    cluster.kubectl(&["delete", "-k", &folder, "--timeout=180s"]);
    cluster.kubectl(&["delete", "namespace", "rights-shop", "--timeout=110s"]);
}
