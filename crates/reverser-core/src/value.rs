//! A tree of plain data, made for one job: be read fast, be changed by removing things, be written
//! in one fixed order.

use std::borrow::Cow;
use std::fmt;

/// How many maps and lists may enclose a value.
///
/// Deeper objects are refused where they are read, so that no later step needs to fear for its
/// stack. Nothing that people write comes near it, and every YAML reader can follow this far.
pub const MAX_DEPTH: usize = 200;

/// Up to so many entries a map is walked to find one.
const WALKED: usize = 16;

/// Plain data, as JSON and YAML have it.
///
/// `Debug` shows only the shape: these trees hold Secrets, and a log line must not.
#[derive(Clone, PartialEq)]
pub enum Value<'a> {
    /// Nothing, said explicitly.
    Null,
    /// True or false.
    Bool(bool),
    /// A finite number.
    Number(Number),
    /// Text, borrowed from the input where it stands there without escapes.
    String(Cow<'a, str>),
    /// A list, in the order that the API gives.
    List(Vec<Value<'a>>),
    /// A map, sorted by key.
    Map(Map<'a>),
}

/// A finite number, in the one form that stands for it.
///
/// An integer that was written as a float (`1.0`, `1e16`) is an integer, because the API server
/// makes no difference between them either.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An integer that fits 64 bits with a sign.
    Int(i64),
    /// A larger positive integer.
    Unsigned(u64),
    /// Anything else that is finite, negative zero included.
    Float(f64),
}

/// Entries sorted by key, each key once.
#[derive(Clone, Default, PartialEq)]
pub struct Map<'a>(Vec<(Cow<'a, str>, Value<'a>)>);

/// A key that stands twice in one map.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the key {0:?} stands twice in one map")]
pub struct DuplicateKey(pub String);

impl<'a> Value<'a> {
    /// The text, if it is text.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The map, if it is one.
    #[must_use]
    pub fn as_map(&self) -> Option<&Map<'a>> {
        match self {
            Self::Map(map) => Some(map),
            _ => None,
        }
    }

    /// The map to change, if it is one.
    pub fn as_map_mut(&mut self) -> Option<&mut Map<'a>> {
        match self {
            Self::Map(map) => Some(map),
            _ => None,
        }
    }

    /// The list, if it is one.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Value<'a>]> {
        match self {
            Self::List(list) => Some(list),
            _ => None,
        }
    }

    /// The list to change, if it is one.
    pub fn as_list_mut(&mut self) -> Option<&mut Vec<Value<'a>>> {
        match self {
            Self::List(list) => Some(list),
            _ => None,
        }
    }
}

impl Number {
    /// The number that a finite float stands for; nothing for infinities and not-a-number, which
    /// neither JSON nor Kubernetes can hold.
    #[must_use]
    pub fn from_f64(float: f64) -> Option<Self> {
        const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
        if !float.is_finite() {
            return None;
        }
        let negative_zero = float == 0.0 && float.is_sign_negative();
        if float.fract() == 0.0 && !negative_zero {
            // An integral float in range is that integer exactly.
            #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
            #[expect(clippy::cast_sign_loss, reason = "the range is checked")]
            if (-TWO_TO_63..TWO_TO_63).contains(&float) {
                return Some(Self::Int(float as i64));
            } else if (TWO_TO_63..2.0 * TWO_TO_63).contains(&float) {
                return Some(Self::Unsigned(float as u64));
            }
        }
        Some(Self::Float(float))
    }
}

impl From<i64> for Number {
    fn from(int: i64) -> Self {
        Self::Int(int)
    }
}

impl From<u64> for Number {
    fn from(int: u64) -> Self {
        i64::try_from(int).map_or(Self::Unsigned(int), Self::Int)
    }
}

impl<'a> Map<'a> {
    /// Sorts the entries; refuses a key that stands twice.
    pub fn from_entries(mut entries: Vec<(Cow<'a, str>, Value<'a>)>) -> Result<Self, DuplicateKey> {
        // The API server sorts most maps already: then this is one pass without a move.
        if !entries.is_sorted_by(|(a, _), (b, _)| a < b) {
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
                return Err(DuplicateKey(pair[0].0.to_string()));
            }
        }
        Ok(Self(entries))
    }

    fn position(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| (**other).cmp(key))
    }

    /// Where a key stands. Most maps are small, and most keys differ in their length already: then a
    /// walk compares less than a search.
    fn find(&self, key: &str) -> Option<usize> {
        if self.0.len() <= WALKED {
            self.0.iter().position(|(other, _)| other == key)
        } else {
            self.position(key).ok()
        }
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        self.find(key).map(|at| &self.0[at].1)
    }

    /// The value of a key, to change.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value<'a>> {
        self.find(key).map(|at| &mut self.0[at].1)
    }

    /// The value at the end of a path of keys.
    #[must_use]
    pub fn at(&self, path: &[&str]) -> Option<&Value<'a>> {
        let (first, rest) = path.split_first()?;
        rest.iter()
            .try_fold(self.get(first)?, |value, key| value.as_map()?.get(key))
    }

    /// The map at the end of a path of keys, to change; the map itself for an empty path.
    pub fn map_at_mut(&mut self, path: &[&str]) -> Option<&mut Map<'a>> {
        path.iter()
            .try_fold(self, |map, key| map.get_mut(key)?.as_map_mut())
    }

    /// The text of a key, if it holds text.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    /// Sets a key.
    pub fn insert(&mut self, key: impl Into<Cow<'a, str>>, value: Value<'a>) {
        let key = key.into();
        match self.position(&key) {
            Ok(at) => self.0[at].1 = value,
            Err(at) => self.0.insert(at, (key, value)),
        }
    }

    /// Takes a key out.
    pub fn remove(&mut self, key: &str) -> Option<Value<'a>> {
        self.find(key).map(|at| self.0.remove(at).1)
    }

    /// Keeps only what the predicate says; tells whether anything went.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &mut Value<'a>) -> bool) -> bool {
        let before = self.0.len();
        self.0.retain_mut(|(key, value)| keep(key, value));
        self.0.len() != before
    }

    /// The entries, sorted by key.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value<'a>)> {
        self.0.iter().map(|(key, value)| (&**key, value))
    }

    /// The values, to change.
    #[must_use = "nothing changes until it is walked"]
    pub fn values_mut(&mut self) -> impl Iterator<Item = (&str, &mut Value<'a>)> {
        self.0.iter_mut().map(|(key, value)| (&**key, value))
    }

    /// Whether it holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many entries it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(_) => f.write_str("bool"),
            Self::Number(_) => f.write_str("number"),
            Self::String(text) => write!(f, "string of {} bytes", text.len()),
            Self::List(list) => write!(f, "list of {}", list.len()),
            Self::Map(map) => map.fmt(f),
        }
    }
}

impl fmt::Debug for Map<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.iter().map(|(key, _)| key))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_float_that_is_an_integer_is_an_integer_and_negative_zero_stays_itself() {
        assert_eq!(Number::from_f64(1.0), Some(Number::Int(1)));
        assert_eq!(
            Number::from_f64(-1e16),
            Some(Number::Int(-10_000_000_000_000_000))
        );
        assert_eq!(
            Number::from_f64(1e19),
            Some(Number::Unsigned(10_000_000_000_000_000_000))
        );
        assert_eq!(Number::from_f64(0.1), Some(Number::Float(0.1)));
        assert_eq!(Number::from_f64(1e21), Some(Number::Float(1e21)));
        assert!(matches!(Number::from_f64(-0.0), Some(Number::Float(f)) if f.is_sign_negative()));
        assert_eq!(Number::from_f64(f64::NAN), None);
        assert_eq!(Number::from_f64(f64::INFINITY), None);
    }

    #[test]
    fn entries_are_sorted_and_a_second_key_is_refused() {
        let entry = |key: &'static str| (Cow::Borrowed(key), Value::Null);
        let map = Map::from_entries(vec![entry("b"), entry("a")]).unwrap();
        assert_eq!(
            map.iter().map(|(key, _)| key).collect::<Vec<_>>(),
            ["a", "b"]
        );
        let twice = Map::from_entries(vec![entry("b"), entry("a"), entry("b")]);
        assert_eq!(twice, Err(DuplicateKey("b".into())));
        let adjacent = Map::from_entries(vec![entry("a"), entry("a")]);
        assert_eq!(adjacent, Err(DuplicateKey("a".into())));
    }

    #[test]
    fn debug_output_shows_no_value() {
        let value = Value::Map(
            Map::from_entries(vec![("password".into(), Value::String("hunter2".into()))]).unwrap(),
        );
        assert_eq!(format!("{value:?}"), "{\"password\"}");
    }
}
