//! Canonicalise + emit + hash: what each object costs when its type is listed.
//!
//! 20,000 objects made from the golden cases, on one core. The floor is reading the same JSON into
//! `serde_json::Value`, without doing anything with it.

#![allow(
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a bench prints rounded figures"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use reverser_core::blob_id::BlobId;
use reverser_core::canon::canonicalise;
use reverser_core::object::Object;

const OBJECTS: usize = 20_000;
const ROUNDS: usize = 5;

fn main() {
    let objects = objects();
    let bytes: usize = objects.iter().map(String::len).sum();
    let output = pass(&objects);

    let ours = best(|| {
        pass(&objects);
    });
    let floor = best(|| {
        for json in &objects {
            std::hint::black_box(serde_json::from_str::<serde_json::Value>(json).ok());
        }
    });
    let allocations = allocation_counter::measure(|| {
        pass(&objects);
    });

    let per_second = |count: usize, time: Duration| count as f64 / time.as_secs_f64();
    println!(
        "canonicalise + emit + hash: {OBJECTS} objects, {:.1} MB of JSON in, {:.1} MB of YAML out, one core",
        bytes as f64 / 1e6,
        output as f64 / 1e6
    );
    println!(
        "  {:>8.0} objects/s   {:>6.0} MB/s   {:.2} × floor   {:.1} allocations and {:.1} KB allocated per object",
        per_second(OBJECTS, ours),
        per_second(bytes, ours) / 1e6,
        ours.as_secs_f64() / floor.as_secs_f64(),
        allocations.count_total as f64 / OBJECTS as f64,
        allocations.bytes_total as f64 / OBJECTS as f64 / 1e3,
    );
    println!(
        "  {:>8.0} objects/s   {:>6.0} MB/s   floor: the same JSON to serde_json::Value, nothing else",
        per_second(OBJECTS, floor),
        per_second(bytes, floor) / 1e6,
    );
}

/// Handles every object once; the bytes written.
fn pass(objects: &[String]) -> usize {
    let mut file = String::new();
    let mut written = 0;
    for json in objects {
        let object = Object::from_json(json, None).expect("the golden cases are objects");
        file.clear();
        canonicalise(object).write_yaml(&mut file);
        written += file.len();
        std::hint::black_box(BlobId::of(file.as_bytes()));
    }
    written
}

fn best(mut work: impl FnMut()) -> Duration {
    let mut timed = || {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..ROUNDS).map(|_| timed()).min().unwrap_or_default()
}

/// The golden cases over and over, each copy in memory of its own, as the API server sends them:
/// without white space.
fn objects() -> Vec<String> {
    let golden = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden"));
    let folders = |folder: &Path| -> Vec<_> {
        let entries = std::fs::read_dir(folder).expect("the golden cases are there");
        entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect()
    };
    let mut files: Vec<_> = folders(golden)
        .iter()
        .filter(|kind| kind.is_dir())
        .flat_map(|kind| folders(kind))
        .map(|case| case.join("live.json"))
        .collect();
    files.sort();
    let recorded: Vec<String> = files
        .iter()
        .map(|file| {
            let text = std::fs::read_to_string(file).expect("a golden case has live.json");
            let value: serde_json::Value = serde_json::from_str(&text).expect("live.json is JSON");
            value.to_string()
        })
        .collect();
    recorded.iter().cycle().take(OBJECTS).cloned().collect()
}
