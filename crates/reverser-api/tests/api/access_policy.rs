use serde_json::json;

use crate::label_selector;
use crate::table::{Accepted, Refused, accepted, refused};

const SELECTOR: &str = "spec.accessPolicy.namespacedRules.namespaceSelector";

pub(crate) fn refusals() -> Vec<Refused> {
    let namespaced = |rules| json!({"accessPolicy": {"namespacedRules": rules}});
    let mut rows = vec![
        refused(
            "FromSelector without a selector",
            namespaced(json!({"mode": "FromSelector"})),
            SELECTOR,
            "Required value: mode FromSelector needs namespaceSelector: write the labels",
        ),
        refused(
            "a selector with SameNamespace",
            namespaced(json!({"mode": "SameNamespace", "namespaceSelector": {}})),
            SELECTOR,
            "Forbidden: namespaceSelector is read only with mode FromSelector: write that mode",
        ),
        refused(
            "a selector with AllNamespaces",
            namespaced(json!({"mode": "AllNamespaces", "namespaceSelector": {}})),
            SELECTOR,
            "Forbidden: namespaceSelector is read only with mode FromSelector: write that mode",
        ),
        refused(
            "a selector with the default mode",
            namespaced(json!({"namespaceSelector": {}})),
            SELECTOR,
            "Forbidden: namespaceSelector is read only with mode FromSelector: write that mode",
        ),
        refused(
            "a mode that does not exist",
            namespaced(json!({"mode": "Everyone"})),
            "spec.accessPolicy.namespacedRules.mode",
            r#"supported values: "SameNamespace", "AllNamespaces", "FromSelector""#,
        ),
    ];
    rows.extend(
        label_selector::refusals(SELECTOR)
            .into_iter()
            .map(|mut row| {
                row.change["accessPolicy"]["namespacedRules"]["mode"] = json!("FromSelector");
                row
            }),
    );
    rows
}

pub(crate) fn acceptances() -> Vec<Accepted> {
    let policy = |what, policy| accepted(what, json!({"accessPolicy": policy}));
    let mut rows = vec![
        policy("an empty policy", json!({})),
        policy(
            "all namespaces",
            json!({"namespacedRules": {"mode": "AllNamespaces"}}),
        ),
        policy("cluster rules", json!({"allowClusterRules": true})),
        policy("no cluster rules", json!({"allowClusterRules": false})),
    ];
    rows.extend(
        label_selector::acceptances(SELECTOR)
            .into_iter()
            .map(|mut row| {
                row.change["accessPolicy"]["namespacedRules"]["mode"] = json!("FromSelector");
                row
            }),
    );
    rows
}
