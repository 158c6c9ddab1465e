//! A repository with a long past and many files: what was done before costs nothing.

use std::fmt::Write as _;

use reverser_testkit::command;
use reverser_testkit::git_server::sealed_git;

use crate::support::{Server, Transport, files_below, folder, pushed, write};

const COMMITS: usize = 50_000;
const FILES: usize = 100_000;

/// Many small commits, then one that adds very many files in folders of a thousand.
fn history() -> String {
    let person = "committer A <a@example.com> 1700000000 +0000";
    let mut stream = String::from("blob\nmark :1\ndata 2\nx\n\n");
    for number in 0..COMMITS {
        let _infallible = write!(
            stream,
            "commit refs/heads/main\n{person}\ndata 1\nc\nM 100644 inline counter\ndata <<E\n{number}\nE\n\n"
        );
    }
    let _infallible = write!(stream, "commit refs/heads/main\n{person}\ndata 5\nfiles\n");
    for number in 0..FILES {
        let _infallible = writeln!(stream, "M 100644 :1 live/{}/{number}.yaml", number / 1000);
    }
    stream.push('\n');
    stream
}

#[test]
fn a_long_history_and_very_many_files_are_neither_fetched_nor_rewritten() {
    let server = Server::start(Transport::Http);
    let mut import = sealed_git(server.repository.path());
    import.args(["fast-import", "--quiet"]);
    command::run_with_input(&mut import, history().as_bytes());
    let whole: u64 = size_of(server.repository.path());

    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    let snapshot = mirror.snapshot(&folder("live")).unwrap();
    assert_eq!(snapshot.len(), FILES);
    pushed(&write(&mut mirror, &[("live/7/new.yaml", Some("new\n"))]));

    let count = server.repository.git(&["rev-list", "--count", "main"]);
    assert_eq!(count, (COMMITS + 2).to_string(), "the history is whole");
    assert_eq!(
        server.repository.git(&["show", "main:live/7/new.yaml"]),
        "new"
    );
    assert_eq!(
        server.repository.git(&["show", "main:live/99/99999.yaml"]),
        "x"
    );
    let cloned = size_of(mirror.folder.path());
    assert!(
        cloned < whole / 2,
        "the clone has {cloned} bytes of {whole}"
    );
}

fn size_of(folder: &std::path::Path) -> u64 {
    let files = files_below(folder).into_iter();
    files
        .filter_map(|file| Some(file.metadata().ok()?.len()))
        .sum()
}
