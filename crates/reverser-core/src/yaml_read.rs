//! YAML text to [`Value`]s, read as `kubectl` reads it.
//!
//! A plain word means what Go's reader takes it for (`on` is true, `012` is ten, `1_000` is a
//! thousand), because that is what applying the file would do. Merge keys and tags other than those
//! of plain data are refused with a sentence.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use granit_parser::{Event, Marker, Parser, ScalarStyle, Span, StrInput, Tag};

pub use crate::json_read::ReadError;
use crate::value::{DuplicateKey, MAX_DEPTH, Map, Number, Value};

/// How many bytes anchors and aliases may copy in one document, so that a small file cannot become a
/// large tree.
const MAX_COPIED_BYTES: usize = 4 << 20;

/// One document of a YAML text.
#[derive(Debug, PartialEq)]
pub struct Document<'a> {
    /// The line on which it starts, counted from 1.
    pub line: usize,
    /// The column in which it starts, counted from 1.
    pub column: usize,
    /// What it says; null if it is empty.
    pub value: Result<Value<'a>, ReadError>,
}

/// The documents of a text, one by one. A document that cannot be read is an error in its place;
/// reading goes on behind the next `---` if there is one.
#[must_use]
pub fn documents(text: &str) -> Documents<'_> {
    let options = granit_parser::options! {
        block_nesting_limit: 2 * MAX_DEPTH,
        flow_nesting_limit: 2 * MAX_DEPTH,
    };
    Documents {
        parser: Parser::new_from_str_with_options(text, options),
        over: false,
    }
}

/// Reads a text of exactly one document.
pub fn read(text: &str) -> Result<Value<'_>, ReadError> {
    let mut documents = documents(text);
    let first = documents
        .next()
        .map_or(Ok(Value::Null), |document| document.value)?;
    match documents.next() {
        None => Ok(first),
        Some(second) => {
            second.value?;
            let message = "a second document starts here".to_owned();
            Err(ReadError {
                message,
                line: second.line,
                column: 1,
            })
        }
    }
}

/// The documents of a YAML text; see [`documents`].
pub struct Documents<'a> {
    parser: Parser<'a, StrInput<'a>>,
    over: bool,
}

impl<'a> Iterator for Documents<'a> {
    type Item = Document<'a>;

    fn next(&mut self) -> Option<Document<'a>> {
        while !self.over {
            match self.parser.next_event() {
                None | Some(Ok((Event::StreamEnd, _))) => self.over = true,
                Some(Ok((Event::DocumentStart(..), span))) => return Some(self.document(span)),
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    let error = scan_error(&error);
                    let (line, column) = (error.line, error.column);
                    return Some(Document {
                        line,
                        column,
                        value: Err(self.recover(error)),
                    });
                }
            }
        }
        None
    }
}

impl<'a> Documents<'a> {
    fn document(&mut self, start: Span) -> Document<'a> {
        let mut builder = Builder::default();
        let mut first = None;
        let value = loop {
            let (event, span) = match self.parser.next_event() {
                Some(Ok(next)) => next,
                Some(Err(error)) => break Err(self.recover(scan_error(&error))),
                None => break Ok(Value::Null),
            };
            first = first.or_else(|| event.is_node().then_some(span.start));
            if matches!(event, Event::DocumentEnd) {
                break Ok(builder.root.take().unwrap_or(Value::Null));
            }
            if let Err(message) = builder.take(event) {
                break Err(self.recover(error_at(message, span.start)));
            }
        };
        let place = first.unwrap_or(start.start);
        Document {
            line: place.line(),
            column: place.col() + 1,
            value,
        }
    }

    /// Goes on to the next document, if the text has one that can be found.
    fn recover(&mut self, error: ReadError) -> ReadError {
        self.over = !self.parser.proceed_next_document().unwrap_or(false);
        error
    }
}

fn error_at(message: String, place: Marker) -> ReadError {
    ReadError {
        message,
        line: place.line(),
        column: place.col() + 1,
    }
}

fn scan_error(error: &granit_parser::ScanError) -> ReadError {
    error_at(error.info(), *error.marker())
}

/// Builds a tree from events, without recursion.
#[derive(Default)]
struct Builder<'a> {
    open: Vec<Open<'a>>,
    anchors: HashMap<usize, Value<'a>>,
    copied: usize,
    root: Option<Value<'a>>,
}

/// A list or map that has not ended yet, with the anchor that will name it.
struct Open<'a> {
    collection: Collection<'a>,
    anchor: usize,
}

enum Collection<'a> {
    List(Vec<Value<'a>>),
    Map(OpenMap<'a>),
}

#[derive(Default)]
struct OpenMap<'a> {
    entries: Vec<(Cow<'a, str>, Value<'a>)>,
    /// The key whose value comes next.
    key: Option<Cow<'a, str>>,
    /// The keys so far, so that a second one is told where it stands.
    keys: HashSet<Cow<'a, str>>,
}

impl<'a> Builder<'a> {
    fn take(&mut self, event: Event<'a>) -> Result<(), String> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                if let Some(map) = self.map_without_key() {
                    let key = key(text, style, tag.as_deref())?;
                    map.set_key(key.clone())?;
                    return self.remember(anchor, &Value::String(key));
                }
                let value = scalar(text, style, tag.as_deref())?;
                self.remember(anchor, &value)?;
                self.add(value)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.start(Collection::List(Vec::new()), anchor, tag.as_deref(), "seq")
            }
            Event::MappingStart(_, anchor, tag) => {
                let map = Collection::Map(OpenMap::default());
                self.start(map, anchor, tag.as_deref(), "map")
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(id) => self.alias(id),
            _ => Ok(()),
        }
    }

    /// The innermost map, if a key has to come next.
    fn map_without_key(&mut self) -> Option<&mut OpenMap<'a>> {
        match &mut self.open.last_mut()?.collection {
            Collection::Map(map) if map.key.is_none() => Some(map),
            _ => None,
        }
    }

    /// Keeps a copy of what an anchor names.
    fn remember(&mut self, anchor: usize, value: &Value<'a>) -> Result<(), String> {
        if anchor != 0 {
            self.charge(value)?;
            self.anchors.insert(anchor, value.clone());
        }
        Ok(())
    }

    fn charge(&mut self, copy: &Value<'_>) -> Result<(), String> {
        self.copied += weight(copy);
        if self.copied > MAX_COPIED_BYTES {
            return Err("anchors and aliases repeat too much".to_owned());
        }
        Ok(())
    }

    fn start(
        &mut self,
        collection: Collection<'a>,
        anchor: usize,
        tag: Option<&Tag>,
        kind: &str,
    ) -> Result<(), String> {
        if tag.is_some_and(|tag| !tag.is_yaml_core_schema_tag(kind)) {
            return Err(UNKNOWN_TAG.to_owned());
        }
        if self.map_without_key().is_some() {
            return Err("a key must be a word, not a list or a map".into());
        }
        if self.open.len() == MAX_DEPTH {
            return Err(format!("nested deeper than {MAX_DEPTH} levels"));
        }
        self.open.push(Open { collection, anchor });
        Ok(())
    }

    fn end(&mut self) -> Result<(), String> {
        let Some(Open { collection, anchor }) = self.open.pop() else {
            return Ok(());
        };
        let value = match collection {
            Collection::List(list) => Value::List(list),
            Collection::Map(map) => {
                Value::Map(Map::from_entries(map.entries).map_err(|error| error.to_string())?)
            }
        };
        self.remember(anchor, &value)?;
        self.add(value)
    }

    fn alias(&mut self, id: usize) -> Result<(), String> {
        let Some(value) = self.anchors.get(&id).cloned() else {
            return Err("an alias stands inside the value that it names".into());
        };
        if self.open.len() + depth(&value) > MAX_DEPTH {
            return Err(format!("nested deeper than {MAX_DEPTH} levels"));
        }
        self.charge(&value)?;
        if let Some(map) = self.map_without_key() {
            let Value::String(key) = value else {
                return Err("a key must be a word, not a list or a map".into());
            };
            return map.set_key(key);
        }
        self.add(value)
    }

    fn add(&mut self, value: Value<'a>) -> Result<(), String> {
        match self.open.last_mut().map(|open| &mut open.collection) {
            None => self.root = Some(value),
            Some(Collection::List(list)) => list.push(value),
            Some(Collection::Map(map)) => {
                let key = map.key.take().ok_or("a value without a key")?;
                map.entries.push((key, value));
            }
        }
        Ok(())
    }
}

impl<'a> OpenMap<'a> {
    fn set_key(&mut self, key: Cow<'a, str>) -> Result<(), String> {
        if !self.keys.insert(key.clone()) {
            return Err(DuplicateKey(key.into_owned()).to_string());
        }
        self.key = Some(key);
        Ok(())
    }
}

fn depth(value: &Value<'_>) -> usize {
    match value {
        Value::List(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Value::Map(map) => 1 + map.iter().map(|(_, value)| depth(value)).max().unwrap_or(0),
        _ => 0,
    }
}

/// About what a copy costs.
fn weight(value: &Value<'_>) -> usize {
    const VALUE: usize = size_of::<Value<'_>>();
    VALUE
        + match value {
            Value::String(text) => text.len(),
            Value::List(list) => list.iter().map(weight).sum(),
            Value::Map(map) => map
                .iter()
                .map(|(key, value)| VALUE + key.len() + weight(value))
                .sum(),
            _ => 0,
        }
}

/// The tag itself stays untold: somebody's password may begin with `!`.
const UNKNOWN_TAG: &str = "a tag that is not of plain data: quote the value if it begins with `!`";

fn is_plain_data(tag: &Tag) -> bool {
    ["null", "bool", "int", "float"]
        .iter()
        .any(|name| tag.is_yaml_core_schema_tag(name))
}

fn scalar<'a>(
    text: Cow<'a, str>,
    style: ScalarStyle,
    tag: Option<&Tag>,
) -> Result<Value<'a>, String> {
    match tag {
        Some(tag) if tag.is_yaml_core_schema_tag("str") => return Ok(Value::String(text)),
        Some(tag) if !is_plain_data(tag) => return Err(UNKNOWN_TAG.to_owned()),
        None if style != ScalarStyle::Plain => return Ok(Value::String(text)),
        _ => {}
    }
    resolve_plain(&text).map(|resolved| match resolved {
        Plain::Null => Value::Null,
        Plain::Bool(bool) => Value::Bool(bool),
        Plain::Number(number) => Value::Number(number),
        Plain::Text => Value::String(text),
    })
}

/// A key is always text; a plain one that means something else is written as JSON would write it.
fn key<'a>(
    text: Cow<'a, str>,
    style: ScalarStyle,
    tag: Option<&Tag>,
) -> Result<Cow<'a, str>, String> {
    if style == ScalarStyle::Plain && text == "<<" {
        return Err("merge keys (`<<`) are not supported: write the fields out".into());
    }
    match scalar(text, style, tag)? {
        Value::String(text) => Ok(text),
        Value::Bool(bool) => Ok(bool.to_string().into()),
        Value::Number(Number::Int(int)) => Ok(int.to_string().into()),
        Value::Number(Number::Unsigned(int)) => Ok(int.to_string().into()),
        Value::Number(Number::Float(float)) => Ok(float.to_string().into()),
        _ => Err("a key must be a word, not null".into()),
    }
}

#[derive(Debug, PartialEq)]
enum Plain {
    Null,
    Bool(bool),
    Number(Number),
    Text,
}

/// What Go's reader takes a word for that stands without quotes.
fn resolve_plain(text: &str) -> Result<Plain, String> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Plain::Null,
        "true" | "True" | "TRUE" | "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => {
            Plain::Bool(true)
        }
        "false" | "False" | "FALSE" | "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => {
            Plain::Bool(false)
        }
        _ => match text.as_bytes()[0] {
            b'0'..=b'9' | b'+' | b'-' | b'.' => return resolve_number(text),
            _ => Plain::Text,
        },
    })
}

fn resolve_number(text: &str) -> Result<Plain, String> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(text, ".nan" | ".NaN" | ".NAN") || matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return Err("infinity and not-a-number are no values that Kubernetes can hold".to_owned());
    }
    let digits = text.replace('_', "");
    if let Some(number) = resolve_integer(&digits) {
        return Ok(Plain::Number(number));
    }
    // Out of range is text, as it is to Go: a commit's short name may look like `12e4567`.
    let float = digits.parse().ok().filter(|_| looks_like_float(&digits));
    Ok(float
        .and_then(Number::from_f64)
        .map_or(Plain::Text, Plain::Number))
}

fn resolve_integer(digits: &str) -> Option<Number> {
    let (negative, rest) = match digits.as_bytes() {
        [b'-', ..] => (true, &digits[1..]),
        [b'+', ..] => (false, &digits[1..]),
        _ => (false, digits),
    };
    let radix = |prefix: [&str; 2]| prefix.iter().find_map(|prefix| rest.strip_prefix(prefix));
    let (rest, radix) = if let Some(rest) = radix(["0x", "0X"]) {
        (rest, 16)
    } else if let Some(rest) = radix(["0b", "0B"]) {
        (rest, 2)
    } else if let Some(rest) = radix(["0o", "0O"]) {
        (rest, 8)
    } else if rest.len() > 1 && rest.starts_with('0') {
        (&rest[1..], 8)
    } else {
        (rest, 10)
    };
    if !rest.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    let magnitude = u64::from_str_radix(rest, radix).ok()?;
    if negative {
        0i64.checked_sub_unsigned(magnitude).map(Number::Int)
    } else {
        Some(magnitude.into())
    }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn looks_like_float(text: &str) -> bool {
    fn digits(text: &str) -> (usize, &str) {
        let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
        (text.len() - rest.len(), rest)
    }
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, rest) = digits(text);
    let (fraction, rest) = rest.strip_prefix('.').map_or((0, rest), digits);
    if whole == 0 && fraction == 0 {
        return false;
    }
    match rest.strip_prefix(['e', 'E']) {
        None => rest.is_empty(),
        Some(exponent) => {
            let (count, rest) = digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent));
            count > 0 && rest.is_empty()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json_read;

    #[track_caller]
    fn same(yaml: &str, json: &str) {
        let (yaml, json) = (read(yaml).unwrap(), json_read::read(json).unwrap());
        assert!(yaml == json, "{yaml:?} is not {json:?}");
    }

    #[track_caller]
    fn error(yaml: &str) -> String {
        read(yaml).unwrap_err().to_string()
    }

    #[test]
    fn plain_words_mean_what_kubectl_takes_them_for() {
        same(
            "[yes, on, y, True, no, off]",
            "[true, true, true, true, false, false]",
        );
        same("['yes', \"on\", !!str y]", r#"["yes", "on", "y"]"#);
        same("[~, null, Null, '']", r#"[null, null, null, ""]"#);
        same(
            "[012, 0o12, 0x1F, 0b11, 1_000, +5, -0]",
            "[10, 10, 31, 3, 1000, 5, 0]",
        );
        same(
            "[12e4567, 1e400, !!int 5, !!float 1.5]",
            r#"["12e4567","1e400",5,1.5]"#,
        );
        same("[1e3, .5, 1., -1.5E-3, 08]", "[1000, 0.5, 1, -0.0015, 8]");
        same(
            "[12:30:45, 1.2.3, 2024-01-01, 100m, '1', 0x]",
            r#"["12:30:45","1.2.3","2024-01-01","100m","1","0x"]"#,
        );
        same(
            "[18446744073709551615, -9223372036854775808]",
            "[18446744073709551615, -9223372036854775808]",
        );
    }

    #[test]
    fn keys_are_text_whatever_they_look_like() {
        same(
            "{1: a, on: b, '~': c, 0x10: d}",
            r#"{"1":"a","true":"b","~":"c","16":"d"}"#,
        );
        assert_eq!(
            error("~: a"),
            "line 1, column 1: a key must be a word, not null"
        );
        assert!(error("? [a]\n: b").contains("a key must be a word"));
    }

    #[test]
    fn anchors_are_followed_within_a_budget_and_merges_refused() {
        same("a: &x [1, 2]\nb: *x\n", r#"{"a":[1,2],"b":[1,2]}"#);
        assert!(error("a: &x {b: 1}\nc: {<<: *x}").contains("merge keys"));
        let mut bomb = "a: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..9 {
            let inner = format!("*a{},", level - 1).repeat(10);
            bomb = format!("{bomb}k{level}: &a{level} [{inner}]\n");
        }
        assert!(error(&bomb).contains("anchors and aliases repeat too much"));
        let long = format!(
            "a: &x \"{}\\n\"\nb: [{}]\n",
            "x".repeat(100_000),
            "*x,".repeat(9_000)
        );
        assert!(error(&long).contains("anchors and aliases repeat too much"));
        let nested = "&a [".repeat(150) + &"x".repeat(100_000) + &"]".repeat(150);
        assert!(error(&nested).contains("anchors and aliases repeat too much"));
    }

    #[test]
    fn depth_is_limited_without_a_panic() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(read(&nested(MAX_DEPTH)).is_ok());
        assert!(error(&nested(MAX_DEPTH + 1)).contains("nested deeper than 200 levels"));
        assert!(read(&nested(100_000)).is_err());
        assert!(read(&"- ".repeat(5_000)).is_err());
    }

    #[test]
    fn errors_say_line_and_column_and_duplicates_are_refused() {
        assert_eq!(
            error("a: 1\nb: [\n"),
            "line 2, column 4: unclosed bracket '['"
        );
        assert!(error("a: 1\na: 2\nb: 3\n").starts_with("line 2, column 1: the key \"a\""));
        for secret in [
            "a: !hunter2 1\n",
            "a: hunter2: x\n",
            "hunter2: [",
            "a: *hunter2\n",
        ] {
            assert!(
                !error(secret).contains("hunter2") || secret.starts_with('h'),
                "{secret}"
            );
        }
        assert!(error("a: .inf\n").starts_with("line 1, column 4"));
    }

    #[test]
    fn a_bad_document_does_not_hide_the_next() {
        let text = "a: 1\n---\nb: [1\n---\nc: 3\n---\n";
        let read: Vec<_> = documents(text)
            .map(|document| (document.line, document.value.is_ok()))
            .collect();
        assert_eq!(read, [(1, true), (3, false), (5, true), (6, true)]);
    }

    #[test]
    fn no_document_reads_as_null() {
        assert!(read("").unwrap() == Value::Null);
        assert!(read("# only a comment\n").unwrap() == Value::Null);
        assert!(read("a: 1\n---\nb: 2\n").is_err());
    }
}
