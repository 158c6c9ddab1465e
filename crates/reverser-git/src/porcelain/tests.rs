//! Every parser meets every sample. The samples are the outputs of git 2.39.5 in the situation that
//! their name tells, with host names and folders replaced.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::*;
use crate::process::{End, Finished};
use crate::push::{Verdict, judge};

const MAIN: &str = "refs/heads/main";

fn samples() -> &'static Path {
    Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/src/porcelain/samples"
    ))
}

fn read(name: &str) -> (Vec<u8>, String) {
    let file =
        |extension| fs::read(samples().join(format!("{name}.{extension}"))).unwrap_or_default();
    let (stdout, stderr) = (file("stdout"), file("stderr"));
    assert!(
        !stdout.is_empty() || !stderr.is_empty(),
        "there is no sample {name}"
    );
    (stdout, String::from_utf8(stderr).unwrap())
}

/// All names, so that a sample which no table has is noticed.
fn names(prefix: &str) -> BTreeSet<String> {
    let files = fs::read_dir(samples()).unwrap();
    let names = files.map(|file| {
        file.unwrap()
            .path()
            .file_stem()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
    });
    names.filter(|name| name.starts_with(prefix)).collect()
}

/// A verdict without its words.
fn short(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Refused(refusal) => format!("refused: {:?}", refusal.kind),
        Verdict::RefusedOrStale(refusal) => format!("refused or stale: {:?}", refusal.kind),
        Verdict::Failed(RemoteFailure::Unauthorised { .. }) => "unauthorised".to_owned(),
        Verdict::Failed(RemoteFailure::Unreachable { cause, .. }) => {
            format!("unreachable: {cause:?}")
        }
        Verdict::Ambiguous(_) => "ambiguous".to_owned(),
        Verdict::Pushed => "pushed".to_owned(),
        Verdict::Stale => "stale".to_owned(),
        Verdict::LocalDamage(_) => "local damage".to_owned(),
    }
}

#[test]
fn every_push_is_judged_right() {
    let table = [
        ("push-new-branch", "pushed"),
        ("push-up-to-date", "pushed"),
        ("push-updated", "pushed"),
        ("push-stale", "stale"),
        ("push-hook", "refused: Hook"),
        ("push-update-hook", "refused: Hook"),
        ("push-too-large", "refused: TooLarge"),
        ("push-malformed", "refused: Malformed"),
        ("push-locked", "refused or stale: Busy"),
        ("push-no-push-options", "refused: PushOptions"),
        ("push-missing-blob", "local damage"),
        ("push-server-died", "ambiguous"),
        ("push-server-died-http", "ambiguous"),
        ("push-server-died-ssh", "ambiguous"),
        ("push-http-get-0", "unreachable: Interrupted"),
        ("push-http-get-301", "unreachable: Redirect"),
        ("push-http-get-401", "unauthorised"),
        ("push-http-get-403", "unauthorised"),
        ("push-http-get-404", "unreachable: NotFound"),
        ("push-http-get-429", "unreachable: Interrupted"),
        ("push-http-get-503", "unreachable: Interrupted"),
        ("push-http-post-403", "unauthorised"),
        ("push-http-post-413", "refused: TooLarge"),
        ("push-http-post-502", "ambiguous"),
        ("push-http-cut", "ambiguous"),
    ];
    for (name, expected) in table {
        let (stdout, stderr) = read(name);
        let end = if expected == "pushed" {
            End::Success
        } else {
            End::Failure
        };
        let verdict = judge(
            &Finished {
                end,
                stdout,
                stderr,
            },
            MAIN,
        );
        assert_eq!(short(&verdict), expected, "{name}: {verdict:?}");
    }
    let told: BTreeSet<_> = table.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(told, names("push-"));
}

#[test]
fn a_report_about_something_else_is_not_taken_for_ours() {
    for name in names("push-") {
        let (stdout, _) = read(&name);
        let other = parse_push_report(&stdout, "refs/heads/other");
        assert!(
            !matches!(other, Ok(PushReport::Updated | PushReport::Stale)),
            "{name}"
        );
    }
    for unknown in [
        "+\ta:refs/heads/main\tforced",
        "-\t:refs/heads/main\t[deleted]",
        "hello",
        "!\ta:refs/heads/main\t[new word] (x)",
    ] {
        assert!(
            parse_push_report(unknown.as_bytes(), MAIN).is_err(),
            "{unknown}"
        );
    }
}

#[test]
fn a_push_that_was_stopped_is_ambiguous_unless_it_reported() {
    for end in [End::TimedOut, End::Cancelled] {
        let stopped = Finished {
            end,
            stdout: vec![],
            stderr: String::new(),
        };
        assert!(matches!(judge(&stopped, MAIN), Verdict::Ambiguous(_)));
    }
    let silent = Finished {
        end: End::Success,
        stdout: b"Done\n".to_vec(),
        stderr: String::new(),
    };
    assert!(matches!(judge(&silent, MAIN), Verdict::Ambiguous(_)));
}

#[test]
fn every_failed_fetch_is_classified_right() {
    use UnreachableCause::{HostKey, NotConnected, NotFound, Unsupported};
    let table = [
        ("fetch-no-host", Some(NotConnected)),
        ("fetch-refused", Some(NotConnected)),
        ("fetch-git-refused", Some(NotConnected)),
        ("fetch-ssh-refused", Some(NotConnected)),
        ("fetch-no-repository", Some(NotFound)),
        ("fetch-ssh-no-repository", Some(NotFound)),
        ("fetch-ssh-host-key-changed", Some(HostKey)),
        ("fetch-ssh-host-key-unknown", Some(HostKey)),
        ("fetch-sha256", Some(Unsupported)),
        ("fetch-ssh-denied", None),
        ("fetch-no-branch", None),
        ("fetch-empty", None),
        ("fetch-no-object", None),
        ("fetch-protocol", None),
    ];
    for (name, expected) in table {
        let (_, stderr) = read(name);
        let failure = classify_failure(&stderr);
        match (&failure, expected) {
            (Some(RemoteFailure::Unreachable { cause, .. }), Some(expected)) => {
                assert_eq!(*cause, expected, "{name}");
            }
            (Some(RemoteFailure::Unauthorised { .. }), None) => {
                assert_eq!(name, "fetch-ssh-denied");
            }
            (None, None) => {}
            other => panic!("{name}: {other:?}"),
        }
        assert_eq!(
            says_no_such_ref(&stderr),
            ["fetch-no-branch", "fetch-empty"].contains(&name),
            "{name}"
        );
        assert_eq!(
            says_no_single_objects(&stderr),
            name == "fetch-no-object",
            "{name}"
        );
        assert!(!says_local_damage(&stderr), "{name}");
    }
    let told: BTreeSet<_> = table.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(told, names("fetch-"));
}

#[test]
fn the_answer_of_ls_remote_is_read_and_nothing_else() {
    let (stdout, _) = read("ls-remote");
    let tip = parse_ls_remote(&stdout, MAIN).unwrap().unwrap();
    assert!(stdout.starts_with(tip.to_string().as_bytes()));
    assert_eq!(parse_ls_remote(&stdout, "refs/heads/other"), Ok(None));
    assert_eq!(parse_ls_remote(b"", MAIN), Ok(None));
    for name in names("push-") {
        let (stdout, _) = read(&name);
        assert!(
            stdout.is_empty() || parse_ls_remote(&stdout, MAIN).is_err(),
            "{name}"
        );
    }
}

#[test]
fn a_redirect_is_found_in_the_trace() {
    let (_, trace) = read("trace-redirect");
    assert_eq!(
        parse_redirect(&trace).as_deref(),
        Some("https://example.com/r.git")
    );
    for odd in [
        "https://u:p@example.com/x",
        "ftp://example.com/x",
        "https://example.com/\u{7f}",
        "/relative",
    ] {
        let trace = format!("x http.c:1 <= Recv header: location: {odd}");
        assert_eq!(parse_redirect(&trace), None, "{odd}");
    }
}

#[test]
fn versions_are_read() {
    let version = |major, minor| Some(GitVersion { major, minor });
    assert_eq!(parse_version("git version 2.39.5"), version(2, 39));
    assert_eq!(
        parse_version("git version 2.39.5 (Apple Git-154)"),
        version(2, 39)
    );
    assert_eq!(
        parse_version("git version 2.51.0.windows.1"),
        version(2, 51)
    );
    assert_eq!(parse_version("git version 3.0-rc1"), version(3, 0));
    for other in ["", "git version", "hub version 2.14", "git version x.y"] {
        assert_eq!(parse_version(other), None, "{other}");
    }
}

#[test]
fn what_is_shown_is_one_line_of_bearable_length() {
    let (_, stderr) = read("push-hook");
    assert_eq!(summary(&stderr), "no Mondays, please; second line");
    let (_, stderr) = read("fetch-no-repository");
    assert_eq!(
        summary(&stderr),
        "fatal: '/srv/none.git' does not appear to be a git repository; \
         fatal: Could not read from remote repository."
    );
    assert_eq!(summary(""), "no reason was given");
    // The same failure is the same text, however long it took.
    for time in ["after 0 ms", "after 131 ms"] {
        assert_eq!(
            summary(&format!("Failed to connect to git port 1 {time}: Couldn't")),
            "Failed to connect to git port 1: Couldn't"
        );
    }
    assert_eq!(summary("refused after 3 tries"), "refused after 3 tries");
    let long = summary(&"ä".repeat(2000));
    assert!(long.len() <= 1003 && long.ends_with('…'));
    assert_eq!(summary("remote: \u{1b}[31mred\u{1b}[0m"), "[31mred[0m");
}
