use reverser_core::labels::{LabelSelector as Selector, Requirement};
use reverser_core::object_key::TypeKey;
use reverser_core::plan::Operations;
use reverser_core::selection::{Names, RulePart};
use serde_json::{Value, json};

use super::*;
use crate::identity::{Id, RuleId};
use crate::routing::Route;

fn need(group: &str, version: &str, resource: &str, reach: &[Reach]) -> Need {
    let places = reach.iter().map(|reach| match reach {
        Reach::Namespace(name) => Some(name.clone()),
        _ => None,
    });
    let route = |reach: &Reach| Route {
        destination: Id::new("shop", "prod"),
        rule: RuleId::Cluster("rule".into()),
        selector: Selector::default(),
        part: RulePart {
            operations: Operations {
                create: true,
                update: true,
                delete: true,
            },
            groups: Names::All,
            versions: Names::All,
            resources: Vec::new(),
            include_owned: false,
            reach: reach.clone(),
        },
        named_although_excluded: false,
    };
    Need {
        served: ServedType {
            key: TypeKey::new(group, version, resource).unwrap(),
            kind: "Kind".into(),
            namespaced: !reach.contains(&Reach::Cluster),
            preferred: true,
            scale: resource == "deployments",
        },
        namespaces: places.collect(),
        routes: reach.iter().map(route).collect(),
    }
}

fn in_namespace(name: &str) -> Reach {
    Reach::Namespace(name.to_owned())
}

fn everywhere() -> Reach {
    Reach::Namespaces(Selector::default())
}

fn watched(needs: Vec<Need>) -> Watched {
    let mut routing = Routing::default();
    for need in needs {
        routing.needs.insert(need.served.key.clone(), need);
    }
    let labels = Labels::from([("tier".to_owned(), "system".to_owned())]);
    Watched::of(
        &routing,
        &BTreeMap::from([(KUBE_SYSTEM.to_owned(), labels)]),
    )
}

fn frame() -> Frame {
    Frame {
        name: "gitops-reverser".into(),
        endpoint: Endpoint::Service {
            namespace: "gitops".into(),
            name: "hook".into(),
        },
        own_namespace: "gitops".into(),
        owner: None,
    }
}

fn webhooks(needs: Vec<Need>) -> Vec<Value> {
    let trust = Trust::Authorities("pem".into());
    let wanted = wanted(&frame(), &watched(needs), &trust, None);
    let webhooks = wanted.webhooks.iter().flatten();
    webhooks
        .map(|one| serde_json::to_value(one).unwrap())
        .collect()
}

#[test]
fn what_is_watched_everywhere_is_asked_about_everywhere_but_at_home_and_in_kube_system() {
    let no_system = Selector::all_of(vec![Requirement::DoesNotExist("tier".into())]);
    let webhooks = webhooks(vec![
        need("apps", "v1", "deployments", &[Reach::Namespaces(no_system)]),
        need(
            "rbac.authorization.k8s.io",
            "v1",
            "clusterroles",
            &[Reach::Cluster],
        ),
    ]);
    let rule = |group: &str, resources: &[&str], scope: &str| {
        json!({
            "apiGroups": [group], "apiVersions": ["v1"], "resources": resources, "scope": scope,
            "operations": ["CREATE", "UPDATE", "DELETE"],
        })
    };
    let expected = json!({
        "name": "authors.configbutler.ai",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {
            "caBundle": "cGVt",
            "service": {
                "namespace": "gitops", "name": "hook", "port": 443,
                "path": "/process-validating-webhook",
            },
        },
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {"matchExpressions": [{
            "key": "kubernetes.io/metadata.name", "operator": "NotIn",
            "values": ["gitops", "kube-system"],
        }]},
        "objectSelector": {},
        "rules": [
            rule("apps", &["deployments", "deployments/scale"], "Namespaced"),
            rule("rbac.authorization.k8s.io", &["clusterroles"], "Cluster"),
            {
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["namespaces"],
                "scope": "Cluster", "operations": ["DELETE"],
            },
        ],
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": 2,
    });
    assert_eq!(webhooks, [expected]);
}

#[test]
fn kube_system_is_asked_about_where_a_rule_selects_objects_there() {
    let left_out = |reach: Reach| {
        let webhooks = webhooks(vec![need("", "v1", "configmaps", &[reach])]);
        webhooks[0]["namespaceSelector"]["matchExpressions"][0]["values"].clone()
    };
    assert_eq!(left_out(everywhere()), json!(["gitops"]));
    let system = Requirement::In("tier".into(), vec!["system".into()]);
    let only_system = Reach::Namespaces(Selector::all_of(vec![system]));
    assert_eq!(left_out(only_system), json!(["gitops"]));
}

#[test]
fn what_is_watched_in_some_namespaces_is_asked_about_there_only() {
    let webhooks = webhooks(vec![
        need(
            "",
            "v1",
            "configmaps",
            &[in_namespace("shop"), in_namespace("gitops")],
        ),
        need("", "v1", "secrets", &[in_namespace("kube-system")]),
        need(
            "apps",
            "v1",
            "deployments",
            &[everywhere(), in_namespace("shop")],
        ),
    ]);
    let place = |at: usize| webhooks[at]["namespaceSelector"]["matchExpressions"][0].clone();
    let resources = |at: usize| {
        let rules = webhooks[at]["rules"].as_array().unwrap().iter();
        let all = rules.map(|rule| rule["resources"][0].clone());
        Value::Array(all.collect())
    };
    assert_eq!(resources(0), json!(["deployments", "namespaces"]));
    assert_eq!(resources(1), json!(["configmaps", "secrets", "namespaces"]));
    assert_eq!(place(1)["operator"], "In");
    assert_eq!(place(1)["values"], json!(["kube-system", "shop"]));
    assert_eq!(webhooks[1]["name"], "namespace-authors.configbutler.ai");
}

#[test]
fn the_deletion_of_namespaces_is_asked_about_once_and_only_where_something_is_watched_in_them() {
    let rules = |needs: Vec<Need>| -> Vec<Value> {
        let webhooks = webhooks(needs).into_iter();
        let rules = webhooks.flat_map(|webhook| webhook["rules"].as_array().unwrap().clone());
        let of_namespaces = |rule: &Value| rule["resources"] == json!(["namespaces"]);
        let found = rules.filter(of_namespaces);
        found.map(|rule| rule["operations"].clone()).collect()
    };
    let maps = need("", "v1", "configmaps", &[in_namespace("shop")]);
    let nodes = need("", "v1", "nodes", &[Reach::Cluster]);
    let namespaces = need("", "v1", "namespaces", &[Reach::Cluster]);
    assert!(rules(vec![nodes.clone()]).is_empty());
    assert_eq!(rules(vec![maps.clone(), nodes]), [json!(["DELETE"])]);
    let all = json!(["CREATE", "UPDATE", "DELETE"]);
    assert_eq!(rules(vec![maps, namespaces]), [all]);
}

#[test]
fn leases_and_events_are_never_asked_about_and_nothing_means_no_webhook() {
    let noise = vec![
        need("coordination.k8s.io", "v1", "leases", &[everywhere()]),
        need("", "v1", "events", &[everywhere()]),
        need("events.k8s.io", "v1", "events", &[in_namespace("shop")]),
    ];
    assert!(webhooks(noise).is_empty());
    // Home is never asked about.
    assert!(webhooks(vec![need("", "v1", "pods", &[in_namespace("gitops")])]).is_empty());
}

#[test]
fn what_others_wrote_into_the_configuration_stays_and_what_is_ours_comes_back() {
    let watched = watched(vec![need("", "v1", "configmaps", &[everywhere()])]);
    let injected = Trust::Injected("gitops/webhook".into());
    let mut live = wanted(&frame(), &watched, &injected, None);
    assert!(!is_complete(&live, &injected), "nobody is trusted yet");
    let annotations = live.metadata.annotations.as_mut().unwrap();
    assert_eq!(annotations[INJECT_ANNOTATION], "gitops/webhook");
    annotations.insert("somebody".into(), "else".into());
    live.metadata.resource_version = Some("7".into());
    let webhook = &mut live.webhooks.as_mut().unwrap()[0];
    webhook.client_config.ca_bundle = Some(ByteString(b"injected".to_vec()));
    let same = wanted(&frame(), &watched, &injected, Some(&live));
    assert_eq!(same, live);
    assert!(is_complete(&same, &injected));
    let mut changed = live.clone();
    let webhook = &mut changed.webhooks.as_mut().unwrap()[0];
    webhook.failure_policy = Some("Fail".into());
    assert_eq!(wanted(&frame(), &watched, &injected, Some(&changed)), live);
}

#[test]
fn the_owner_is_named_once_and_replaced_when_it_was_made_anew() {
    let owner = |uid: &str| OwnerReference {
        api_version: "rbac.authorization.k8s.io/v1".into(),
        kind: "ClusterRole".into(),
        name: "gitops-reverser".into(),
        uid: uid.into(),
        ..OwnerReference::default()
    };
    let frame = |uid: &str| Frame {
        owner: Some(owner(uid)),
        ..frame()
    };
    let made = |uid: &str, live| wanted(&frame(uid), &Watched::default(), &Trust::System, live);
    let first = made("1", None);
    let again = made("1", Some(&first));
    assert_eq!(again, first);
    let other = made("2", Some(&first));
    assert_eq!(other.metadata.owner_references, Some(vec![owner("2")]));
}
