//! Values to YAML that every reader reads alike.
//!
//! Readers of YAML 1.1 (PyYAML, and Go's in parts) and of YAML 1.2 disagree about words such as
//! `on`, `012`, `12:30:45` or `1e3`, and some about tabs, long keys and invisible characters. What
//! is written here means the same to all of them. It is our own code, because the bytes are in
//! other people's repositories: a new version of a library must never rewrite them.
//!
//! The form is that of `kubectl get -o yaml`: two spaces, lists at the level of their key, nothing
//! folded.

use std::fmt::Write as _;

use crate::value::{Number, Value};

/// Keys longer than this are written as `? key`: readers look for a `:` only so far.
const LONGEST_SIMPLE_KEY: usize = 1_000;

/// The YAML of a value, with its maps in the order of their keys.
#[must_use]
pub fn to_yaml(value: &Value<'_>) -> String {
    let mut out = String::new();
    match value {
        Value::Map(map) if !map.is_empty() => write_map(&mut out, map.iter(), 0),
        Value::List(list) if !list.is_empty() => write_list(&mut out, list, 0),
        Value::String(text) => {
            write_inline(&mut out, text);
            out.push('\n');
        }
        value => {
            write_atom(&mut out, value);
            out.push('\n');
        }
    }
    out
}

/// Writes the entries of a map in the order in which they are given, the first at the place where
/// the output stands, the others on lines of their own at this indentation.
pub(crate) fn write_map<'v, 'a: 'v>(
    out: &mut String,
    entries: impl Iterator<Item = (&'v str, &'v Value<'a>)>,
    indent: usize,
) {
    for (index, (key, value)) in entries.enumerate() {
        if index > 0 {
            write_indent(out, indent);
        }
        write_key(out, key, indent);
        write_map_value(out, value, indent);
    }
}

/// Writes an entry whose value is a map with an order of its own.
pub(crate) fn write_ordered_entry<'v, 'a: 'v>(
    out: &mut String,
    key: &str,
    entries: impl Iterator<Item = (&'v str, &'v Value<'a>)>,
) {
    write_key(out, key, 0);
    out.push('\n');
    write_indent(out, 2);
    write_map(out, entries, 2);
}

fn write_key(out: &mut String, key: &str, indent: usize) {
    let start = out.len();
    write_inline(out, key);
    if out.len() - start > LONGEST_SIMPLE_KEY {
        out.insert_str(start, "? ");
        out.push('\n');
        write_indent(out, indent);
    }
    out.push(':');
}

fn write_map_value(out: &mut String, value: &Value<'_>, indent: usize) {
    match value {
        Value::Map(map) if !map.is_empty() => {
            out.push('\n');
            write_indent(out, indent + 2);
            write_map(out, map.iter(), indent + 2);
        }
        Value::List(list) if !list.is_empty() => {
            out.push('\n');
            write_indent(out, indent);
            write_list(out, list, indent);
        }
        value => {
            out.push(' ');
            write_scalar(out, value, indent);
        }
    }
}

fn write_list(out: &mut String, list: &[Value<'_>], indent: usize) {
    for (index, item) in list.iter().enumerate() {
        if index > 0 {
            write_indent(out, indent);
        }
        out.push_str("- ");
        match item {
            Value::Map(map) if !map.is_empty() => write_map(out, map.iter(), indent + 2),
            Value::List(inner) if !inner.is_empty() => write_list(out, inner, indent + 2),
            item => write_scalar(out, item, indent),
        }
    }
}

/// A scalar, or an empty map or list, with the end of its line.
fn write_scalar(out: &mut String, value: &Value<'_>, indent: usize) {
    match value {
        Value::String(text) if !is_name(text) && is_literal(text) => {
            write_literal(out, text, indent + 2);
        }
        Value::String(text) => {
            write_inline(out, text);
            out.push('\n');
        }
        value => {
            write_atom(out, value);
            out.push('\n');
        }
    }
}

fn write_atom(out: &mut String, value: &Value<'_>) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(bool) => out.push_str(if *bool { "true" } else { "false" }),
        Value::Number(number) => write_number(out, *number),
        Value::String(text) => write_inline(out, text),
        Value::List(_) => out.push_str("[]"),
        Value::Map(_) => out.push_str("{}"),
    }
}

fn write_number(out: &mut String, number: Number) {
    let _infallible = match number {
        Number::Int(int) => write!(out, "{int}"),
        Number::Unsigned(int) => write!(out, "{int}"),
        Number::Float(float) => write_float(out, float),
    };
}

/// A float with a point and a signed exponent, which YAML 1.1 asks for.
fn write_float(out: &mut String, float: f64) -> std::fmt::Result {
    // Integers are not floats here, so only negative zero lacks a point.
    let magnitude = float.abs();
    if magnitude == 0.0 {
        return out.write_str("-0.0");
    }
    if (1e-5..1e16).contains(&magnitude) {
        return write!(out, "{float}");
    }
    let text = format!("{float:e}");
    let (mantissa, exponent) = text.split_once('e').expect("`{:e}` writes an exponent");
    let point = if mantissa.contains('.') { "" } else { ".0" };
    let sign = if exponent.starts_with('-') { "" } else { "+" };
    write!(out, "{mantissa}{point}e{sign}{exponent}")
}

fn write_indent(out: &mut String, indent: usize) {
    const SPACES: &str = "                                ";
    for at in (0..indent).step_by(SPACES.len()) {
        out.push_str(&SPACES[..SPACES.len().min(indent - at)]);
    }
}

/// Text on one line: plain where nobody can mistake it, else in quotes.
fn write_inline(out: &mut String, text: &str) {
    match style(text) {
        Style::Plain => out.push_str(text),
        Style::SingleQuoted => {
            out.push('\'');
            for (index, part) in text.split('\'').enumerate() {
                if index > 0 {
                    out.push_str("''");
                }
                out.push_str(part);
            }
            out.push('\'');
        }
        Style::DoubleQuoted => write_double_quoted(out, text),
    }
}

fn write_double_quoted(out: &mut String, text: &str) {
    out.push('"');
    for char in text.chars() {
        let _infallible = match char {
            '"' => out.write_str("\\\""),
            '\\' => out.write_str("\\\\"),
            '\n' => out.write_str("\\n"),
            '\r' => out.write_str("\\r"),
            '\t' => out.write_str("\\t"),
            char if is_visible(char) => out.write_char(char),
            char if char <= '\u{FFFF}' => write!(out, "\\u{:04X}", u32::from(char)),
            char => write!(out, "\\U{:08X}", u32::from(char)),
        };
    }
    out.push('"');
}

enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
}

/// Whether it is one of those texts that most are, and that nobody mistakes: longer than every word
/// that means something, and of nothing but letters, digits and signs that mean nothing.
fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_part =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'/' | b'-' | b'_');
    bytes.len() > LONGEST_WORD && bytes[0].is_ascii_alphabetic() && bytes.iter().all(is_part)
}

fn style(text: &str) -> Style {
    if is_name(text) {
        return Style::Plain;
    }
    let bytes = text.as_bytes();
    let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else {
        return Style::DoubleQuoted;
    };
    let ascii = bytes.iter().all(|byte| matches!(byte, b' '..=b'~'));
    if !ascii && !text.chars().all(is_visible) {
        return Style::DoubleQuoted;
    }
    // `: ` would begin a value and ` #` a comment.
    let mark = bytes.windows(2).any(|pair| matches!(pair, b": " | b" #"));
    let quote = bytes.iter().any(|byte| matches!(byte, b'"' | b'\\'));
    let plain = !mark
        && first != b' '
        && !matches!(last, b' ' | b':')
        && can_begin_plain(bytes)
        && !means_something_else(text);
    match (plain, quote) {
        (true, _) => Style::Plain,
        (false, true) => Style::SingleQuoted,
        (false, false) => Style::DoubleQuoted,
    }
}

/// Whether readers take a text that begins so for plain text: not an indicator of anything.
fn can_begin_plain(bytes: &[u8]) -> bool {
    match bytes {
        [b'-', b'-', b'-', ..] | [b'.', b'.', b'.', ..] | [b'-'] | [] => false,
        [b'-', second, ..] => *second == b'-' || second.is_ascii_alphanumeric(),
        [first, ..] => {
            first.is_ascii_alphanumeric() || *first >= 0x80 || b"/._$(+^;<~".contains(first)
        }
    }
}

/// How long the words are that mean something.
const LONGEST_WORD: usize = 5;

/// Whether some reader takes the plain text for something other than text.
fn means_something_else(text: &str) -> bool {
    const WORDS: [&str; 16] = [
        "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n", ".inf", "+.inf", "-.inf",
        ".nan", "<<", "=",
    ];
    if text.len() <= LONGEST_WORD && WORDS.iter().any(|word| text.eq_ignore_ascii_case(word)) {
        return true;
    }
    // Numbers of every base and with every separator, base 60 included, dates and times.
    let numeric = |byte: &u8| {
        byte.is_ascii_hexdigit()
            || matches!(byte, b'_' | b'.' | b':' | b'+' | b'-' | b' ')
            || matches!(byte.to_ascii_lowercase(), b'x' | b'o' | b't' | b'z')
    };
    let bytes = text.as_bytes();
    let begins = matches!(bytes[0], b'0'..=b'9' | b'+' | b'-' | b'.');
    let has_digit = bytes
        .iter()
        .any(|byte| byte.is_ascii_digit() || *byte == b'_');
    // `10.0.0.1` and `1.2.3` are numbers to nobody.
    let dotted = text.matches('.').nth(1).is_some()
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_digit() || *byte == b'.');
    begins && has_digit && !dotted && bytes.iter().all(numeric)
}

/// Whether a text is exact, and better to read, as a block of lines.
fn is_literal(text: &str) -> bool {
    text.contains('\n')
        && !text.starts_with(['\n', ' ', '\t'])
        && text
            .chars()
            .all(|char| matches!(char, '\n' | '\t') || is_visible(char))
}

fn write_literal(out: &mut String, text: &str, indent: usize) {
    let content = text.trim_end_matches('\n');
    out.push_str(match text.len() - content.len() {
        0 => "|-\n",
        1 => "|\n",
        _ => "|+\n",
    });
    for line in text.split_terminator('\n') {
        if !line.is_empty() {
            write_indent(out, indent);
            out.push_str(line);
        }
        out.push('\n');
    }
}

/// Whether a reviewer sees this character for what it is. Line ends of YAML 1.1, control
/// characters, odd spaces, zero widths and changes of direction are written as escapes.
fn is_visible(char: char) -> bool {
    let invisible = matches!(
        char,
        '\0'..='\u{1F}' | '\u{7F}'..='\u{A0}' | '\u{AD}' | '\u{34F}' | '\u{61C}'
            | '\u{115F}' | '\u{1160}' | '\u{1680}' | '\u{17B4}' | '\u{17B5}'
            | '\u{180B}'..='\u{180F}' | '\u{2000}'..='\u{200F}' | '\u{2028}'..='\u{202F}'
            | '\u{205F}'..='\u{206F}' | '\u{3000}' | '\u{3164}' | '\u{FEFF}' | '\u{FFA0}'
            | '\u{FFF0}'..='\u{FFFC}' | '\u{E0000}'..='\u{E0FFF}'
    );
    // The last two code points of each plane are no characters.
    !invisible && u32::from(char) & 0xFFFE != 0xFFFE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{json_read, yaml_read};

    #[track_caller]
    fn yaml(json: &str) -> String {
        let value = json_read::read(json).unwrap();
        let text = to_yaml(&value);
        let back = yaml_read::read(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert!(back == value, "read back differently:\n{text}");
        text
    }

    #[test]
    fn it_looks_like_kubectl() {
        let json = r#"{"a":{"b":[{"c":1,"d":[]},[1,["x"]],"e",{}]},"f":{},"g":null,"h":true}"#;
        let expected = "a:\n  b:\n  - c: 1\n    d: []\n  - - 1\n    - - x\n  - e\n  - {}\nf: {}\ng: null\nh: true\n";
        assert_eq!(yaml(json), expected);
    }

    #[test]
    fn words_that_some_reader_takes_for_something_else_are_quoted() {
        for word in [
            "",
            "~",
            "null",
            "Null",
            "true",
            "False",
            "yes",
            "NO",
            "on",
            "Off",
            "y",
            "N",
            ".inf",
            "-.Inf",
            ".NaN",
            "<<",
            "=",
            "012",
            "0o7",
            "0x1F",
            "0b1",
            "1e3",
            "1.0",
            "12:30:45",
            "1_000",
            "+1",
            "-1",
            ".5",
            "2024-01-01",
            "2001-12-14t21:59:43.10-05:00",
            "12e03",
            "-",
            "?",
            ":",
            "- a",
            "? a",
            "a: b",
            "a #b",
            "#a",
            "&a",
            "*a",
            "!a",
            "|",
            ">",
            "%a",
            "@a",
            "`a",
            "{a",
            "[a",
            ",a",
            "]",
            "}",
            "a:",
            " a",
            "a ",
            "---",
            "--- a",
            "...",
            "0",
            "685_230.15",
            "190:20:30",
            "1.",
            "0.",
            "._",
            "+_",
            "0x_",
            "1e+3",
        ] {
            let text = yaml(&format!("{word:?}"));
            let quoted = text.starts_with(['"', '\'']) && text.trim_end().ends_with(['"', '\'']);
            assert!(quoted, "{word} is written as {text}");
        }
    }

    #[test]
    fn words_that_nobody_mistakes_stay_plain() {
        for word in [
            "a",
            "web",
            "10.0.0.1",
            "1.2.3",
            "100m",
            "128Mi",
            "nginx:1.25",
            "a b",
            "--flag=x",
            "-c",
            "/bin/sh",
            "http://a.b/c?d=e#f",
            "system:masters",
            "$(NODE_NAME)",
            "it's",
            "a,b",
            "ünï",
            "Y2K",
            "yes please",
            "a{b}",
            "0.5Gi",
            "sha256:abcdef",
            "v1",
            "1h",
            "~/x",
            "<none>",
        ] {
            assert_eq!(yaml(&format!("{word:?}")), format!("{word}\n"));
        }
    }

    #[test]
    fn lines_become_a_block_where_that_is_exact() {
        assert_eq!(yaml(r#"{"a":"x\ny"}"#), "a: |-\n  x\n  y\n");
        assert_eq!(yaml(r#"{"a":"x\ny\n"}"#), "a: |\n  x\n  y\n");
        assert_eq!(
            yaml(r#"{"a":"x\n\n  y \n\n\n"}"#),
            "a: |+\n  x\n\n    y \n\n\n"
        );
        assert_eq!(yaml(r#"["x\n\tb\n"]"#), "- |\n  x\n  \tb\n");
        for inexact in [
            r#"" x\ny""#,
            r#""\tx\ny""#,
            r#""\nx""#,
            r#""x\r\ny""#,
            r#""x\ny\u2028""#,
        ] {
            assert!(
                yaml(&format!("{{\"a\":{inexact}}}")).starts_with("a: \""),
                "{inexact}"
            );
        }
    }

    #[test]
    fn what_cannot_be_seen_is_escaped() {
        assert_eq!(yaml(r#""a\u202eb""#), "\"a\\u202Eb\"\n");
        assert_eq!(
            yaml(r#""\ufeff\u0000\u0085\udb40\udc41""#),
            "\"\\uFEFF\\u0000\\u0085\\U000E0041\"\n"
        );
        assert_eq!(yaml(r#""{\"a\": 'b'}""#), "'{\"a\": ''b''}'\n");
    }

    #[test]
    fn numbers_are_floats_or_integers_to_everybody() {
        assert_eq!(
            yaml(
                "[9223372036854775807, 18446744073709551615, 1e21, -0.0, 0.1, 1e-7, 1e-5, -2.5e300]"
            ),
            "- 9223372036854775807\n- 18446744073709551615\n- 1.0e+21\n- -0.0\n- 0.1\n- 1.0e-7\n- 0.00001\n- -2.5e+300\n"
        );
    }

    #[test]
    fn a_key_too_long_for_readers_is_written_as_an_explicit_one() {
        let key = "k".repeat(1_001);
        let text = yaml(&format!(
            r#"{{"{key}":{{"a":[1]}},"b":[{{"{key}":[1],"c":2}}]}}"#
        ));
        assert!(
            text.contains("? kkk") && text.contains("\n  ? kkk"),
            "{}",
            text.replace('k', "")
        );
    }
}
