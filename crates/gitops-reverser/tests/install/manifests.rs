//! Plain manifests: made from the chart, put together by kustomize.

use reverser_testkit::{command, tools};
use serde_json::Value;

use crate::chart::Helm;
use crate::repository;

/// Which templates of the chart make which file.
const MADE: &[(&str, &[&str])] = &[
    ("config/rbac/rbac.yaml", &["serviceaccount", "rbac"]),
    ("config/rbac/user_roles.yaml", &["user_roles"]),
    (
        "config/manager/manager.yaml",
        &["deployment", "poddisruptionbudget", "metrics"],
    ),
    ("config/webhook/webhook.yaml", &["webhook"]),
];

const BEGINNING: &str = "# Made from the chart: `make docs` writes it again.\n";

/// What kustomize makes of a folder.
#[track_caller]
pub(crate) fn kustomized(folder: &str) -> String {
    let home = tempfile::tempdir().unwrap();
    let mut kubectl = tools::sealed("kubectl", home.path());
    command::run(kubectl.arg("kustomize").arg(repository::path(folder))).stdout
}

#[test]
fn manifests_are_made_from_the_chart() {
    let helm = Helm::new();
    for (file, templates) in MADE {
        let mut made = BEGINNING.to_owned();
        for template in *templates {
            let show = ["--show-only", &format!("templates/{template}.yaml")];
            let rendered = command::run(&mut helm.template(&[], &show)).stdout;
            for line in rendered.lines() {
                let of_helm = line.starts_with("# Source:") || line.contains("helm.sh/chart:");
                if !of_helm && !line.trim().is_empty() {
                    made.push_str(&line.replace("managed-by: Helm", "managed-by: kustomize"));
                    made.push('\n');
                }
            }
        }
        repository::assert_current(file, &made);
    }
}

#[test]
fn kustomize_and_the_chart_install_the_same() {
    let without_labels = |mut object: Value| {
        object["metadata"]["labels"] = Value::Null;
        object["metadata"]["annotations"] = Value::Null;
        let template = object.pointer_mut("/spec/template/metadata");
        if let Some(metadata) = template {
            metadata["labels"] = Value::Null;
        }
        object
    };
    let mut chart: Vec<Value> = Helm::new().render(&[]);
    chart.retain(|object| object["kind"] != "Pod");
    let mut manifests = repository::documents(&kustomized("config/default"));
    manifests.retain(|object| object["kind"] != "Namespace");
    let sorted = |objects: Vec<Value>| {
        let mut named: Vec<_> = objects
            .into_iter()
            .map(|object| (repository::name(&object), without_labels(object)))
            .collect();
        named.sort_by(|one, other| one.0.cmp(&other.0));
        named
    };
    let (chart, manifests) = (sorted(chart), sorted(manifests));
    let names = |list: &[(String, Value)]| -> Vec<String> {
        list.iter().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(names(&chart), names(&manifests));
    for ((name, one), (_, other)) in chart.iter().zip(&manifests) {
        assert_eq!(one, other, "{name}");
    }
}

#[test]
fn every_namespace_that_manifests_use_is_created_by_them() {
    let objects = repository::documents(&kustomized("config/default"));
    repository::one(&objects, "Namespace/gitops-reverser");
    for object in &objects {
        let namespace = &object["metadata"]["namespace"];
        assert!(
            namespace.is_null() || namespace == "gitops-reverser",
            "{object}"
        );
    }
}
