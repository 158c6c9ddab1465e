//! What is rendered, held against the schemas that the API server itself publishes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use reverser_testkit::control_plane::{ControlPlane, User};
use reverser_testkit::{command, tools};
use serde_json::{Map, Value, json};

use crate::chart::{Helm, VALUE_SETS};
use crate::cluster::soon;
use crate::manifests::kustomized;
use crate::repository;

/// Installs the definitions of the kinds of other operators that the chart can make, and waits until
/// their schemas are published.
fn install_definitions(plane: &ControlPlane) {
    let folder = repository::path("crates/gitops-reverser/tests/install/definitions");
    let mut kubectl = plane.kubectl(User::Admin);
    command::run(kubectl.args(["apply", "--server-side", "-f"]).arg(folder));
    for (group, kind) in [
        ("cert-manager.io", "Certificate"),
        ("monitoring.coreos.com", "PrometheusRule"),
        ("monitoring.coreos.com", "ServiceMonitor"),
    ] {
        soon(&format!("the schema of {kind}"), || {
            let path = format!("/openapi/v3/apis/{group}/v1");
            let mut kubectl = plane.kubectl(User::Admin);
            let published = command::try_run(kubectl.args(["get", "--raw", &path]));
            let schemas = published.map_err(|error| error.to_string())?.stdout;
            let named = schemas.contains(&format!(r#""kind":"{kind}""#));
            named.then_some(()).ok_or("others".to_owned())
        });
        plane.await_kinds([format!("{}s.{group}", kind.to_lowercase())]);
    }
}

/// Writes a JSON schema for each kind that the server serves, under the names that kubeconform asks
/// for.
fn write_schemas(plane: &ControlPlane, folder: &Path) {
    let raw = |path: &str| -> Value {
        let answer = command::run(plane.kubectl(User::Admin).args(["get", "--raw", path])).stdout;
        serde_json::from_str(&answer).unwrap()
    };
    let index = raw("/openapi/v3");
    for place in index["paths"].as_object().unwrap().values() {
        let document = raw(place["serverRelativeURL"].as_str().unwrap());
        let Some(schemas) = document["components"]["schemas"].as_object() else {
            continue;
        };
        let definitions: Map<String, Value> = schemas
            .iter()
            .map(|(name, schema)| (name.clone(), strict(schema.clone())))
            .collect();
        for (name, schema) in schemas {
            let kinds = schema["x-kubernetes-group-version-kind"].as_array();
            for kind in kinds.into_iter().flatten() {
                let text = |key: &str| kind[key].as_str().unwrap_or_default().to_lowercase();
                // As kubeconform names them: by the first part of the group.
                let group = text("group")
                    .split('.')
                    .next()
                    .map(str::to_owned)
                    .unwrap_or_default();
                let between = if group.is_empty() { "" } else { "-" };
                let file = format!("{}{between}{group}-{}.json", text("kind"), text("version"));
                let schema = json!({
                    "$ref": format!("#/definitions/{name}"), "definitions": definitions,
                });
                fs::write(folder.join(file), schema.to_string()).unwrap();
            }
        }
    }
}

/// References as JSON schema has them, and no fields that are not described.
fn strict(schema: Value) -> Value {
    match schema {
        Value::Object(map) => {
            let mut map: Map<String, Value> = map
                .into_iter()
                .map(|(key, value)| match (key.as_str(), value) {
                    ("$ref", Value::String(target)) => {
                        let target = target.replace("#/components/schemas/", "#/definitions/");
                        (key, Value::String(target))
                    }
                    (_, value) => (key, strict(value)),
                })
                .collect();
            let described = map.get("properties").is_some_and(Value::is_object);
            let open = map.contains_key("x-kubernetes-preserve-unknown-fields");
            if described && !open && map.get("type") == Some(&json!("object")) {
                map.entry("additionalProperties").or_insert(json!(false));
            }
            Value::Object(map)
        }
        Value::Array(list) => Value::Array(list.into_iter().map(strict).collect()),
        other => other,
    }
}

#[test]
fn what_is_rendered_is_valid_by_the_schemas_of_the_server_and_accepted_by_it() {
    let plane = ControlPlane::builder().start().unwrap();
    install_definitions(&plane);
    let folder = tempfile::tempdir().unwrap();
    let schemas = folder.path().join("schemas");
    fs::create_dir(&schemas).unwrap();
    write_schemas(&plane, &schemas);
    let mut create = plane.kubectl(User::Alice);
    let namespace = repository::path("config/manager/namespace.yaml");
    command::run(create.args(["apply", "-f"]).arg(namespace));

    let helm = Helm::new();
    let mut rendered: BTreeMap<String, String> = VALUE_SETS
        .iter()
        .map(|(what, values)| {
            let text = command::run(&mut helm.template(values, &[])).stdout;
            ((*what).to_owned(), text)
        })
        .collect();
    rendered.insert("kustomize".to_owned(), kustomized("config/default"));
    rendered.insert("kustomize, all".to_owned(), kustomized("config/read-all"));
    for (what, yaml) in rendered {
        let mut kubeconform = tools::sealed("kubeconform", folder.path());
        kubeconform
            .args(["-strict", "-summary", "-schema-location"])
            .arg(format!(
                "{}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json",
                schemas.display()
            ));
        let told = command::run_with_input(kubeconform.arg("-"), yaml.as_bytes()).stdout;
        assert!(told.contains("Invalid: 0, Errors: 0"), "{what}: {told}");

        let objects = repository::documents(&yaml);
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let mut kubectl = plane.kubectl(User::Alice);
        let apply = kubectl.args(["apply", "--dry-run=server", "-f", "-"]);
        let applied = command::run_with_input(apply, list.to_string().as_bytes());
        assert_eq!(
            applied.stdout.lines().count(),
            objects.len(),
            "{what}: {}",
            applied.stdout
        );
        assert_eq!(applied.stderr, "", "{what}: no warnings");
    }
}

#[test]
fn a_wrong_field_would_be_noticed() {
    let schema = json!({
        "type": "object", "properties": {"spec": {"$ref": "#/components/schemas/a.b.Spec"}},
    });
    assert_eq!(
        strict(schema),
        json!({
            "type": "object", "additionalProperties": false,
            "properties": {"spec": {"$ref": "#/definitions/a.b.Spec"}},
        })
    );
}
