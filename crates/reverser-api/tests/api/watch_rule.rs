use serde_json::json;

use crate::installed::{Server, smallest};
use crate::label_selector;
use crate::table::{
    Accepted, Refused, accepted, assert_accepted, assert_refused, each_accepted, each_refused,
    refused,
};

const KIND: &str = "WatchRule";

pub(crate) fn refusals() -> Vec<Refused> {
    let mut rows = common_refusals(&json!({}));
    rows.extend(each_refused(
        "spec.destinationRef.namespace",
        "must be the name of a namespace: write lower-case letters",
        &["", "Default", "a.b"],
    ));
    rows
}

/// What both kinds of rules refuse; `rule` is what a rule of the kind needs besides.
pub(crate) fn common_refusals(rule: &serde_json::Value) -> Vec<Refused> {
    let mut rows = vec![refused(
        "no rules",
        json!({"rules": []}),
        "spec.rules",
        "must have at least one rule: write what to mirror",
    )];
    rows.extend(each_refused(
        "spec.destinationRef.name",
        "must be the name of an object: write lower-case letters",
        &["", "Shop", "a/b"],
    ));
    rows.extend(label_selector::refusals("spec.objectSelector"));
    rows.extend(rule_refusals().into_iter().map(|mut row| {
        crate::installed::merge(&mut row.change["rules"][0], rule);
        row
    }));
    rows
}

fn rule_refusals() -> Vec<Refused> {
    let mut rows = Vec::new();
    let alone = |what, list: &str, values: serde_json::Value, says| {
        let change = json!({"rules": [{list: values}]});
        refused(what, change, format!("spec.rules[0].{list}"), says)
    };
    rows.push(alone(
        "all operations and one of them",
        "operations",
        json!(["*", "CREATE"]),
        "'*' already stands for every operation: write it alone",
    ));
    rows.push(alone(
        "all groups and one of them",
        "apiGroups",
        json!(["apps", "*"]),
        "'*' already stands for every group: write it alone",
    ));
    rows.push(alone(
        "the preferred version and another",
        "apiVersions",
        json!(["*", "v1"]),
        "'*' already stands for the version that the API server prefers: write it alone",
    ));
    rows.extend(each_refused(
        "spec.rules[0].operations[0]",
        r#"supported values: "CREATE", "UPDATE", "DELETE", "*""#,
        &["create", "CONNECT", "PATCH", ""],
    ));
    rows.extend(each_refused(
        "spec.rules[0].apiGroups[0]",
        "must be an API group without its version: write one such as apps, '' for the core group",
        &["apps/v1", "Apps", "core ", "*.k8s.io", "apps*", "a_b"],
    ));
    rows.extend(each_refused(
        "spec.rules[0].apiVersions[0]",
        "must be a version without its group: write one such as v1",
        &["", "apps/v1", "v1.0", "V1", "v*"],
    ));
    rows.extend(each_refused(
        "spec.rules[0].resources[0]",
        "wildcards inside of a name are not supported: write the name in full",
        &[
            "dep*",
            "*s",
            "deploy*ments",
            "*.apps",
            "deployments.*",
            "**",
            "pods/st*",
        ],
    ));
    rows.extend(each_refused(
        "spec.rules[0].resources[0]",
        "must be the plural name in lower case, as kubectl api-resources shows it",
        &[
            "",
            "Deployment",
            "Deployments",
            "apps/v1/deployments",
            "pods/",
            "/status",
            "a b",
            "a.",
        ],
    ));
    rows.push(refused(
        "the same resource twice",
        json!({"rules": [{"resources": ["pods", "pods"]}]}),
        "spec.rules[0].resources[1]",
        "Duplicate value",
    ));
    rows
}

fn acceptances() -> Vec<Accepted> {
    let mut rows = label_selector::acceptances("spec.objectSelector");
    rows.extend(each_accepted("spec.destinationRef.namespace", &["default"]));
    rows.extend(each_accepted(
        "spec.rules[0].resources[0]",
        &[
            "deployments",
            "deployments.apps",
            "customresourcedefinitions.apiextensions.k8s.io",
            "*",
            // They select nothing, which the rule's conditions say.
            "pods/*",
            "pods/log",
            "deployments/scale",
            "deployments.apps/scale",
            "*/*",
            "*/scale",
        ],
    ));
    rows.extend(each_accepted(
        "spec.rules[0].apiGroups[0]",
        &["", "apps", "*", "a.b.c"],
    ));
    rows.extend(each_accepted(
        "spec.rules[0].apiVersions[0]",
        &["v1", "v2beta1", "*"],
    ));
    rows.extend(each_accepted(
        "spec.rules[0].operations[0]",
        &["CREATE", "UPDATE", "DELETE", "*"],
    ));
    rows.push(accepted(
        "empty lists",
        json!({"rules": [{"operations": [], "apiGroups": [], "apiVersions": [], "resources": []}]}),
    ));
    rows.push(accepted(
        "everything, and also what is left out by default",
        json!({"rules": [{"resources": ["*", "pods"], "includeOwned": true}]}),
    ));
    rows
}

#[tokio::test]
async fn a_wrong_rule_is_refused_with_what_to_write() {
    assert_refused(KIND, refusals()).await;
}

#[tokio::test]
async fn a_right_rule_is_accepted() {
    assert_accepted(KIND, acceptances()).await;
}

#[tokio::test]
async fn objects_of_controllers_are_left_out_unless_asked_for() {
    let created = Server::new().create(&smallest(KIND)).await.unwrap();
    assert_eq!(
        created["spec"],
        json!({"destinationRef": {"name": "shop"}, "rules": [{"includeOwned": false}]})
    );
}
