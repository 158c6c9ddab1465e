//! Schemas that carry rules.
//!
//! Rules are CEL with a message instead of `pattern`, because a refusal has to say what to write;
//! a pattern would only be printed. Lengths and counts are bounded everywhere: the API server
//! estimates a rule's cost from them and refuses a definition that could cost too much.

use schemars::{Schema, json_schema};
use serde_json::{Value, json};

/// Repository URLs.
pub(crate) mod git_url;
/// Branch names, and the patterns that allow them.
pub(crate) mod branch;
/// Folders in a repository.
pub(crate) mod folder;
/// Names of objects, groups, resources, labels and fields.
pub(crate) mod names;
/// Free text that ends up in commits and on the way to the server.
pub(crate) mod text;
/// Label selectors.
pub(crate) mod selector;

/// A condition in CEL that must hold for `self`, and what to say where it does not.
pub(crate) struct Rule {
    holds: String,
    message: &'static str,
    repeats_the_value: bool,
}

pub(crate) fn rule(holds: impl Into<String>, message: &'static str) -> Rule {
    Rule {
        holds: holds.into(),
        message,
        repeats_the_value: true,
    }
}

impl Rule {
    /// Keeps the refused value out of the refusal, for fields into which people paste passwords.
    fn without_the_value(self) -> Self {
        Self {
            repeats_the_value: false,
            ..self
        }
    }

    fn schema(&self) -> Value {
        let mut schema = json!({"rule": self.holds, "message": self.message});
        if !self.repeats_the_value {
            // The API server repeats a value that is invalid, but not one that is forbidden.
            schema["reason"] = "FieldValueForbidden".into();
        }
        schema
    }
}

/// A string of at most `max_length` characters for which all rules hold.
pub(crate) fn string(max_length: u32, rules: &[Rule]) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": max_length,
        "x-kubernetes-validations": validations(rules),
    })
}

/// A list of different strings, at most `max_items`.
pub(crate) fn string_set(max_items: u32, items: &Schema) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": max_items,
        "x-kubernetes-list-type": "set",
        "items": items,
    })
}

/// Adds rules about the whole of a value, such as a list.
pub(crate) fn with_rules(mut schema: Schema, rules: &[Rule]) -> Schema {
    schema.insert("x-kubernetes-validations".into(), validations(rules));
    schema
}

fn validations(rules: &[Rule]) -> Value {
    rules.iter().map(Rule::schema).collect()
}
