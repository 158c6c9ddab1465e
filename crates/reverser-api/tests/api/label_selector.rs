use serde_json::json;

use crate::table::{Accepted, Refused, accepted, at, refused};

/// Selectors that are refused, in the field `field`.
pub(crate) fn refusals(field: &str) -> Vec<Refused> {
    let expression = format!("{field}.matchExpressions[0]");
    let row =
        |what, selector, place: String, says| refused(what, at(field, &selector), place, says);
    vec![
        row(
            "a key that is no label's",
            json!({"matchLabels": {"-app": "web"}}),
            format!("{field}.matchLabels"),
            "must have keys of labels: write ones such as app",
        ),
        row(
            "a value that is no label's",
            json!({"matchLabels": {"app": "no blanks"}}),
            format!("{field}.matchLabels[app]"),
            "must be the value of a label: write letters",
        ),
        row(
            "an expression on a key that is no label's",
            json!({"matchExpressions": [{"key": "a..b/c", "operator": "Exists"}]}),
            format!("{expression}.key"),
            "must be the key of a label: write one such as app",
        ),
        row(
            "an expression with a value that is no label's",
            json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["-"]}]}),
            format!("{expression}.values[0]"),
            "must be the value of a label: write letters",
        ),
        row(
            "In without values",
            json!({"matchExpressions": [{"key": "app", "operator": "In"}]}),
            expression.clone(),
            "operator In or NotIn needs values",
        ),
        row(
            "NotIn with an empty list",
            json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": []}]}),
            expression.clone(),
            "operator In or NotIn needs values",
        ),
        row(
            "Exists with values",
            json!({"matchExpressions": [{"key": "app", "operator": "Exists", "values": ["a"]}]}),
            expression.clone(),
            "operator Exists or DoesNotExist takes no values",
        ),
        row(
            "an operator that does not exist",
            json!({"matchExpressions": [{"key": "app", "operator": "Gt"}]}),
            format!("{expression}.operator"),
            r#"supported values: "In", "NotIn", "Exists", "DoesNotExist""#,
        ),
    ]
}

/// Selectors that are accepted, in the field `field`.
pub(crate) fn acceptances(field: &str) -> Vec<Accepted> {
    let row = |what, selector| accepted(what, at(field, &selector));
    vec![
        row("everything", json!({})),
        row(
            "labels",
            json!({"matchLabels": {"app": "web", "example.com/tier": "", "A_b.c-1": "A_b.c-1"}}),
        ),
        row(
            "expressions",
            json!({"matchExpressions": [
                {"key": "a", "operator": "In", "values": ["x", ""]},
                {"key": "example.com/b", "operator": "NotIn", "values": ["y"]},
                {"key": "c", "operator": "Exists"},
                {"key": "d", "operator": "DoesNotExist", "values": []},
            ]}),
        ),
    ]
}
