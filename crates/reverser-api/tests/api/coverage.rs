//! A rule that no table breaks may refuse the wrong thing, or nothing at all.

use std::collections::BTreeSet;

use reverser_api::crd_yaml::crds;
use serde_json::Value;

use crate::table::Refused;
use crate::{cluster_watch_rule, git_destination, git_repo_config, watch_rule};

#[test]
fn every_rule_of_every_field_is_broken_by_a_table() {
    let mut missing = Vec::new();
    for crd in crds() {
        let rows = refusals(&crd.spec.names.kind);
        let schema = serde_json::to_value(&crd.spec.versions[0].schema).unwrap();
        let mut rules = Vec::new();
        collect("", &schema["openAPIV3Schema"], &mut rules);
        assert!(!rules.is_empty());
        missing.extend(
            rules
                .into_iter()
                .filter(|(field, message)| !rows.iter().any(|row| broken_by(row, field, message))),
        );
    }
    assert!(
        missing.is_empty(),
        "rules that no table breaks: {missing:#?}"
    );
}

fn refusals(kind: &str) -> Vec<Refused> {
    match kind {
        "GitRepoConfig" => git_repo_config::refusals(),
        "GitDestination" => git_destination::refusals(),
        "WatchRule" => watch_rule::refusals(),
        "ClusterWatchRule" => cluster_watch_rule::refusals(),
        other => panic!("no tables for {other}"),
    }
}

fn broken_by(row: &Refused, field: &str, message: &str) -> bool {
    let says = row
        .says
        .trim_start_matches("Forbidden: ")
        .trim_start_matches("Required value: ");
    row.field.replace("[0]", "[]") == field && message.contains(says)
}

/// The fields and messages of all rules, in the spelling of the tables.
fn collect(field: &str, schema: &Value, rules: &mut Vec<(String, String)>) {
    for rule in schema["x-kubernetes-validations"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let place = format!("{field}{}", rule["fieldPath"].as_str().unwrap_or_default());
        rules.push((place, rule["message"].as_str().unwrap().to_owned()));
    }
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        let dot = if field.is_empty() { "" } else { "." };
        collect(&format!("{field}{dot}{name}"), child, rules);
    }
    if let Some(items) = schema.get("items") {
        collect(&format!("{field}[]"), items, rules);
    }
    if let Some(values) = schema.get("additionalProperties") {
        // The key that the tables use.
        collect(&format!("{field}[app]"), values, rules);
    }
}

#[test]
fn no_table_says_the_same_twice() {
    for kind in crate::installed::KINDS {
        let mut seen = BTreeSet::new();
        for row in refusals(kind) {
            let key = (row.field.clone(), row.change.to_string());
            assert!(seen.insert(key), "{kind} {} {:?}", row.field, row.what);
        }
    }
}
