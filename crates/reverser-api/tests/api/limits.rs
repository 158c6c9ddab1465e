//! What the schema itself refuses: every required field, enumeration, length, count and range of
//! the specs is broken once, starting from the samples that use every field.

use std::fmt::Write as _;

use reverser_api::crd_yaml::crds;
use serde_json::{Value, json};

use crate::installed::Server;
use crate::samples;

/// One way to break an object: where, what stands there instead (nothing: it is taken away), and
/// what the API server says.
struct Break {
    pointer: String,
    value: Option<Value>,
    says: &'static str,
}

#[tokio::test]
async fn every_limit_of_the_schema_is_enforced() {
    let server = Server::new();
    let mut failures = String::new();
    for crd in crds() {
        let kind = &crd.spec.names.kind;
        let schema = serde_json::to_value(&crd.spec.versions[0].schema).unwrap();
        let sample = samples::full(kind);
        let mut breaks = Vec::new();
        let spec_schema = &schema["openAPIV3Schema"]["properties"]["spec"];
        collect("/spec", spec_schema, &sample["spec"], &mut breaks);
        for Break {
            pointer,
            value,
            says,
        } in breaks
        {
            let mut object = sample.clone();
            set(&mut object, &pointer, value);
            match server.create(&object).await {
                Err(refusal) if refusal.message.contains(says) => {}
                Err(refusal) => {
                    let _ = writeln!(
                        failures,
                        "{kind} {pointer}: not {says:?} but {}",
                        refusal.message
                    );
                }
                Ok(_) => {
                    let _ = writeln!(failures, "{kind} {pointer}: not {says:?} but accepted");
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

/// The API server gives up on an object whose rules together cost too much to check.
#[tokio::test]
async fn an_object_that_uses_every_limit_is_still_checked_and_accepted() {
    let long = |number: usize, length: usize| format!("{number:a>length$}");
    let many = |count: usize, length: usize| {
        (0..count)
            .map(|number| json!(long(number, length)))
            .collect::<Value>()
    };
    let selector = json!({
        "matchLabels": (0..32)
            .map(|number| (long(number, 63), json!(long(number, 63))))
            .collect::<Value>(),
        "matchExpressions": vec![json!({"key": long(1, 63), "operator": "In", "values": many(32, 63)}); 16],
    });
    let rule = json!({
        "scope": "Namespaced",
        "namespaceSelector": selector,
        "operations": ["CREATE", "UPDATE", "DELETE"],
        "apiGroups": many(64, 253),
        "apiVersions": many(16, 63),
        "resources": many(64, 317),
    });
    let largest = json!({
        "apiVersion": "configbutler.ai/v1alpha1",
        "kind": "ClusterWatchRule",
        "metadata": {"name": "largest"},
        "spec": {
            "destinationRef": {"name": long(1, 253), "namespace": long(1, 63)},
            "objectSelector": selector,
            "rules": vec![rule; 16],
        },
    });
    Server::new().create(&largest).await.unwrap();
}

fn collect(pointer: &str, schema: &Value, sample: &Value, breaks: &mut Vec<Break>) {
    assert!(!sample.is_null(), "the full sample lacks {pointer}");
    let mut add = |value, says| {
        breaks.push(Break {
            pointer: pointer.to_owned(),
            value: Some(value),
            says,
        });
    };
    if schema.get("enum").is_some() {
        add(json!("Nonsense"), "supported values");
    }
    if let Some(max) = schema["maxLength"].as_u64() {
        add(
            json!("x".repeat(usize::try_from(max).unwrap() + 1)),
            "Too long",
        );
    }
    if let Some(max) = schema["maxItems"].as_u64() {
        let items = (0..=max)
            .map(|number| distinct(&sample[0], number))
            .collect();
        add(Value::Array(items), "Too many");
    }
    if let Some(max) = schema["maxProperties"].as_u64() {
        let entries = (0..=max)
            .map(|number| (format!("key{number}"), json!("x")))
            .collect();
        add(Value::Object(entries), "Too many");
    }
    if let Some(min) = schema["minimum"].as_f64() {
        add(json!(min - 1.0), "should be greater than or equal to");
    }
    if let Some(max) = schema["maximum"].as_f64() {
        add(json!(max + 1.0), "should be less than or equal to");
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        let name = name.as_str().unwrap();
        breaks.push(Break {
            pointer: format!("{pointer}/{name}"),
            value: None,
            says: "Required value",
        });
    }
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        collect(&format!("{pointer}/{name}"), child, &sample[name], breaks);
    }
    if let Some(items) = schema.get("items") {
        // The element that says most stands for all of them.
        let (index, element) = sample
            .as_array()
            .unwrap()
            .iter()
            .enumerate()
            .max_by_key(|(_, element)| element.as_object().map_or(0, serde_json::Map::len))
            .unwrap();
        collect(&format!("{pointer}/{index}"), items, element, breaks);
    }
}

fn distinct(item: &Value, number: u64) -> Value {
    match item {
        Value::String(text) => json!(format!("{text}{number}")),
        other => other.clone(),
    }
}

fn set(object: &mut Value, pointer: &str, value: Option<Value>) {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = object.pointer_mut(parent).unwrap();
    match (value, parent) {
        (Some(value), Value::Array(list)) => list[name.parse::<usize>().unwrap()] = value,
        (Some(value), parent) => parent[name] = value,
        (None, parent) => {
            parent.as_object_mut().unwrap().remove(name);
        }
    }
}
