//! What servers say when they do not want something, told apart.

use reverser_git::{PushOutcome, RefusalKind};
use reverser_testkit::git_server::FileChange;

use crate::support::{Server, Transport, pushed, write};

/// What forges print from their hooks, as they print it.
const SAYINGS: &[(&str, RefusalKind)] = &[
    (
        "error: GH006: Protected branch update failed for refs/heads/main.\\nerror: Changes must be made through a pull request.",
        RefusalKind::ProtectedBranch,
    ),
    (
        "GitLab: You are not allowed to push code to protected branches on this project.",
        RefusalKind::ProtectedBranch,
    ),
    (
        "Gitea: Not allowed to push to protected branch main",
        RefusalKind::ProtectedBranch,
    ),
    (
        "GitLab: Commit author's email 'a@b' does not follow the pattern '@example.com$'",
        RefusalKind::Author,
    ),
    (
        "GitLab: Committer's email 'a@b' is not in your verified emails",
        RefusalKind::Author,
    ),
    (
        "GitLab: You cannot push commits for 'a@b'. You can only push commits if the committer email is one of your own verified emails.",
        RefusalKind::Author,
    ),
    (
        "error: GH007: Your push would publish a private email address.\\npush declined due to email privacy restrictions",
        RefusalKind::Author,
    ),
    (
        "error: GH001: Large files detected.\\nerror: File live/a.yaml is 123.00 MB; this exceeds GitHubs file size limit of 100.00 MB",
        RefusalKind::TooLarge,
    ),
    (
        "GitLab: File live/a.yaml is larger than the allowed size of 10 MB.",
        RefusalKind::TooLarge,
    ),
    (
        "error: GH013: Repository rule violations found for refs/heads/main.\\n- GITHUB PUSH PROTECTION\\n- Push cannot contain secrets",
        RefusalKind::Secret,
    ),
    ("the moon is not full", RefusalKind::Hook),
];

#[test]
fn refusals_are_told_apart_by_what_servers_say() {
    let server = Server::start(Transport::Http);
    let first = server
        .repository
        .commit("main", "first", &[FileChange::Write("README.md", "1\n")]);
    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    for (saying, kind) in SAYINGS {
        server.repository.hook(
            "pre-receive",
            &format!("printf '%b\\n' \"{saying}\" >&2\nexit 1"),
        );
        let outcome = write(&mut mirror, &[("live/a.yaml", Some("a\n"))]);
        let PushOutcome::Refused(refusal) = outcome else {
            panic!("{saying}: {outcome:?}")
        };
        assert_eq!(refusal.kind, *kind, "{saying}");
        let first_words: String = saying.chars().take(12).collect();
        assert!(refusal.reason.contains(&first_words), "{}", refusal.reason);
    }
    assert_eq!(server.repository.tip("main"), Some(first));
    server.repository.remove_hook("pre-receive");
    pushed(&write(&mut mirror, &[("live/a.yaml", Some("a\n"))]));
}

#[test]
fn an_update_hook_refuses_as_well() {
    let server = Server::start(Transport::Ssh);
    server.repository.hook("update", "exit 1");
    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    let outcome = write(&mut mirror, &[("live/a.yaml", Some("a\n"))]);
    let PushOutcome::Refused(refusal) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(refusal.kind, RefusalKind::Hook);
}

#[test]
fn a_branch_that_is_locked_on_the_server_is_busy() {
    let server = Server::start(Transport::Path);
    server
        .repository
        .commit("main", "first", &[FileChange::Write("README.md", "1\n")]);
    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    let lock = server.repository.path().join("refs/heads/main.lock");
    std::fs::write(&lock, "").unwrap();
    let outcome = write(&mut mirror, &[("live/a.yaml", Some("a\n"))]);
    let PushOutcome::Refused(refusal) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(refusal.kind, RefusalKind::Busy);
    std::fs::remove_file(&lock).unwrap();
    pushed(&write(&mut mirror, &[("live/a.yaml", Some("a\n"))]));
}

#[test]
fn a_branch_that_moves_while_the_server_checks_is_stale() {
    let server = Server::start(Transport::Path);
    server
        .repository
        .commit("main", "first", &[FileChange::Write("README.md", "1\n")]);
    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    // Between the client's look and the server's update.
    let repository = server.repository.path().display();
    server.repository.hook(
        "pre-receive",
        &format!(
            "unset GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES\n\
             new=$(echo foreign | git --git-dir={repository} -c user.name=x -c user.email=x@x commit-tree main^{{tree}} -p main)\n\
             git --git-dir={repository} update-ref refs/heads/main $new"
        ),
    );
    let outcome = write(&mut mirror, &[("live/a.yaml", Some("a\n"))]);
    let foreign = server.repository.tip("main").unwrap();
    assert_eq!(
        outcome,
        PushOutcome::Stale {
            tip: Some(foreign.parse().unwrap())
        }
    );
    assert_eq!(server.repository.history("main").len(), 2);
}
