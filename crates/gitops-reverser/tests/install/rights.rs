//! The roles that are installed, held against what the API server saw the operator do.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::{Value, json};

use crate::chart::{NAMESPACE, rights};
use crate::cluster::{Cluster, soon};
use crate::manifests::kustomized;
use crate::repository;

const OPERATOR: &str = "system:serviceaccount:gitops-reverser:gitops-reverser";

/// Rights that this run does not use, and when they are used.
const ELSEWHERE: &[(&str, &str)] = &[];

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

/// Every right that the installed roles give.
fn granted() -> BTreeSet<String> {
    let objects = repository::documents(&kustomized("config/default"));
    let roles = [
        "ClusterRole/gitops-reverser",
        "ClusterRole/gitops-reverser-read",
        "Role/gitops-reverser",
    ];
    let rules = roles.map(|role| rights(&repository::one(&objects, role)["rules"]));
    rules.into_iter().flatten().collect()
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
        "--timeout=120s",
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
        "--timeout=120s",
        "clusterwatchrule/rights",
    ]);
    // Trouble that comes again is told by counting the first event.
    for value in ["one", "two"] {
        cluster
            .repository
            .hook("pre-receive", "echo closed >&2; exit 1");
        let literal = format!("--from-literal=a={value}");
        let map = ["create", "configmap", value, "-n", "rights-shop", &literal];
        cluster.kubectl(&map);
        let refused = ["--for=condition=Ready=False", "gitdestination/mirror"];
        let wait = ["wait", "--timeout=120s", "-n", "rights-shop"];
        cluster.kubectl(&[&wait[..], &refused].concat());
        cluster.repository.remove_hook("pre-receive");
        mirror(&["gitdestination/mirror"]);
    }

    let granted = granted();
    let excused: BTreeSet<String> = ELSEWHERE
        .iter()
        .map(|(right, _)| (*right).to_owned())
        .collect();
    soon("every right to be used", || {
        let asked = asked(&cluster, since);
        assert!(asked.denied.is_empty(), "denied: {:#?}", asked.denied);
        let idle: Vec<_> = granted
            .difference(&asked.given)
            .filter(|right| !excused.contains(*right))
            .cloned()
            .collect();
        if idle.is_empty() {
            Ok(())
        } else {
            Err(format!("never used: {idle:#?}"))
        }
    });
    cluster.kubectl(&["delete", "-k", &folder, "--timeout=180s"]);
    cluster.kubectl(&["delete", "namespace", "rights-shop", "--timeout=120s"]);
    let _ = NAMESPACE;
}
