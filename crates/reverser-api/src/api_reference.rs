//! `docs/reference/api.md`, written from the definitions that are installed.

use std::fmt::Write as _;

use serde_json::Value;

use crate::conditions;
use crate::crd_yaml::crds;

const INTRODUCTION: &str = "\
# The four kinds

<!-- Written from the code: `make docs` writes it again. -->

Group `configbutler.ai`, version `v1alpha1`. `kubectl get reverser` shows all of them,
`kubectl explain gitdestination.spec` says what is here. The API server refuses an object that breaks
one of the rules below, and says so in the same words.

Examples are in [`config/samples`](../../config/samples).
";

pub(crate) fn markdown() -> String {
    let mut page = INTRODUCTION.to_owned();
    for crd in crds() {
        let names = &crd.spec.names;
        let crd_version = &crd.spec.versions[0];
        let schema = serde_json::to_value(crd_version.schema.as_ref().unwrap()).unwrap();
        let schema = &schema["openAPIV3Schema"];
        let _ = write!(
            page,
            "\n## {kind}\n\n{description}\n\n{scope}, short name `{short}`.\n",
            kind = names.kind,
            description = escaped(text(schema, "description")),
            scope = match crd.spec.scope.as_str() {
                "Cluster" => "Without a namespace",
                _ => "In a namespace",
            },
            short = names.short_names.as_ref().unwrap().join("`, `"),
        );
        for part in ["spec", "status"] {
            let mut fields = Fields::default();
            fields.add_children(part, &schema["properties"][part]);
            page += &fields.markdown();
        }
    }
    page += &words();
    page
}

/// The rows and rules of one table.
#[derive(Default)]
struct Fields {
    rows: String,
    rules: String,
}

impl Fields {
    fn add_children(&mut self, path: &str, schema: &Value) {
        let required: Vec<&str> = schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        for (name, child) in sorted_properties(schema, &required) {
            let default = match child.get("default") {
                _ if required.contains(&name) => "required".to_owned(),
                Some(default @ (Value::String(_) | Value::Bool(_))) => {
                    format!("`{}`", default.to_string().trim_matches('"'))
                }
                _ => String::new(),
            };
            self.add(&format!("{path}.{name}"), child, &default);
        }
    }

    fn add(&mut self, path: &str, schema: &Value, default: &str) {
        let _ = writeln!(
            self.rows,
            "| `{path}` | {} | {default} | {} |",
            type_of(schema),
            escaped(text(schema, "description")),
        );
        self.add_rules(path, schema);
        let items = &schema["items"];
        self.add_rules(&format!("{path}[]"), items);
        if is_common(schema) {
            return;
        }
        self.add_children(path, schema);
        self.add_children(&format!("{path}[]"), items);
    }

    fn add_rules(&mut self, path: &str, schema: &Value) {
        for rule in schema["x-kubernetes-validations"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let _ = writeln!(self.rules, "- `{path}`: {}", escaped(text(rule, "message")));
        }
    }

    fn markdown(self) -> String {
        let Self { rows, rules } = self;
        let table = format!("\n| field | type | default | meaning |\n|---|---|---|---|\n{rows}");
        if rules.is_empty() {
            table
        } else {
            format!("{table}\nRules:\n\n{rules}")
        }
    }
}

/// What must be written first, then the rest, each by name.
fn sorted_properties<'a>(schema: &'a Value, required: &[&str]) -> Vec<(&'a str, &'a Value)> {
    let mut properties: Vec<_> = schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, child)| (name.as_str(), child))
        .collect();
    properties.sort_by_key(|(name, _)| (!required.contains(name), *name));
    properties
}

fn type_of(schema: &Value) -> String {
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<_> = values.iter().filter_map(Value::as_str).collect();
        return format!("`{}`", values.join("`, `"));
    }
    match text(schema, "type") {
        "array" if is_conditions(schema) => "conditions".to_owned(),
        "array" => format!("list of {}", type_of(&schema["items"])),
        "object" if is_label_selector(schema) => "label selector".to_owned(),
        "string" if schema["format"] == "date-time" => "time".to_owned(),
        other => other.to_owned(),
    }
}

/// What every user of Kubernetes knows, and needs no rows of its own.
fn is_common(schema: &Value) -> bool {
    is_label_selector(schema) || is_conditions(schema)
}

fn is_label_selector(schema: &Value) -> bool {
    schema["properties"].get("matchExpressions").is_some()
}

fn is_conditions(schema: &Value) -> bool {
    schema["items"]["properties"]
        .get("lastTransitionTime")
        .is_some()
}

fn words() -> String {
    use conditions::{
        condition, destination_reason, destination_warning, reason, reference_reason,
        remote_reason, repo_reason, rule_reason, rule_warning, scope_reason,
    };
    type Words = &'static [(&'static str, &'static str)];
    let groups: [(&str, &str, Words); 10] = [
        ("Conditions", "Of every kind", condition::ALL),
        (
            "",
            "Warnings of a GitDestination, there only while they are `True`",
            destination_warning::ALL,
        ),
        (
            "",
            "Warnings of a WatchRule or ClusterWatchRule, there only while they are `True`",
            rule_warning::ALL,
        ),
        ("Reasons of Ready", "Of every kind", reason::ALL),
        ("", "Of a GitRepoConfig", repo_reason::ALL),
        (
            "",
            "Of a GitRepoConfig, and of the GitDestinations that use it",
            remote_reason::ALL,
        ),
        ("", "Of a GitDestination", destination_reason::ALL),
        ("", "Of a WatchRule or ClusterWatchRule", rule_reason::ALL),
        (
            "",
            "Of a GitDestination, WatchRule or ClusterWatchRule",
            reference_reason::ALL,
        ),
        (
            "",
            "Of a GitDestination, and of the rules whose objects go there",
            scope_reason::ALL,
        ),
    ];
    let mut page = String::new();
    for (heading, whose, words) in groups {
        if !heading.is_empty() {
            let _ = write!(page, "\n## {heading}\n");
        }
        let _ = write!(page, "\n{whose}:\n\n| | |\n|---|---|\n");
        for (word, meaning) in words {
            let _ = writeln!(page, "| `{word}` | {} |", meaning.trim());
        }
    }
    page
}

fn text<'a>(schema: &'a Value, key: &str) -> &'a str {
    schema[key].as_str().unwrap_or_default()
}

/// Markdown reads `*`, `<`, `|` and `\` as more than themselves.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\\")
        .replace('*', r"\*")
        .replace('|', r"\|")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
