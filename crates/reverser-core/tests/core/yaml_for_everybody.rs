//! What the emitter writes is read back equal by us, by serde-saphyr, by Go and by Python.

use reverser_core::manifest_yaml::to_yaml;
use reverser_core::value::Value;
use reverser_core::{json_read, yaml_read};

use crate::random_values::{many, value};
use crate::readers;

#[track_caller]
fn assert_same(value: &Value<'_>, yaml: &str, answer: &str, reader: &str) {
    let same = json_read::read(answer).is_ok_and(|read| read == *value);
    assert!(same, "{reader} reads\n{yaml}\nas {answer}");
}

fn saphyr(yaml: &str) -> String {
    let options = serde_saphyr::options! {
        strict_booleans: false,
        budget: None,
    };
    match serde_saphyr::from_str_with_options::<serde_json::Value>(yaml, options) {
        Ok(value) => value.to_string(),
        Err(error) => format!("!error: {error}"),
    }
}

fn assert_everybody_reads(values: &[Value<'_>]) {
    let documents: Vec<String> = values.iter().map(to_yaml).collect();
    for (value, yaml) in values.iter().zip(&documents) {
        let read = yaml_read::read(yaml);
        assert!(
            read.is_ok_and(|read| read == *value),
            "we read differently:\n{yaml}"
        );
        assert_same(value, yaml, &saphyr(yaml), "serde-saphyr");
    }
    for (name, reader) in [
        ("Go", readers::go()),
        ("PyYAML", readers::python("pure")),
        ("libyaml", readers::python("libyaml")),
    ] {
        let answers = readers::ask(reader, &documents);
        for ((value, yaml), answer) in values.iter().zip(&documents).zip(&answers) {
            assert_same(value, yaml, answer, name);
        }
    }
}

#[test]
fn any_value_is_read_back_equal_by_every_reader() {
    assert_everybody_reads(&many(&value(), 4_000));
}

#[test]
fn what_is_large_or_deep_is_read_back_equal_by_every_reader() {
    let long_line = format!("\"{}\"", "x y ".repeat(2_500_000));
    let many_lines = format!("{{\"a\":\"{}\"}}", "line of a file\\n".repeat(20_000));
    let deep = |open: &str, close: &str| open.repeat(150) + "1" + &close.repeat(150);
    let texts = [
        long_line,
        many_lines,
        deep("[", "]"),
        deep(r#"{"a":"#, "}"),
        deep(r#"[{"a":"#, "}]"),
    ];
    let values: Vec<_> = texts[..4]
        .iter()
        .map(|text| json_read::read(text).unwrap())
        .collect();
    assert_everybody_reads(&values);
    assert!(
        json_read::read(&texts[4]).is_err(),
        "300 levels are too many"
    );
}

#[test]
fn words_that_look_like_yaml_are_read_back_equal_by_every_reader() {
    let words = [
        "on",
        "~",
        "null",
        "1.0",
        "0o7",
        "<<",
        "=",
        "yes",
        "012",
        "1e3",
        "12:30:45",
        "0x1F",
        "",
        "\t",
        "a\tb",
        "\ta",
        "a\r\nb",
        "\u{85}",
        "a\u{2028}b",
        "\u{feff}",
        "a ",
        " a",
        "a\n ",
        "-0",
        ".",
        "..",
        "!",
        "? ",
        "- ",
        "#",
        "a: b",
        "a:",
        ":a",
        "1:1",
        "1_0",
        "2001-12-14 21:59:43 Z",
    ];
    let texts = words.map(|word| {
        let word = serde_json::to_string(word).unwrap();
        format!("{{{word}:[{word},{{{word}:{word}}}]}}")
    });
    let values: Vec<_> = texts
        .iter()
        .map(|text| json_read::read(text).unwrap())
        .collect();
    assert_everybody_reads(&values);
}
