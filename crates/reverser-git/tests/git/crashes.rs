//! `kill -9` at every step. A child process plays the operator; the next one must find its way.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use reverser_testkit::git_server::{Fault, FileChange, Request};
use reverser_testkit::wait;

use crate::support::{Server, Transport, running_for, settle};

const CRASH_AT: &str = "GITOPS_REVERSER_CRASH_AT";

fn desired(content: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("live/a.yaml".to_owned(), content.to_owned()),
        ("live/b/c.yaml".to_owned(), "c\n".to_owned()),
    ])
}

/// The child: settles what its environment names. Without that it is an empty test.
#[test]
fn child() {
    let Ok(url) = std::env::var("REVERSER_CHILD_URL") else {
        return;
    };
    let variable = |name| std::env::var(name).unwrap();
    let mut server = Server::start(Transport::Path);
    server.url = url;
    let mut mirror = server.open(Path::new(&variable("REVERSER_CHILD_FOLDER")), "main");
    settle(&mut mirror, &desired(&variable("REVERSER_CHILD_CONTENT")));
}

pub(crate) fn start_child(server: &Server, folder: &Path, content: &str, crash_at: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crashes::child", "--nocapture"])
        .env("REVERSER_CHILD_URL", &server.url)
        .env("REVERSER_CHILD_FOLDER", folder)
        .env("REVERSER_CHILD_CONTENT", content)
        .env(CRASH_AT, crash_at)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// In the order in which an attempt passes them.
pub(crate) const CRASH_POINTS: [&str; 9] = [
    "rebuild: created",
    "rebuild: fetched",
    "swap: old moved away",
    "rebuild: swapped",
    "fetch: done",
    "commit: written",
    "push: about to start",
    "push: returned",
    "push: confirmed",
];

#[test]
fn a_kill_at_any_step_heals() {
    let server = Server::start(Transport::Http);
    server
        .repository
        .commit("main", "first", &[FileChange::Write("README.md", "1\n")]);
    let folder = tempfile::tempdir().unwrap();
    let mut expected_commits = 1;
    for (round, point) in CRASH_POINTS.into_iter().enumerate() {
        if point.starts_with("rebuild") || point.starts_with("swap") {
            // Forces a rebuild.
            let _ = std::fs::remove_file(folder.path().join("clone.git/origin"));
        }
        let before = server.repository.tip("main").unwrap();
        let content = format!("{point}\n");
        let status = start_child(&server, folder.path(), &content, point)
            .wait()
            .unwrap();
        assert_eq!(status.signal(), Some(9), "{point} was never reached");
        server.repository.assert_sound("main");
        let landed = server.repository.tip("main").unwrap() != before;
        assert_eq!(
            landed,
            ["push: returned", "push: confirmed"].contains(&point),
            "{point}"
        );
        let foreign = server.repository.commit(
            "main",
            "foreign",
            &[FileChange::Write("README.md", &format!("{round}\n"))],
        );
        let mut mirror = server.open(folder.path(), "main");
        settle(&mut mirror, &desired(&content));
        let files = server.repository.files("main");
        assert_eq!(files["live/a.yaml"], content);
        assert_eq!(files["README.md"], format!("{round}\n"));
        expected_commits += 2;
        let history = server.repository.history("main");
        assert_eq!(
            history.len(),
            expected_commits,
            "{point}: nothing is committed twice"
        );
        assert!(history.contains(&foreign));
    }
    server.repository.assert_sound("main");
}

#[test]
fn a_kill_in_the_middle_of_a_push_heals_whether_it_lands_or_not() {
    let server = Server::start(Transport::Http);
    server
        .repository
        .commit("main", "first", &[FileChange::Write("README.md", "1\n")]);
    let folder = tempfile::tempdir().unwrap();
    let sent = |server: &Server| {
        server
            .front()
            .seen()
            .iter()
            .filter(|line| line.contains("POST") && line.contains("receive-pack"))
            .count()
    };
    // The answer takes its time: the operator is killed while git waits for it, and git goes on.
    server
        .front()
        .fault(Request::Push, Fault::Delay(Duration::from_millis(700)), 1);
    let mut operator = start_child(&server, folder.path(), "1\n", "");
    wait::until_blocking("the push to be sent", Duration::from_mins(1), || {
        sent(&server) == 1
    })
    .unwrap();
    operator.kill().unwrap();
    operator.wait().unwrap();
    let mut mirror = server.open(folder.path(), "main");
    settle(&mut mirror, &desired("1\n"));
    assert_eq!(server.repository.files("main")["live/a.yaml"], "1\n");
    // Whatever was under way has ended by now.
    wait::until_blocking("the delayed push to end", Duration::from_mins(1), || {
        let history = server.repository.history("main");
        if history.len() == 2 {
            Ok(())
        } else {
            Err(format!("{history:?}"))
        }
    })
    .unwrap();
    server.repository.assert_sound("main");
}

#[test]
fn programs_of_a_killed_owner_are_ended_by_the_next_one() {
    let server = Server::start(Transport::Http);
    let folder = tempfile::tempdir().unwrap();
    server.front().fault(Request::Push, Fault::Hang, 1);
    let mut operator = start_child(&server, folder.path(), "1\n", "");
    wait::until_blocking("the push to be sent", Duration::from_mins(1), || {
        server
            .front()
            .seen()
            .iter()
            .any(|line| line.contains("POST") && line.contains("receive-pack"))
    })
    .unwrap();
    operator.kill().unwrap();
    operator.wait().unwrap();
    assert!(
        !running_for(folder.path()).is_empty(),
        "git goes on without its owner"
    );
    let _next = server.open(folder.path(), "main");
    wait::until_blocking("git to end", Duration::from_mins(1), || {
        let left = running_for(folder.path());
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        }
    })
    .unwrap();
}

#[test]
fn a_kill_leaves_no_credentials_behind() {
    let server = Server::start(Transport::Path);
    let folder = tempfile::tempdir().unwrap();
    let left = folder.path().join("private-left");
    std::fs::create_dir(&left).unwrap();
    std::fs::write(left.join("identity"), "key").unwrap();
    server.open(folder.path(), "main");
    assert!(!left.exists());
}
