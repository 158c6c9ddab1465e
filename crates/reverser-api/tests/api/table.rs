use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::installed::{Server, merge, smallest};

/// An object that the API server refuses.
pub(crate) struct Refused {
    /// What is wrong with it.
    pub(crate) what: &'static str,
    /// What makes the smallest valid object wrong, under `spec`.
    pub(crate) change: Value,
    /// The field that the refusal names.
    pub(crate) field: String,
    /// A part of the sentence that says what to write.
    pub(crate) says: &'static str,
}

/// An object that the API server accepts.
pub(crate) struct Accepted {
    pub(crate) what: &'static str,
    pub(crate) change: Value,
}

pub(crate) fn refused(
    what: &'static str,
    change: Value,
    field: impl Into<String>,
    says: &'static str,
) -> Refused {
    Refused {
        what,
        change,
        field: field.into(),
        says,
    }
}

pub(crate) fn accepted(what: &'static str, change: Value) -> Accepted {
    Accepted { what, change }
}

/// The same field with one bad value after the other.
pub(crate) fn each_refused<'a>(
    field: &'a str,
    says: &'static str,
    values: &'a [&'static str],
) -> impl Iterator<Item = Refused> + 'a {
    values
        .iter()
        .map(move |value| refused(value, at(field, &json!(value)), field, says))
}

/// The same field with one good value after the other.
pub(crate) fn each_accepted<'a>(
    field: &'a str,
    values: &'a [&'static str],
) -> impl Iterator<Item = Accepted> + 'a {
    values
        .iter()
        .map(move |value| accepted(value, at(field, &json!(value))))
}

/// A change of one field: `spec.a.b[0]` and a value give `{"a": {"b": [value]}}`.
pub(crate) fn at(field: &str, value: &Value) -> Value {
    let path = field.strip_prefix("spec.").expect("a field of the spec");
    path.rsplit('.').fold(value.clone(), |inner, part| {
        match part.strip_suffix("[0]") {
            Some(list) => json!({list: [inner]}),
            None => json!({part: inner}),
        }
    })
}

fn changed(kind: &str, change: &Value) -> Value {
    let mut object = smallest(kind);
    merge(&mut object["spec"], change);
    object
}

/// Every row is refused for its one reason and no other, so that nobody has to guess.
pub(crate) async fn assert_refused(kind: &str, rows: Vec<Refused>) {
    let server = Server::new();
    let mut failures = String::new();
    for Refused {
        what,
        change,
        field,
        says,
    } in rows
    {
        match server.create(&changed(kind, &change)).await {
            Ok(_) => {
                let _ = writeln!(failures, "{field} {what:?}: accepted");
            }
            Err(status) => {
                let mut causes = status
                    .details
                    .map(|details| details.causes)
                    .unwrap_or_default();
                // What the schema refuses keeps the API server from looking at the rules too.
                causes.retain(|cause| {
                    !cause
                        .message
                        .contains("some validation rules were not checked")
                });
                let as_expected = matches!(
                    causes.as_slice(),
                    [cause] if cause.field == field && cause.message.contains(says)
                );
                if !as_expected {
                    let _ = writeln!(failures, "{field} {what:?}: {}\n", status.message);
                }
            }
        }
    }
    assert!(failures.is_empty(), "{kind}\n{failures}");
}

pub(crate) async fn assert_accepted(kind: &str, rows: Vec<Accepted>) {
    let server = Server::new();
    let mut failures = String::new();
    for Accepted { what, change } in rows {
        if let Err(status) = server.create(&changed(kind, &change)).await {
            let _ = writeln!(failures, "{what:?}: {}\n", status.message);
        }
    }
    assert!(failures.is_empty(), "{kind}\n{failures}");
}
