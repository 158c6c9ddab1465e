//! A file that was made from a live object brings back that object, on a real API server.
//!
//! The golden cases of `tests/golden` are recorded here and tried here; `reverser-core` tries them
//! again without a server.

/// The folders of the cases.
mod cases;
/// A control plane on which all cases are set up at once.
mod stage;
/// Writes what the server says into the folders.
mod record;
/// The same objects as a webhook sees them.
mod admission;

use reverser_core::canon::canonicalise;
use reverser_core::object::Object;

use self::cases::{Case, How};
use self::stage::Stage;

/// What cannot come back by nature, and why. Everything else does, to the byte.
const EXCEPTIONS: &[(&str, &[How], &str)] = &[
    (
        "custom-resource/null",
        &[How::Apply, How::ServerSideApply],
        "to kubectl apply, null in a map means: remove this",
    ),
    (
        "configmap/next-line",
        &[How::ServerSideApply],
        "the server reads the JSON of kubectl as YAML, in which U+0085 ends a line",
    ),
    (
        "deployment/autoscaled",
        &[How::ServerSideApply],
        SCALED_WITHOUT_A_TRACE,
    ),
    (
        "custom-resource/autoscaled",
        &[How::ServerSideApply],
        SCALED_WITHOUT_A_TRACE,
    ),
    (
        "statefulset/scaled-by-an-autoscaler",
        &[How::ServerSideApply],
        SCALED_WITHOUT_A_TRACE,
    ),
];

const SCALED_WITHOUT_A_TRACE: &str = "the file leaves the replicas to nobody, and the server does \
    not note who scales what is nobody's; see deployment/scaled-without-a-trace";

#[test]
fn a_file_brings_back_the_object_that_it_was_made_from() {
    let cases = Case::all();
    let stage = Stage::start();
    let all: Vec<_> = cases.iter().collect();
    stage.set_up(&all);
    assert_canonical(&stage, &all, "as created");
    stage.assert_no_difference(&can_come_back(&cases, How::Apply));
    for how in [How::Apply, How::ServerSideApply] {
        let cases = can_come_back(&cases, how);
        stage.delete(&cases);
        stage.apply(&cases, how);
        stage.settle(&cases);
        assert_canonical(&stage, &cases, how.command());
    }
}

#[test]
fn each_exception_is_about_a_case() {
    let cases = Case::all();
    for (name, _, why) in EXCEPTIONS {
        assert!(
            cases.iter().any(|case| case.name == *name),
            "{name} ({why}) is no case"
        );
    }
}

fn can_come_back(cases: &[Case], how: How) -> Vec<&Case> {
    let excepted = |case: &Case| {
        let is_this =
            |(name, hows, _): &(&str, &[How], _)| *name == case.name && hows.contains(&how);
        EXCEPTIONS.iter().any(is_this)
    };
    cases.iter().filter(|case| !excepted(case)).collect()
}

/// Each live object gives its file, to the byte.
fn assert_canonical(stage: &Stage, cases: &[&Case], when: &str) {
    let live = stage.live(cases);
    let differences: Vec<_> = cases
        .iter()
        .zip(&live)
        .filter_map(|(case, live)| {
            let expected = std::fs::read_to_string(case.manifest()).unwrap_or_default();
            let canonical = canonical(live);
            (canonical != expected)
                .then(|| format!("--- {}, {when}\n{}", case.name, diff(&expected, &canonical)))
        })
        .collect();
    let count = differences.len();
    assert!(
        differences.is_empty(),
        "{count} cases differ from their manifest.yaml\n{}",
        differences.join("\n")
    );
}

fn canonical(live: &str) -> String {
    let object = Object::from_json(live, None).unwrap();
    canonicalise(object).to_yaml()
}

/// The lines that only one of them has.
fn diff(expected: &str, got: &str) -> String {
    let only = |these: &str, those: &str, mark: &str| {
        let missing = |line: &&str| !those.lines().any(|other| other == *line);
        let lines: Vec<_> = these.lines().filter(missing).collect();
        lines
            .iter()
            .flat_map(|line| [mark, line, "\n"])
            .collect::<String>()
    };
    only(expected, got, "- ") + &only(got, expected, "+ ")
}
