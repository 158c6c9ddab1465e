//! Credentials are looked for wherever they must not be.

use std::path::Path;
use std::time::Duration;

use reverser_git::{CancelToken, MirrorOptions};
use reverser_testkit::git_server::{Fault, Request};
use reverser_testkit::wait;

use crate::support::{Server, Transport, files_below, quick, secret, write};

/// Long and unlike anything else on the machine.
const CANARY: &str = "canary-7f1d0c52-do-not-tell";

fn command_lines_with(text: &str) -> Vec<String> {
    let own = std::process::id().to_string();
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(text) && process.file_name() != own.as_str() {
            found.push(line);
        }
    }
    found
}

fn files_with(folder: &Path, text: &str) -> Vec<std::path::PathBuf> {
    let holds = |file: &std::path::PathBuf| {
        std::fs::read(file).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(text))
    };
    files_below(folder).into_iter().filter(holds).collect()
}

#[test]
fn a_password_is_in_no_argument_file_or_message() {
    let mut server = Server::start(Transport::Http);
    server.secret = secret(&[
        ("username", "u"),
        ("password", CANARY),
        ("proxy", server.url.trim_end_matches("/r.git")),
    ]);
    let folder = tempfile::tempdir().unwrap();
    let options = MirrorOptions {
        cancel: CancelToken::new(),
        ..quick()
    };
    let cancel = options.cancel.clone();
    let mut mirror = server.open_with(folder.path(), "main", options);
    assert!(!format!("{mirror:?}").contains(CANARY));
    mirror.fetch().unwrap();
    // While git runs.
    server.front().fault(Request::Push, Fault::Hang, 1);
    std::thread::scope(|scope| {
        let pushing = scope.spawn(|| write(&mut mirror, &[("live/a.yaml", Some("a\n"))]));
        wait::until_blocking("the push to be sent", Duration::from_mins(1), || {
            server
                .front()
                .seen()
                .iter()
                .any(|line| line.starts_with("POST") && line.contains("receive-pack"))
        })
        .unwrap();
        assert_eq!(command_lines_with(CANARY), Vec::<String>::new());
        assert_eq!(
            files_with(folder.path(), CANARY),
            Vec::<std::path::PathBuf>::new()
        );
        cancel.cancel();
        let outcome = format!("{:?}", pushing.join().unwrap());
        assert!(!outcome.contains(CANARY), "{outcome}");
    });
    // What a server says back to us.
    drop(mirror);
    let mut mirror = server.open(folder.path(), "main");
    server.repository.hook(
        "pre-receive",
        &format!("echo 'you said {CANARY}' >&2; exit 1"),
    );
    mirror.fetch().unwrap();
    let outcome = format!("{:?}", write(&mut mirror, &[("live/a.yaml", Some("a\n"))]));
    assert!(outcome.contains("you said ***"), "{outcome}");
    server.front().require(&["nobody"]);
    let error = mirror.fetch().unwrap_err();
    assert!(!format!("{error:?} {error}").contains(CANARY));
}

#[test]
fn an_ssh_key_is_private_while_it_is_used_and_gone_afterwards() {
    let server = Server::start(Transport::Ssh);
    let waiting = server.root.path().join("waiting");
    let go = server.root.path().join("go");
    server.repository.hook(
        "pre-receive",
        &format!(
            "touch {}; while [ ! -e {} ]; do sleep 0.05; done",
            waiting.display(),
            go.display()
        ),
    );
    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    let folder = mirror.folder.path().to_owned();
    let key = String::from_utf8(server.secret["identity"].clone()).unwrap();
    let line = key.lines().nth(1).unwrap().to_owned();
    std::thread::scope(|scope| {
        let pushing = scope.spawn(|| write(&mut mirror, &[("live/a.yaml", Some("a\n"))]));
        wait::until_blocking("the push to be under way", Duration::from_mins(1), || {
            waiting.exists()
        })
        .unwrap();
        let holding = files_with(&folder, &line);
        assert_eq!(holding.len(), 1, "{holding:?}");
        assert!(
            holding[0]
                .parent()
                .unwrap()
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with("private-")
        );
        assert_eq!(command_lines_with(&line), Vec::<String>::new());
        std::fs::write(&go, "").unwrap();
        crate::support::pushed(&pushing.join().unwrap());
    });
    assert_eq!(files_with(&folder, &line), Vec::<std::path::PathBuf>::new());
}
