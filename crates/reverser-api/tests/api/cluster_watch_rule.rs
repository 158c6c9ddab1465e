use serde_json::json;

use crate::label_selector;
use crate::table::{
    Accepted, Refused, accepted, assert_accepted, assert_refused, each_refused, refused,
};
use crate::watch_rule;

const KIND: &str = "ClusterWatchRule";
const SELECTOR: &str = "spec.rules[0].namespaceSelector";

pub(crate) fn refusals() -> Vec<Refused> {
    let mut rows = watch_rule::common_refusals(&json!({"scope": "Cluster"}));
    rows.extend(["", "Default", "a.b"].map(|namespace| {
        refused(
            namespace,
            json!({"destinationRef": {"namespace": namespace}}),
            "spec.destinationRef.namespace",
            "must be the name of a namespace: write lower-case letters",
        )
    }));
    rows.push(refused(
        "no namespace of the destination",
        json!({"destinationRef": {"namespace": null}}),
        "spec.destinationRef.namespace",
        "Required value",
    ));
    rows.push(refused(
        "no scope",
        json!({"rules": [{"resources": ["clusterroles"]}]}),
        "spec.rules[0].scope",
        "Required value",
    ));
    rows.extend(each_refused(
        "spec.rules[0].scope",
        r#"supported values: "Cluster", "Namespaced""#,
        &["", "Namespace", "*"],
    ));
    rows.push(refused(
        "a namespace selector for objects without a namespace",
        json!({"rules": [{"scope": "Cluster", "namespaceSelector": {}}]}),
        SELECTOR,
        "Forbidden: namespaceSelector is read only with scope Namespaced: write that scope",
    ));
    rows.extend(
        label_selector::refusals(SELECTOR)
            .into_iter()
            .map(|mut row| {
                row.change["rules"][0]["scope"] = json!("Namespaced");
                row
            }),
    );
    rows
}

fn acceptances() -> Vec<Accepted> {
    let mut rows = label_selector::acceptances("spec.objectSelector");
    rows.extend(
        label_selector::acceptances(SELECTOR)
            .into_iter()
            .map(|mut row| {
                row.change["rules"][0]["scope"] = json!("Namespaced");
                row
            }),
    );
    rows.push(accepted(
        "both scopes",
        json!({"rules": [
            {"scope": "Cluster", "resources": ["clusterroles", "namespaces"]},
            {"scope": "Namespaced", "resources": ["deployments"], "operations": ["*"]},
        ]}),
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
