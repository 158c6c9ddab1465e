//! The definitions of the four kinds, and their text.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition,
};
use kube::CustomResourceExt as _;
use reverser_core::{json_read, manifest_yaml};
use serde_json::Value;

use crate::{ClusterWatchRule, GitDestination, GitRepoConfig, WatchRule};

/// The definitions of the four kinds, in the order in which a user creates objects of them.
#[must_use]
pub fn crds() -> Vec<CustomResourceDefinition> {
    [
        GitRepoConfig::crd(),
        GitDestination::crd(),
        WatchRule::crd(),
        ClusterWatchRule::crd(),
    ]
    .into_iter()
    .map(|crd| tidied(with_common_columns(crd)))
    .collect()
}

/// The text of one definition, as `kubectl apply` reads it.
#[must_use]
pub fn crd_yaml(crd: &CustomResourceDefinition) -> String {
    let json = serde_json::to_string(crd).expect("a definition is plain data");
    let value = json_read::read(&json).expect("what was just written is JSON");
    manifest_yaml::to_yaml(&value)
}

/// The text of all four definitions, as one stream of documents.
#[must_use]
pub fn crds_yaml() -> String {
    let documents: Vec<String> = crds().iter().map(crd_yaml).collect();
    documents.join("---\n")
}

/// The file that holds a definition: `configbutler.ai_watchrules.yaml`, as Kubernetes projects
/// name them.
#[must_use]
pub fn file_name(crd: &CustomResourceDefinition) -> String {
    format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural)
}

/// What a person asks first of every kind: is it well, if not why, and in full with `-o wide`.
fn with_common_columns(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let of_ready = |field| format!(r#".status.conditions[?(@.type=="Ready")].{field}"#);
    let column = |name: &str, type_: &str, json_path: String, description: &str| {
        CustomResourceColumnDefinition {
            name: name.to_owned(),
            type_: type_.to_owned(),
            json_path,
            description: Some(description.to_owned()),
            ..CustomResourceColumnDefinition::default()
        }
    };
    for version in &mut crd.spec.versions {
        let columns = version.additional_printer_columns.get_or_insert_default();
        columns.splice(
            ..0,
            [
                column(
                    "Ready",
                    "string",
                    of_ready("status"),
                    "Whether everything works.",
                ),
                column(
                    "Reason",
                    "string",
                    of_ready("reason"),
                    "Why it works or not.",
                ),
            ],
        );
        columns.push(column(
            "Age",
            "date",
            ".metadata.creationTimestamp".to_owned(),
            "How long ago it was created.",
        ));
        columns.push(CustomResourceColumnDefinition {
            priority: Some(1),
            ..column(
                "Message",
                "string",
                of_ready("message"),
                "The reason in a sentence.",
            )
        });
    }
    crd
}

fn tidied(crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let mut value = serde_json::to_value(crd).expect("a definition is plain data");
    let versions = value["spec"]["versions"]
        .as_array_mut()
        .into_iter()
        .flatten();
    for version in versions {
        tidy(&mut version["schema"]["openAPIV3Schema"]);
    }
    serde_json::from_value(value).expect("only annotations of schemas were taken away")
}

/// Makes a derived schema read like one that was written for people.
fn tidy(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else {
        return;
    };
    // Rust's `Option` says that `null` is a value. For Kubernetes an optional field is one that can
    // be left out, and a rule that asks `has(self.field)` must not meet a `null`.
    schema.remove("nullable");
    // The name of a Rust type, which means nothing to a user.
    schema.remove("title");
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = description.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    for nested in ["items", "additionalProperties"] {
        if let Some(nested) = schema.get_mut(nested) {
            tidy(nested);
        }
    }
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties
        .into_iter()
        .flat_map(|properties| properties.values_mut())
    {
        tidy(property);
    }
}
