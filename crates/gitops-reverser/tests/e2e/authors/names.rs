//! Users with names that nobody should have.

use reverser_testkit::control_plane::User;

use super::stage::Stage;

#[test]
fn names_that_would_break_a_commit_are_kept_in_its_last_lines() {
    let stage = Stage::start("names");
    let path = stage.path("map");
    stage.expect("create", &path, "alice exact", || {
        stage.applies(User::Alice, &stage.config_map("map", "one"), &["apply"]);
    });
    let long = "z".repeat(64 << 10);
    let evil = [
        ("x <ceo@corp.com>", "x %3Cceo@corp.com%3E exact"),
        (
            "Co-authored-by: ceo <ceo@corp.com>",
            "Co-authored-by: ceo %3Cceo@corp.com%3E exact",
        ),
        ("[skip ci]", "%5Bskip ci%5D exact"),
        ("x\u{202e}y", "x%E2%80%AEy exact"),
        ("unknown", "%75nknown exact"),
    ];
    for (index, (name, expected)) in evil.iter().enumerate() {
        stage.expect(name, &path, expected, || {
            let change = format!(r#"{{"data":{{"value":"v-{index}"}}}}"#);
            let who = format!("--as={name}");
            let line = [
                "patch",
                "configmap",
                "map",
                "-p",
                &change,
                "--as-group=system:masters",
            ];
            stage.does(User::Alice, &[&line[..], &[&who]].concat());
        });
    }
    let who = format!("--as={long}");
    let line = [
        "label",
        "configmap",
        "map",
        "a=b",
        "--as-group=system:masters",
        &who,
    ];
    let last = stage.after(&path, 1, || stage.does(User::Alice, &line));
    assert!(last[0].starts_with("zzzz") && last[0].ends_with(" exact"));
    assert!(
        last[0].contains("sha256:") && last[0].len() < 2000,
        "{}",
        last[0].len()
    );
    let addresses = stage.git_log("--format=%ae", &path);
    assert!(
        addresses
            .iter()
            .all(|address| address.ends_with("@cluster.local")),
        "{addresses:?}"
    );
    let whole = stage.repository.git(&["log", "--format=raw", "main"]);
    assert!(!whole.contains("[skip ci]") && !whole.contains('\u{202e}'));
    let injected = |line: &str| line.trim_start().starts_with("Co-authored-by");
    assert!(!whole.lines().any(injected));
    stage.repository.assert_sound("main");
}
