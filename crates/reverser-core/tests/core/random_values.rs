//! Random data, bent towards what YAML readers stumble over. The seed is printed, and can be given
//! as `REVERSER_SEED` to see the same data again.

use std::borrow::Cow;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use reverser_core::value::{Map, Number, Value};

/// Many values of one strategy, from one seed.
pub(crate) fn many<T>(strategy: &impl Strategy<Value = T>, count: usize) -> Vec<T> {
    let seed = match std::env::var("REVERSER_SEED") {
        Ok(seed) => seed.parse().expect("REVERSER_SEED is a number"),
        Err(_) => u64::from(std::process::id()) ^ now(),
    };
    println!("REVERSER_SEED={seed}");
    let bytes: Vec<u8> = seed.to_le_bytes().into_iter().cycle().take(32).collect();
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    (0..count)
        .map(|_| strategy.new_tree(&mut runner).unwrap().current())
        .collect()
}

fn now() -> u64 {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    u64::from(now.subsec_nanos()) ^ now.as_secs()
}

/// Any JSON value.
pub(crate) fn value() -> impl Strategy<Value = Value<'static>> {
    let leaf = prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::Bool),
        3 => number().prop_map(Value::Number),
        8 => text().prop_map(|text| Value::String(Cow::Owned(text))),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::List),
            prop::collection::btree_map(key(), inner, 0..6).prop_map(|map| {
                let entries = map.into_iter().map(|(key, value)| (Cow::Owned(key), value));
                Value::Map(Map::from_entries(entries.collect()).unwrap())
            }),
        ]
    })
}

fn number() -> impl Strategy<Value = Number> {
    prop_oneof![
        any::<i64>().prop_map(Number::from),
        any::<u64>().prop_map(Number::from),
        prop::num::f64::NORMAL.prop_map(|float| Number::from_f64(float).unwrap()),
        prop::num::f64::SUBNORMAL.prop_map(|float| Number::from_f64(float).unwrap()),
        (-1000i32..1000).prop_map(|int| Number::from_f64(f64::from(int) / 8.0).unwrap()),
        prop::sample::select(vec![
            1e21, -0.0, 0.1, 1e16, 1e15, 1e-5, 9.99e-6, 1e300, 5e-324
        ])
        .prop_map(|float| Number::from_f64(float).unwrap()),
    ]
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => text(),
        1 => (text(), 900usize..1200).prop_map(|(text, length)| text + &"k".repeat(length)),
    ]
}

/// Pieces that mean something to some reader.
#[rustfmt::skip]
const PIECES: &[&str] = &[
    "a", "b", "Z", "0", "1", "7", "9", ".", "-", "+", "_", ":", "/", "e", "E", "x", "o", "T", " ",
    "  ", "\t", "\n", "\n\n", "\n ", "\n  ", "\n\t", " \n", "\r", "\r\n", "#", " #", ": ", ":\n",
    "- ", "? ", "---", "...", "\n---\n", "\n...\n", "'", "\"", "\\", "\\n", "%", "@", "`", "!",
    "!!str ", "&a", "*a", "|", ">", "|-\n", "{", "}", "[", "]", ",", "=", "<<", "~", "null",
    "true", "yes", "on", "off", "y", "n", ".inf", ".nan", "0x", "0o7", "0b1", "1e3", "12:30:45",
    "2024-01-01", "\u{0}", "\u{7}", "\u{1b}", "\u{7f}", "\u{85}", "\u{a0}", "\u{ad}", "\u{2028}",
    "\u{2029}", "\u{200b}", "\u{202e}", "\u{feff}", "\u{fffd}", "\u{fffe}", "\u{ffff}", "\u{e9}",
    "e\u{301}", "\u{1f600}", "\u{10ffff}", "\u{1fffe}", "漢字",
];

/// Text that is hard to quote.
pub(crate) fn text() -> impl Strategy<Value = String> {
    let pieces = prop::collection::vec(prop::sample::select(PIECES), 0..8)
        .prop_map(|pieces| pieces.concat());
    let lines = prop::collection::vec("[ \ta-c#:-]{0,5}", 1..6)
        .prop_map(|lines| lines.join("\n"))
        .prop_flat_map(|text| (Just(text), "\n{0,3}").prop_map(|(text, end)| text + &end));
    prop_oneof![
        5 => pieces,
        3 => lines,
        3 => "[-+.]?[0-9]{1,3}[0-9a-fxo_:.eTtZ+ -]{0,8}",
        2 => "[a-z][a-z0-9./:-]{0,12}",
        1 => any::<String>(),
    ]
}
