//! The roles that are installed, held against what the API server saw the operator do: nothing that it
//! asked for was denied, and without any one right something that it asked for would have been.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use reverser_testkit::command;
use serde_json::{Value, json};

use crate::chart::{NAMESPACE, rights};
use crate::cluster::{Cluster, soon};
use crate::manifests::kustomized;
use crate::repository;

const OPERATOR: &str = "system:serviceaccount:gitops-reverser:gitops-reverser";

/// One request to the API server, as its log has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    /// `group/resource verb`, as a role gives it.
    right: String,
    namespace: String,
    name: String,
}

/// The smallest part of a role that can be taken away.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Grant {
    right: String,
    /// Where it counts; everywhere if there is none.
    namespace: Option<String>,
    /// For which object; for every one if there is none.
    name: Option<String>,
}

impl Grant {
    fn allows(&self, asked: &Asked) -> bool {
        let fits = |limit: &Option<String>, value: &str| {
            limit.as_deref().is_none_or(|limit| limit == value)
        };
        self.right == asked.right
            && fits(&self.namespace, &asked.namespace)
            && fits(&self.name, &asked.name)
    }
}

/// Every part of a role.
fn grants(role: &Value) -> BTreeSet<Grant> {
    let namespace = role["metadata"]["namespace"].as_str().map(str::to_owned);
    let mut grants = BTreeSet::new();
    for rule in role["rules"].as_array().unwrap() {
        let names: Vec<Option<String>> = match rule["resourceNames"].as_array() {
            None => vec![None],
            Some(names) => names
                .iter()
                .map(|name| Some(name.as_str().unwrap().to_owned()))
                .collect(),
        };
        for right in rights(&json!([rule])) {
            grants.extend(names.iter().map(|name| Grant {
                right: right.clone(),
                namespace: namespace.clone(),
                name: name.clone(),
            }));
        }
    }
    grants
}

/// Those grants without which nothing that was asked for would be denied.
fn idle<'a>(grants: &'a BTreeSet<Grant>, asked: &BTreeSet<Asked>) -> Vec<&'a Grant> {
    let needed = |grant: &&Grant| {
        asked.iter().any(|asked| {
            let mut others = grants.iter().filter(|other| other != grant);
            grant.allows(asked) && !others.any(|other| other.allows(asked))
        })
    };
    grants.iter().filter(|grant| !needed(grant)).collect()
}

/// What the operator asked for since a position of the audit log: what it was given, and what not.
fn asked(cluster: &Cluster, since: usize) -> (BTreeSet<Asked>, BTreeMap<Asked, String>) {
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
        let verb = text(&event["verb"]);
        let asked = Asked {
            right: format!("{}/{resource} {verb}", text(&object["apiGroup"])),
            namespace: text(&object["namespace"]),
            // What is created has no name yet when rights are looked at.
            name: if verb == "create" {
                String::new()
            } else {
                text(&object["name"])
            },
        };
        match event["annotations"]["authorization.k8s.io/decision"].as_str() {
            Some("forbid") => {
                denied.insert(asked, text(&event["requestURI"]));
            }
            _ => {
                given.insert(asked);
            }
        }
    }
    (given, denied)
}

#[test]
fn a_right_that_is_covered_by_another_or_never_used_is_idle() {
    let role = json!({
        "metadata": {"namespace": "home"},
        "rules": [
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]},
            {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["key"], "verbs": ["get"]},
        ],
    });
    let get = |namespace: &str, name: &str| Asked {
        right: "/secrets get".to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let of = |asked: &[Asked]| {
        let (grants, asked) = (grants(&role), asked.iter().cloned().collect());
        let idle = idle(&grants, &asked).into_iter();
        idle.map(|grant| format!("{} {:?}", grant.right, grant.name))
            .collect::<Vec<_>>()
    };
    let (covered, unused) = ("/secrets get Some(\"key\")", "/secrets list None");
    assert_eq!(
        of(&[get("home", "key"), get("home", "other")]),
        [covered, unused]
    );
    assert_eq!(of(&[get("elsewhere", "other")]).len(), 3);
}

#[test]
fn the_operator_is_denied_nothing_and_one_right_less_would_deny_it_something() {
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
    // Certificates are renewed after months, or when they cannot be used.
    soon("certificates to be broken", || {
        let secret = "gitops-reverser-webhook-certificate";
        let broken = r#"[{"op": "remove", "path": "/data/tls.crt"}]"#;
        let mut kubectl = cluster.person("kubectl");
        kubectl.args(["-n", NAMESPACE, "patch", "secret", secret]);
        let patched = command::try_run(kubectl.args(["--type=json", "-p", broken]));
        patched.map_err(|error| error.to_string())
    });
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

    let objects = repository::documents(&kustomized("config/default"));
    let mut own = grants(repository::one(&objects, "Role/gitops-reverser"));
    own.extend(grants(repository::one(
        &objects,
        "ClusterRole/gitops-reverser",
    )));
    // What is mirrored is listed by watches that begin with all objects, and by lists only where a
    // server does not know these. Which types it is, whoever installs it decides: it is no part of
    // what the operator cannot do without.
    let mut mirrored = grants(repository::one(
        &objects,
        "ClusterRole/gitops-reverser-read",
    ));
    mirrored.retain(|grant| !grant.right.ends_with(" list"));
    soon("every right to be used", || {
        let (given, denied) = asked(&cluster, since);
        assert!(denied.is_empty(), "denied: {denied:#?}");
        let idle = [idle(&own, &given), idle(&mirrored, &given)].concat();
        if idle.is_empty() {
            Ok(())
        } else {
            Err(format!("nothing would be denied without: {idle:#?}"))
        }
    });
    cluster.kubectl(&["delete", "-k", &folder, "--timeout=180s"]);
    cluster.kubectl(&["delete", "namespace", "rights-shop", "--timeout=110s"]);
}
