use schemars::{Schema, SchemaGenerator, json_schema};

use super::names::{KEY_NAME, SUBDOMAIN};
use super::{rule, string, validations};

/// A label selector with the checks that Kubernetes makes of its own.
///
/// The definition of a custom resource does not get them by naming the type, and a selector that
/// cannot be evaluated would be found out only by the operator.
pub(crate) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    let key_is_valid = |key: &str| format!("{key}.matches(r'^({SUBDOMAIN}/)?{KEY_NAME}$')");
    let key = string(
        317,
        &[rule(
            key_is_valid("self"),
            "must be the key of a label: write one such as app or example.com/team",
        )],
    );
    let value = string(
        63,
        &[rule(
            "self.matches(r'^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')",
            "must be the value of a label: write letters, digits, '-', '_' and '.', beginning and \
             ending with a letter or a digit",
        )],
    );
    let keys_are_valid = rule(
        format!("self.all(key, {})", key_is_valid("key")),
        "must have keys of labels: write ones such as app or example.com/team",
    );
    let values_fit_the_operator = [
        rule(
            "!(self.operator in ['In', 'NotIn']) || (has(self.values) && self.values.size() > 0)",
            "operator In or NotIn needs values: write those to compare with, or operator Exists or \
             DoesNotExist",
        ),
        rule(
            "!(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values) || \
             self.values.size() == 0",
            "operator Exists or DoesNotExist takes no values: leave them out, or write operator In \
             or NotIn",
        ),
    ];
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchLabels": {
                "type": "object",
                "description": "Labels that must all be there, with these values.",
                "maxProperties": 32,
                "additionalProperties": value.clone(),
                "x-kubernetes-validations": validations(&[keys_are_valid]),
            },
            "matchExpressions": {
                "type": "array",
                "description": "Conditions on labels that must all hold, besides matchLabels.",
                "maxItems": 16,
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "x-kubernetes-validations": validations(&values_fit_the_operator),
                    "properties": {
                        "key": described(key, "The label's key."),
                        "operator": {
                            "type": "string",
                            "description": "In and NotIn compare the label with values; Exists and \
                                DoesNotExist ask only whether it is there.",
                            "enum": ["In", "NotIn", "Exists", "DoesNotExist"],
                        },
                        "values": {
                            "type": "array",
                            "description": "What to compare with: at least one value with In and \
                                NotIn, none with Exists and DoesNotExist.",
                            "maxItems": 32,
                            "x-kubernetes-list-type": "atomic",
                            "items": value,
                        },
                    },
                },
            },
        },
    })
}

fn described(mut schema: Schema, description: &str) -> Schema {
    schema.insert("description".into(), description.into());
    schema
}
