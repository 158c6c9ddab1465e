//! Our rules for names against git's own.

use std::fmt::Write as _;

use reverser_git::{BranchName, RepoPath};
use reverser_testkit::command::{run_with_input, try_run};
use reverser_testkit::git_server::{BareRepository, sealed_git};

#[test]
fn every_branch_that_we_accept_is_one_for_git() {
    let folder = tempfile::tempdir().unwrap();
    let parts = [
        "a", "B", ".", "/", "-", "@", "{", "}", "~", "^", ":", "\\", " ", "*", "lock", "HEAD", "ü",
        "+", "..", "\u{7f}", "refs",
    ];
    let mut accepted = 0;
    for first in parts {
        for second in parts {
            for third in ["", "a", ".lock", "/x"] {
                let name = format!("{first}{second}{third}");
                let Ok(branch) = BranchName::parse(&name) else {
                    continue;
                };
                accepted += 1;
                let mut check = sealed_git(folder.path());
                let checked =
                    try_run(check.args(["check-ref-format", "--branch", branch.as_str()]));
                assert!(checked.is_ok(), "{name:?} is no branch for git");
            }
        }
    }
    assert!(accepted > 100, "{accepted}");
}

#[test]
fn every_path_that_we_accept_passes_gits_strictest_check() {
    let folder = tempfile::tempdir().unwrap();
    let repository = BareRepository::create(folder.path(), "r.git");
    let parts = [
        "a",
        ".",
        "..",
        ".git",
        "GIT~1",
        "~1",
        " ",
        "…",
        "\u{200c}",
        "\u{ad}",
        ".gitmodules",
        "git",
        "%2e",
        ":",
        "ü",
        "'",
    ];
    let mut stream = String::from("commit refs/heads/main\ncommitter A <a@b> 1 +0000\ndata 0\n\n");
    let mut accepted = 0;
    for first in parts {
        for second in parts {
            let name = format!("{first}{second}");
            if RepoPath::parse(&name).is_ok() {
                accepted += 1;
                let _ = write!(stream, "M 100644 inline {name}\ndata 0\n\n");
            }
        }
    }
    let mut import = sealed_git(repository.path());
    run_with_input(import.args(["fast-import", "--quiet"]), stream.as_bytes());
    repository.git(&["fsck", "--strict"]);
    assert!(accepted > 50, "{accepted}");
}
