//! What is canonical stays as it is, whatever the object was.

use std::borrow::Cow;

use proptest::prelude::*;
use reverser_core::canon::{AppliesTo, RULES, canonicalise};
use reverser_core::object::Object;
use reverser_core::value::{Map, Value};
use reverser_core::yaml_read;

use crate::random_values::{many, value};

/// An object of a kind that rules look at, made from a rule's own example and random fields.
fn objects() -> impl Strategy<Value = Value<'static>> {
    let rules = prop::sample::select((0..RULES.len()).collect::<Vec<_>>());
    let kinds = prop::sample::select((0..RULES.len()).collect::<Vec<_>>());
    let places = prop::collection::vec((0usize..6, value()), 0..4);
    (rules, kinds, places, any::<bool>()).prop_map(|(example, kind, places, live)| {
        let Ok(Value::Map(mut root)) = yaml_read::read(RULES[example].before) else {
            panic!("an example is an object")
        };
        if let AppliesTo::Kinds(kinds) = RULES[kind].applies_to {
            let (group, kind) = kinds[0];
            let version = if group.is_empty() {
                "v1".into()
            } else {
                format!("{group}/v1")
            };
            root.insert("apiVersion", Value::String(version.into()));
            root.insert("kind", Value::String(Cow::Borrowed(kind)));
        }
        for (place, value) in places {
            put(&mut root, place, value);
        }
        if live && let Some(metadata) = root.map_at_mut(&["metadata"]) {
            metadata.insert("uid", Value::String("6f1c0f0e".into()));
        }
        Value::Map(root)
    })
}

fn put(root: &mut Map<'static>, place: usize, value: Value<'static>) {
    let (parents, field): (&[&str], &str) = match place {
        0 => (&[], "spec"),
        1 => (&["spec"], "template"),
        2 => (&["metadata"], "labels"),
        3 => (&["metadata"], "annotations"),
        4 => (&["spec"], "ports"),
        _ => (&[], "extra"),
    };
    if let Some(parent) = root.map_at_mut(parents) {
        parent.insert(field, value);
    }
}

#[test]
fn the_canonical_form_of_a_canonical_file_is_that_file() {
    for value in many(&objects(), 5_000) {
        let once = canonicalise(Object::from_value(value, None).unwrap()).to_yaml();
        let again = Object::from_value(yaml_read::read(&once).unwrap(), None).unwrap();
        assert_eq!(canonicalise(again).to_yaml(), once);
    }
}
