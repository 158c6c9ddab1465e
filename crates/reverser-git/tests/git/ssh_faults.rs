//! Servers that go away, over SSH and the git protocol.

use std::collections::BTreeMap;
use std::time::Duration;

use reverser_git::{FetchError, PushOutcome, RemoteFailure, UnreachableCause};
use reverser_testkit::git_server::{FileChange, GitDaemon, Sshd};
use reverser_testkit::wait;

use crate::support::{Server, Transport, pushed, quick, running_for, settle, ssh_secret, write};

fn not_connected(error: &FetchError) -> bool {
    use UnreachableCause::NotConnected;
    matches!(
        error,
        FetchError::Remote(RemoteFailure::Unreachable {
            cause: NotConnected,
            ..
        })
    )
}

#[test]
fn an_ssh_server_that_is_down_is_unreachable_and_comes_back() {
    let own = Sshd::start();
    let mut server = Server::start(Transport::Ssh);
    server.url = own.url(server.repository.path());
    server.secret = ssh_secret(&own);
    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    own.process().stop().unwrap();
    let outcome = write(&mut mirror, &[("live/a.yaml", Some("a\n"))]);
    let PushOutcome::Unreachable { cause, .. } = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(cause, UnreachableCause::NotConnected);
    let error = mirror.fetch().unwrap_err();
    assert!(not_connected(&error), "{error}");
    own.start_again();
    settle(
        &mut mirror,
        &BTreeMap::from([("live/a.yaml".to_owned(), "a\n".to_owned())]),
    );
    server.repository.assert_sound("main");
}

#[test]
fn a_git_daemon_that_is_down_is_unreachable_and_comes_back() {
    let mut server = Server::start(Transport::Path);
    let daemon = GitDaemon::start(server.root.path());
    server.url = daemon.url("r.git");
    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    daemon.process().stop().unwrap();
    let error = mirror.fetch().unwrap_err();
    assert!(not_connected(&error), "{error}");
    daemon.process().start().unwrap();
    wait::until_blocking("the daemon to be back", Duration::from_mins(1), || {
        mirror.fetch().is_ok()
    })
    .unwrap();
    pushed(&write(&mut mirror, &[("live/a.yaml", Some("a\n"))]));
}

#[test]
fn a_push_that_is_killed_at_its_deadline_leaves_no_helper_behind() {
    // At the same time: they mostly wait.
    std::thread::scope(|scope| {
        for transport in [
            Transport::Ssh,
            Transport::Daemon,
            Transport::Path,
            Transport::Http,
        ] {
            scope.spawn(move || kill_at_deadline(transport));
        }
    });
}

fn kill_at_deadline(transport: Transport) {
    let server = Server::start(transport);
    let first = server
        .repository
        .commit("main", "first", &[FileChange::Write("README.md", "1\n")]);
    let waiting = server.root.path().join("waiting");
    // Ends by itself, for transports whose server does not notice that the client is gone.
    let hook = format!(
        "touch {}; for i in $(seq 1200); do [ -e {}/go ] && break; sleep 0.1; done",
        waiting.display(),
        server.root.path().display()
    );
    server.repository.hook("pre-receive", &hook);
    let folder = tempfile::tempdir().unwrap();
    let mut options = quick();
    options.timeouts.transfer = Duration::from_secs(15);
    let mut mirror = server.open_with(folder.path(), "main", options);
    mirror.fetch().unwrap();
    let outcome = write(&mut mirror, &[("live/a.yaml", Some("a\n"))]);
    assert!(
        matches!(outcome, PushOutcome::Unknown { .. }),
        "{transport:?} {outcome:?}"
    );
    assert!(waiting.exists(), "{transport:?}: it never got that far");
    let left = || {
        let mut left = running_for(folder.path());
        if transport == Transport::Path {
            // A repository on this machine: what runs there is the server's, started by us.
            left.retain(|line| {
                !["receive-pack", "hooks/", "sleep"]
                    .iter()
                    .any(|part| line.contains(part))
            });
        }
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        }
    };
    // Killed is not yet gone; one that is left behind stays as long as the hook.
    let what = format!("{transport:?}: no helpers");
    wait::until_blocking(what, Duration::from_mins(1), left)
        .unwrap_or_else(|error| panic!("{error}"));
    server.repository.remove_hook("pre-receive");
    std::fs::write(server.root.path().join("go"), "").unwrap();
    // It may land now or never; both end well.
    settle(
        &mut mirror,
        &BTreeMap::from([("live/a.yaml".to_owned(), "a\n".to_owned())]),
    );
    let history = server.repository.history("main");
    assert_eq!(history.last(), Some(&first), "{transport:?}");
    server.repository.assert_sound("main");
}
