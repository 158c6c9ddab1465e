//! JSON text to [`Value`]s.
//!
//! Strings borrow from the text, so that an object costs few allocations. What is skipped is
//! skipped unread: see [`RawJson`].

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::value::{MAX_DEPTH, Map, Number, Value};
use crate::yaml_read::Document;

/// Text that could not be read: what is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct ReadError {
    /// What is wrong, in a sentence without any value of the text.
    pub message: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1.
    pub column: usize,
}

/// A part of a JSON text that nobody has looked at yet.
#[derive(Clone, Copy)]
pub struct RawJson<'a>(&'a str);

impl<'a> RawJson<'a> {
    /// Reads it now.
    pub fn read(self) -> Result<Value<'a>, ReadError> {
        read(self.0)
    }

    /// The text, for those who read it in a form of their own.
    pub(crate) fn text(self) -> &'a str {
        self.0
    }

    /// Whether the text contains these characters, which is much cheaper to know than its values.
    #[must_use]
    pub fn mentions(self, needle: &str) -> bool {
        self.0.contains(needle)
    }
}

/// Reads one JSON value; anything behind it is an error.
pub fn read(text: &str) -> Result<Value<'_>, ReadError> {
    let mut source = source(text);
    let value = ValueSeed { depth: 0 }
        .deserialize(&mut source)
        .map_err(|error| read_error(&error))?;
    source.end().map_err(|error| read_error(&error))?;
    Ok(value)
}

/// Reads one JSON object like [`read`], but leaves `metadata.managedFields` unread: it is often
/// the larger half of a live object, and only few objects need it.
pub(crate) fn read_object(text: &str) -> Result<(Value<'_>, Option<RawJson<'_>>), ReadError> {
    let mut source = source(text);
    let mut managed_fields = None;
    let seed = ObjectSeed {
        managed_fields: &mut managed_fields,
        place: Place::Root,
    };
    let value = seed
        .deserialize(&mut source)
        .map_err(|error| read_error(&error))?;
    source.end().map_err(|error| read_error(&error))?;
    Ok((value, managed_fields))
}

/// Reads JSON values that stand one behind the other. After an error nothing more is read, because
/// JSON has no mark at which the next value would begin.
pub fn read_stream(text: &str) -> impl Iterator<Item = Document<'_>> {
    let mut rest = 0;
    let (mut line, mut line_start) = (1, 0);
    std::iter::from_fn(move || {
        let start = rest + text[rest..].find(|c: char| !c.is_ascii_whitespace())?;
        // Counted on from the value before: a file may hold very many.
        for (newline, _) in text[rest..start].match_indices('\n') {
            (line, line_start) = (line + 1, rest + newline + 1);
        }
        let column = start - line_start + 1;
        let raw: Result<&RawValue, _> =
            serde::Deserialize::deserialize(&mut source(&text[start..]));
        let value = match raw {
            Ok(raw) => {
                rest = start + raw.get().len();
                read(&text[start..rest])
            }
            Err(error) => {
                rest = text.len();
                Err(read_error(&error))
            }
        };
        let document = Document {
            line,
            column,
            value: value.map_err(|error| error.below(line, column)),
        };
        for (newline, _) in text[start..rest].match_indices('\n') {
            (line, line_start) = (line + 1, start + newline + 1);
        }
        Some(document)
    })
}

fn source(text: &str) -> serde_json::Deserializer<serde_json::de::StrRead<'_>> {
    let mut source = serde_json::Deserializer::from_str(text);
    // The seeds count depth themselves, and stop earlier than any stack would.
    source.disable_recursion_limit();
    source
}

impl ReadError {
    /// The same error, seen from a text in which the part that was read starts further down.
    fn below(mut self, line: usize, column: usize) -> Self {
        if self.line == 1 {
            self.column += column - 1;
        }
        self.line += line - 1;
        self
    }
}

fn read_error(error: &serde_json::Error) -> ReadError {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    // serde_json appends the place, which stands in fields of its own here.
    let message = text
        .strip_suffix(&format!(" at line {line} column {column}"))
        .unwrap_or(&text);
    ReadError {
        message: message.to_owned(),
        line,
        column,
    }
}

fn too_deep<E: serde::de::Error>() -> E {
    E::custom(format_args!("nested deeper than {MAX_DEPTH} levels"))
}

struct ValueSeed {
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for ValueSeed {
    type Value = Value<'de>;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Value<'de>, D::Error> {
        source.deserialize_any(self)
    }
}

impl ValueSeed {
    fn inner<E: serde::de::Error>(&self) -> Result<usize, E> {
        if self.depth == MAX_DEPTH {
            Err(too_deep())
        } else {
            Ok(self.depth + 1)
        }
    }
}

impl<'de> Visitor<'de> for ValueSeed {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value<'de>, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, bool: bool) -> Result<Value<'de>, E> {
        Ok(Value::Bool(bool))
    }

    fn visit_i64<E>(self, int: i64) -> Result<Value<'de>, E> {
        Ok(Value::Number(int.into()))
    }

    fn visit_u64<E>(self, int: u64) -> Result<Value<'de>, E> {
        Ok(Value::Number(int.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, float: f64) -> Result<Value<'de>, E> {
        Number::from_f64(float)
            .map(Value::Number)
            .ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Value<'de>, E> {
        Ok(Value::String(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value<'de>, E> {
        Ok(Value::String(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value<'de>, A::Error> {
        let depth = self.inner()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(ValueSeed { depth })? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Value<'de>, A::Error> {
        let depth = self.inner()?;
        let mut entries = Vec::new();
        while let Some(key) = items.next_key_seed(KeySeed)? {
            entries.push((key, items.next_value_seed(ValueSeed { depth })?));
        }
        Map::from_entries(entries)
            .map(Value::Map)
            .map_err(A::Error::custom)
    }
}

struct KeySeed;

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Cow<'de, str>, D::Error> {
        source.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for KeySeed {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

/// Reads a whole object down to `metadata`, where `managedFields` is set aside.
struct ObjectSeed<'s, 'de> {
    managed_fields: &'s mut Option<RawJson<'de>>,
    place: Place,
}

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Root,
    Metadata,
}

impl<'de> DeserializeSeed<'de> for ObjectSeed<'_, 'de> {
    type Value = Value<'de>;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Value<'de>, D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ObjectSeed<'_, 'de> {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.place {
            Place::Root => "an object",
            Place::Metadata => "a map under `metadata`",
        })
    }

    // Serde's own message would quote the text, and the text may be a Secret's.
    fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<Value<'de>, E> {
        let expected: &dyn serde::de::Expected = &self;
        Err(E::custom(format_args!("expected {expected}, found text")))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Value<'de>, A::Error> {
        let depth = match self.place {
            Place::Root => 1,
            Place::Metadata => 2,
        };
        let mut entries = Vec::new();
        while let Some(key) = items.next_key_seed(KeySeed)? {
            let value = match (self.place, &*key) {
                (Place::Root, "metadata") => items.next_value_seed(ObjectSeed {
                    managed_fields: &mut *self.managed_fields,
                    place: Place::Metadata,
                })?,
                (Place::Metadata, "managedFields") => {
                    *self.managed_fields = Some(RawJson(items.next_value::<&RawValue>()?.get()));
                    continue;
                }
                _ => items.next_value_seed(ValueSeed { depth })?,
            };
            entries.push((key, value));
        }
        Map::from_entries(entries)
            .map(Value::Map)
            .map_err(A::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        read(text).unwrap_err().to_string()
    }

    #[test]
    fn strings_without_escapes_are_borrowed() {
        let Ok(Value::List(list)) = read(r#"["plain", "esc\"aped"]"#) else {
            panic!("a list")
        };
        assert!(matches!(&list[0], Value::String(Cow::Borrowed("plain"))));
        assert!(matches!(&list[1], Value::String(Cow::Owned(text)) if text == "esc\"aped"));
    }

    #[test]
    fn numbers_keep_their_value() {
        let numbers = "[9223372036854775807, 18446744073709551615, 1e21, -0, 0.1, 1.0]";
        let Ok(Value::List(list)) = read(numbers) else {
            panic!("a list")
        };
        let expected = [
            Number::Int(i64::MAX),
            Number::Unsigned(u64::MAX),
            Number::Float(1e21),
            Number::Float(-0.0),
            Number::Float(0.1),
            Number::Int(1),
        ];
        assert_eq!(list, expected.map(Value::Number));
        assert_eq!(error("1e999"), "line 1, column 5: number out of range");
    }

    #[test]
    fn depth_is_limited_without_a_panic() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(read(&nested(MAX_DEPTH)).is_ok());
        for depth in [MAX_DEPTH + 1, 5_000, 100_000] {
            assert!(error(&nested(depth)).ends_with("nested deeper than 200 levels"));
        }
        let in_object = format!(r#"{{"metadata":{{"x":{}}}}}"#, nested(MAX_DEPTH - 1));
        assert!(read_object(&in_object).is_err());
    }

    #[test]
    fn a_duplicate_key_is_refused_by_name() {
        assert_eq!(
            error(r#"{"a": 1, "b": 2, "a": 3}"#),
            r#"line 1, column 24: the key "a" stands twice in one map"#
        );
    }

    #[test]
    fn managed_fields_are_set_aside_unread() {
        let text = r#"{"metadata":{"managedFields":[{"manager":"x"}],"name":"n"},"z":1}"#;
        let (value, managed) = read_object(text).unwrap();
        assert!(value == read(r#"{"metadata":{"name":"n"},"z":1}"#).unwrap());
        assert!(managed.unwrap().read().unwrap() == read(r#"[{"manager":"x"}]"#).unwrap());
    }

    #[test]
    fn an_error_never_quotes_a_value() {
        for text in [
            r#""hunter2""#,
            r#"{"metadata": "hunter2"}"#,
            r#"{"metadata": {"a": hunter2}}"#,
        ] {
            let message = read_object(text).err().unwrap().to_string();
            assert!(!message.contains("hunter2"), "{message}");
        }
    }

    #[test]
    fn a_stream_of_values_tells_where_each_stands() {
        let text = "{\"a\":1}\n{\"a\":2} [\n  oops]";
        let read: Vec<_> = read_stream(text)
            .map(|document| (document.line, document.column, document.value.is_ok()))
            .collect();
        assert_eq!(read, [(1, 1, true), (2, 1, true), (2, 9, false)]);
        let error = read_stream(text).last().unwrap().value.unwrap_err();
        assert_eq!((error.line, error.column), (3, 3));
    }
}
