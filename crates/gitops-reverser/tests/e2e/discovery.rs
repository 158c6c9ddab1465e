//! What a real API server says that it serves, also when it does not say it well.

use std::process::Command;
use std::time::Duration;

use gitops_reverser::api_read;
use gitops_reverser::discovery::{DiscoveryError, discover};
use reverser_core::catalogue::Catalogue;
use reverser_core::object_key::TypeKey;
use reverser_testkit::command;
use reverser_testkit::control_plane::{ControlPlane, User};
use reverser_testkit::fault_proxy::{Fault, FaultProxy};
use reverser_testkit::wait;
use serde_json::{Value, json};

use crate::observer::{Observer, SOON, quick, scope};

fn apply(mut kubectl: Command, object: &Value) {
    kubectl.args(["apply", "-f", "-"]);
    command::run_with_input(&mut kubectl, object.to_string().as_bytes());
}

/// A definition whose group nobody else uses.
fn definition(group: &str, versions: &[&str]) -> Value {
    let schema = json!({"openAPIV3Schema":
        {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let versions = versions.iter().enumerate().map(
        |(at, name)| json!({"name": name, "served": true, "storage": at == 0, "schema": schema}),
    );
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("cones.{group}")},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "cones", "singular": "cone", "kind": "Cone", "listKind": "Cornet"},
            "versions": versions.collect::<Vec<_>>(),
        },
    })
}

fn key(group: &str, version: &str, resource: &str) -> TypeKey {
    TypeKey::new(group, version, resource).unwrap()
}

#[tokio::test]
async fn everything_that_can_be_watched_is_found_in_both_forms() {
    let plane = ControlPlane::builder().start().unwrap();
    let client = plane.client(User::Alice).unwrap();
    let found = discover(&client, &Catalogue::default()).await.unwrap();
    assert!(found.failed_groups.is_empty(), "{:?}", found.failed_groups);
    let catalogue = found.catalogue;

    let maps = catalogue.get(&key("", "v1", "configmaps")).unwrap();
    assert!(maps.kind == "ConfigMap" && maps.namespaced && maps.preferred);
    let namespaces = catalogue.get(&key("", "v1", "namespaces")).unwrap();
    assert!(!namespaces.namespaced);
    let scalers = catalogue.preferred("autoscaling", "horizontalpodautoscalers");
    assert_eq!(scalers.unwrap().key.version(), "v2");
    // These cannot be watched, or are parts of others.
    assert_eq!(catalogue.get(&key("", "v1", "componentstatuses")), None);
    assert_eq!(catalogue.get(&key("", "v1", "bindings")), None);
    assert!(catalogue.iter().all(|served| !served.kind.is_empty()));

    let config = plane.kube_config(User::Alice);
    let proxy = FaultProxy::start(&config);
    proxy.fault("/api", Fault::Accept("application/json"), usize::MAX);
    let client = api_read::client(proxy.kube_config(config)).unwrap();
    let found = discover(&client, &Catalogue::default()).await.unwrap();
    assert!(found.failed_groups.is_empty(), "{:?}", found.failed_groups);
    assert_eq!(found.catalogue, catalogue);
    assert!(proxy.seen().contains(&"GET /apis/apps/v1".to_owned()));
}

#[tokio::test]
async fn a_definition_is_found_when_it_comes_and_its_objects_are_lost_when_it_goes() {
    const GROUP: &str = "coming.example.com";
    let plane = ControlPlane::shared();
    let client = plane.client(User::Alice).unwrap();
    let cones = key(GROUP, "v1", "cones");
    let find = async || {
        let found = discover(&client, &Catalogue::default()).await.unwrap();
        found.catalogue
    };
    assert_eq!(find().await.get(&cones), None);

    let config = plane.kube_config(User::Alice);
    let everywhere = scope((GROUP, "v1", "cones"), "Cone", None);
    let mut early = Observer::start(config.clone(), quick(), everywhere.clone());
    early.until_told("lost NotFound", 1).await;

    apply(
        plane.kubectl(User::Alice),
        &definition(GROUP, &["v1", "v1beta1"]),
    );
    let versions = wait::until("the type to be served", SOON, async || {
        let catalogue = find().await;
        let versions = catalogue.versions_of(GROUP, "cones").to_vec();
        (versions.len() == 2).then_some(versions)
    });
    let versions = versions.await.unwrap();
    assert_eq!(versions[0].key, cones);
    assert!(versions[0].preferred && !versions[1].preferred && versions[0].namespaced);

    let namespace = plane.namespace("cones");
    let cone = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Cone",
        "metadata": {"name": "vanilla", "namespace": namespace}});
    apply(plane.kubectl(User::Alice), &cone);
    early
        .until("the object", |seen| seen.names() == ["vanilla"])
        .await;
    let mut late = Observer::start(config, quick(), everywhere);
    late.until_told("Complete 1", 1).await;

    command::run(
        plane
            .kubectl(User::Alice)
            .args(["delete", "crd", &format!("cones.{GROUP}")]),
    );
    for observer in [&mut early, &mut late] {
        observer.until_told("gone vanilla", 1).await;
        let before = observer.told("lost NotFound");
        observer.until_told("lost NotFound", before + 1).await;
    }
    wait::until("the type to be gone", SOON, async || {
        find().await.get(&cones).is_none()
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_group_whose_server_is_down_is_named_and_keeps_its_types() {
    const GROUP: &str = "down.example.com";
    let plane = ControlPlane::builder().start().unwrap();
    let client = plane.client(User::Alice).unwrap();
    let service = json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": format!("v1.{GROUP}")},
        "spec": {"group": GROUP, "version": "v1", "groupPriorityMinimum": 100,
            "versionPriority": 10, "insecureSkipTLSVerify": true,
            "service": {"name": "nobody", "namespace": "default"}},
    });
    // Served by the API server itself, then by a server that does not answer.
    apply(plane.kubectl(User::Alice), &definition(GROUP, &["v1"]));
    let cones = key(GROUP, "v1", "cones");
    let known = wait::until("the type to be served", SOON, async || {
        let found = discover(&client, &Catalogue::default()).await.unwrap();
        found
            .catalogue
            .get(&cones)
            .is_some()
            .then_some(found.catalogue)
    });
    let known = known.await.unwrap();
    command::run(
        plane
            .kubectl(User::Alice)
            .args(["delete", "crd", &format!("cones.{GROUP}")]),
    );
    wait::until("the group to be gone", SOON, async || {
        let found = discover(&client, &Catalogue::default()).await.unwrap();
        found.catalogue.get(&cones).is_none()
    })
    .await
    .unwrap();
    apply(plane.kubectl(User::Alice), &service);

    let found = wait::until("the group to be stale", SOON, async || {
        let found = discover(&client, &known).await.unwrap();
        (!found.failed_groups.is_empty()).then_some(found)
    });
    let found = found.await.unwrap();
    assert_eq!(found.failed_groups[0].group, GROUP);
    assert_eq!(found.failed_groups.len(), 1);
    assert_eq!(found.catalogue, known);

    // Servers without aggregated documents have the same trouble.
    let config = plane.kube_config(User::Alice);
    let proxy = FaultProxy::start(&config);
    proxy.fault("/api", Fault::Accept("application/json"), usize::MAX);
    let client = api_read::client(proxy.kube_config(config)).unwrap();
    let found = discover(&client, &known).await.unwrap();
    assert_eq!(found.failed_groups[0].group, GROUP);
    assert!(found.failed_groups[0].reason.contains("503"));
    assert_eq!(found.catalogue, known);
}

#[tokio::test]
async fn an_answer_that_is_missing_broken_or_empty_changes_nothing() {
    let plane = ControlPlane::shared();
    let config = plane.kube_config(User::Alice);
    let proxy = FaultProxy::start(&config);
    let client = api_read::client(proxy.kube_config(config)).unwrap();
    let empty = r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[]}"#;
    let none = r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[]}"#;
    for root in ["/apis", "/api"] {
        // `/apis` only, or `/api` only: the words are looked for in the first line.
        let line = if root == "/apis" {
            "GET /apis"
        } else {
            "GET /api"
        };
        for (fault, expected) in [
            (Fault::answer(500, "broken"), "Ask"),
            (Fault::answer(403, "no"), "Ask"),
            (Fault::CutAfter(200), "Ask"),
            (Fault::Close, "Ask"),
            (Fault::answer(200, ""), "Document"),
            (Fault::answer(200, "<html>"), "Document"),
            (Fault::answer(200, empty), "Empty"),
            (Fault::answer(200, none), "Empty"),
        ] {
            println!("{line} {fault:?}");
            proxy.fault(line, fault, usize::MAX);
            let error = discover(&client, &Catalogue::default()).await.unwrap_err();
            let which = match &error {
                DiscoveryError::Ask { .. } => "Ask",
                DiscoveryError::Document { .. } => "Document",
                DiscoveryError::Empty { .. } => "Empty",
            };
            assert_eq!(which, expected, "{error}");
            proxy.heal();
        }
    }
    proxy.fault("GET /apis", Fault::answer(406, ""), 1);
    let found = discover(&client, &Catalogue::default()).await.unwrap();
    assert!(
        found
            .catalogue
            .get(&key("apps", "v1", "deployments"))
            .is_some()
    );
    proxy.fault("GET /apis", Fault::Delay(Duration::from_millis(300)), 1);
    assert!(discover(&client, &found.catalogue).await.is_ok());
}
