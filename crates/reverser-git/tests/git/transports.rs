//! What must hold on every transport.

use std::collections::BTreeMap;

use reverser_git::{
    BlobId, FetchError, PushOptions, PushOutcome, RefusalKind, RemoteFailure, Tip, UnreachableCause,
};
use reverser_testkit::git_server::FileChange;

use crate::support::{Server, Transport, folder, plan, push, pushed, settle, write};

/// Runs each test on each transport.
macro_rules! on_every_transport {
    ($($test:ident)*) => {
        $(mod $test {
            use super::Transport;
            #[test]
            fn path() { super::$test(Transport::Path); }
            #[test]
            fn http() { super::$test(Transport::Http); }
            #[test]
            fn https() { super::$test(Transport::Https); }
            #[test]
            fn ssh() { super::$test(Transport::Ssh); }
            #[test]
            fn old_ssh() { super::$test(Transport::OldSsh); }
            #[test]
            fn daemon() { super::$test(Transport::Daemon); }
        })*
    };
}

on_every_transport! {
    an_empty_repository_gets_its_first_commit
    foreign_files_stay_untouched
    a_foreign_commit_between_fetch_and_push_is_kept
    a_missing_branch_is_made_from_the_default_branch
    a_deleted_branch_is_made_again
    commits_that_a_person_removed_do_not_come_back
    a_rewritten_history_is_built_upon
    a_refusing_hook_is_told_with_its_words
    a_size_limit_is_told_apart
    contents_are_fetched_when_they_are_asked_for
    push_options_reach_the_server
    a_repository_that_does_not_exist_is_named
    pushing_the_same_commits_twice_is_harmless
    a_server_that_dies_before_the_update_is_tried_again
    a_server_that_dies_after_the_update_is_asked
}

fn an_empty_repository_gets_its_first_commit(transport: Transport) {
    let server = Server::start(transport);
    let mut mirror = server.mirror("main");
    mirror.reach().unwrap();
    assert_eq!(mirror.tip(), None, "nothing is fetched");
    assert_eq!(mirror.fetch().unwrap(), Tip::Empty);
    assert!(mirror.snapshot(&folder("live")).unwrap().is_empty());
    let files = [("live/a.yaml", Some("a\n")), ("live/b/c.yaml", Some("c\n"))];
    let tip = pushed(&write(&mut mirror, &files));
    assert_eq!(server.repository.tip("main"), Some(tip));
    let found = server.repository.files("main");
    assert_eq!(found["live/a.yaml"], "a\n");
    assert_eq!(found["live/b/c.yaml"], "c\n");
    server.repository.assert_sound("main");
}

fn foreign_files_stay_untouched(transport: Transport) {
    let server = Server::start(transport);
    let foreign = [
        FileChange::Write("README.md", "read me\n"),
        FileChange::Write("live/kustomization.yaml", "resources: []\n"),
        FileChange::Write("live/apps/web.yaml", "old\n"),
        FileChange::Link("elsewhere/link", "../README.md"),
        FileChange::Submodule("elsewhere/module"),
    ];
    server.repository.commit("main", "by hand", &foreign);
    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    pushed(&write(
        &mut mirror,
        &[
            ("live/apps/web.yaml", Some("new\n")),
            ("live/apps/db.yaml", Some("db\n")),
        ],
    ));
    // A second one, from the mirror's own knowledge of the tip.
    pushed(&write(&mut mirror, &[("live/apps/db.yaml", None)]));
    let expected = BTreeMap::from(
        [
            ("README.md", "read me\n"),
            ("live/kustomization.yaml", "resources: []\n"),
            ("live/apps/web.yaml", "new\n"),
            ("elsewhere/link", "-> ../README.md"),
            ("elsewhere/module", "module"),
        ]
        .map(|(path, content)| (path.to_owned(), content.to_owned())),
    );
    assert_eq!(server.repository.files("main"), expected);
    assert_eq!(server.repository.history("main").len(), 3);
    server.repository.assert_sound("main");
}

fn a_foreign_commit_between_fetch_and_push_is_kept(transport: Transport) {
    let server = Server::start(transport);
    server
        .repository
        .commit("main", "first", &[FileChange::Write("README.md", "1\n")]);
    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    let foreign =
        server
            .repository
            .commit("main", "foreign", &[FileChange::Write("README.md", "2\n")]);
    let outcome = write(&mut mirror, &[("live/a.yaml", Some("a\n"))]);
    assert_eq!(
        outcome,
        PushOutcome::Stale {
            tip: Some(foreign.parse().unwrap())
        }
    );
    let desired = BTreeMap::from([("live/a.yaml".to_owned(), "a\n".to_owned())]);
    settle(&mut mirror, &desired);
    assert_eq!(server.repository.history("main")[1], foreign);
    assert_eq!(server.repository.files("main")["README.md"], "2\n");
    server.repository.assert_sound("main");
}

fn a_missing_branch_is_made_from_the_default_branch(transport: Transport) {
    let server = Server::start(transport);
    let first = server
        .repository
        .commit("main", "first", &[FileChange::Write("README.md", "1\n")]);
    let mut mirror = server.mirror("live/prod");
    assert_eq!(
        mirror.fetch().unwrap(),
        Tip::NewFrom(first.parse().unwrap())
    );
    // The default branch moves on: what we have is no tip of the server any more.
    for round in 0..3 {
        server.repository.commit(
            "main",
            "later",
            &[FileChange::Write("README.md", &format!("later {round}\n"))],
        );
    }
    let outcome = write(&mut mirror, &[("live/a.yaml", Some("a\n"))]);
    if transport == Transport::OldSsh {
        // The oldest protocol cannot negotiate a push: it lacks what it takes for known here.
        assert_eq!(outcome, PushOutcome::Stale { tip: None });
        settle(
            &mut mirror,
            &BTreeMap::from([("live/a.yaml".to_owned(), "a\n".to_owned())]),
        );
        assert_eq!(
            server.repository.history("live/prod")[1],
            server.repository.tip("main").unwrap()
        );
    } else {
        pushed(&outcome);
        assert_eq!(server.repository.history("live/prod")[1], first);
        assert_eq!(server.repository.files("live/prod")["README.md"], "1\n");
    }
    server.repository.assert_sound("live/prod");
    // Somebody else was quicker with the next one.
    let mut late = server.mirror("live/late");
    late.fetch().unwrap();
    let theirs = server
        .repository
        .commit("live/late", "theirs", &[FileChange::Write("x", "x\n")]);
    let outcome = write(&mut late, &[("live/a.yaml", Some("a\n"))]);
    assert_eq!(
        outcome,
        PushOutcome::Stale {
            tip: Some(theirs.parse().unwrap())
        }
    );
}

fn a_deleted_branch_is_made_again(transport: Transport) {
    let server = Server::start(transport);
    server
        .repository
        .commit("main", "first", &[FileChange::Write("README.md", "1\n")]);
    let mut mirror = server.mirror("live");
    mirror.fetch().unwrap();
    let desired = BTreeMap::from([("live/a.yaml".to_owned(), "a\n".to_owned())]);
    settle(&mut mirror, &desired);
    server.repository.set_branch("live", None);
    let outcome = write(&mut mirror, &[("live/b.yaml", Some("b\n"))]);
    assert_eq!(outcome, PushOutcome::Stale { tip: None });
    settle(&mut mirror, &desired);
    assert_eq!(server.repository.files("live")["live/a.yaml"], "a\n");
    server.repository.assert_sound("live");
}

fn commits_that_a_person_removed_do_not_come_back(transport: Transport) {
    let server = Server::start(transport);
    let first = server
        .repository
        .commit("main", "first", &[FileChange::Write("README.md", "1\n")]);
    let leaked = server.repository.commit(
        "main",
        "leak",
        &[FileChange::Write("password", "hunter2\n")],
    );
    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    let prepared = plan(&mirror, "live", &[("live/a.yaml", Some("a\n"))]);
    let committed = mirror.commit(&[prepared], None).unwrap();
    // A fast-forward would be possible, and would bring the leak back.
    server.repository.set_branch("main", Some(&first));
    let outcome = push(&mut mirror, &committed);
    assert_eq!(
        outcome,
        PushOutcome::Stale {
            tip: Some(first.parse().unwrap())
        }
    );
    settle(
        &mut mirror,
        &BTreeMap::from([("live/a.yaml".to_owned(), "a\n".to_owned())]),
    );
    let history = server.repository.history("main");
    assert!(!history.contains(&leaked), "{history:?}");
    assert_eq!(history[1], first);
    server.repository.assert_sound("main");
}

fn a_rewritten_history_is_built_upon(transport: Transport) {
    let server = Server::start(transport);
    server
        .repository
        .commit("main", "first", &[FileChange::Write("README.md", "1\n")]);
    let mut mirror = server.mirror("main");
    let desired = BTreeMap::from([("live/a.yaml".to_owned(), "a\n".to_owned())]);
    settle(&mut mirror, &desired);
    server.repository.commit(
        "rewritten",
        "other root",
        &[FileChange::Write("README.md", "2\n")],
    );
    let rewritten = server.repository.tip("rewritten").unwrap();
    server.repository.set_branch("main", Some(&rewritten));
    settle(&mut mirror, &desired);
    assert_eq!(server.repository.history("main")[1..], [rewritten]);
    assert_eq!(server.repository.files("main")["live/a.yaml"], "a\n");
    server.repository.assert_sound("main");
}

fn a_refusing_hook_is_told_with_its_words(transport: Transport) {
    let server = Server::start(transport);
    let first = server
        .repository
        .commit("main", "first", &[FileChange::Write("README.md", "1\n")]);
    server
        .repository
        .hook("pre-receive", "echo 'no Mondays, please' >&2; exit 1");
    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    let PushOutcome::Refused(refusal) = write(&mut mirror, &[("live/a.yaml", Some("a\n"))]) else {
        panic!("not refused")
    };
    assert_eq!(refusal.kind, RefusalKind::Hook);
    assert_eq!(refusal.reason, "no Mondays, please");
    assert_eq!(server.repository.tip("main"), Some(first));
    server.repository.remove_hook("pre-receive");
    pushed(&write(&mut mirror, &[("live/a.yaml", Some("a\n"))]));
    server.repository.assert_sound("main");
}

fn a_size_limit_is_told_apart(transport: Transport) {
    let server = Server::start(transport);
    server.repository.config("receive.maxInputSize", "20000");
    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    // Hardly compressible.
    let large: String = (0..2000_u32)
        .map(|i| BlobId::of(&i.to_le_bytes()).to_string())
        .collect();
    let outcome = write(&mut mirror, &[("live/a.yaml", Some(&large))]);
    let PushOutcome::Refused(refusal) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(refusal.kind, RefusalKind::TooLarge, "{refusal:?}");
    pushed(&write(&mut mirror, &[("live/b.yaml", Some("small\n"))]));
}

fn contents_are_fetched_when_they_are_asked_for(transport: Transport) {
    let server = Server::start(transport);
    let contents: Vec<String> = (0..30).map(|i| format!("content {i}\n")).collect();
    let paths: Vec<String> = (0..30).map(|i| format!("live/{i}.yaml")).collect();
    let writes: Vec<_> = paths
        .iter()
        .zip(&contents)
        .map(|(p, c)| FileChange::Write(p, c))
        .collect();
    server.repository.commit("main", "first", &writes);
    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    let snapshot = mirror.snapshot(&folder("live")).unwrap();
    let ids: Vec<_> = snapshot.iter().map(|entry| entry.blob.unwrap()).collect();
    let unknown = BlobId::of(b"never heard of");
    let blobs = mirror.blobs(&ids).unwrap();
    assert_eq!(blobs.missing, []);
    for content in &contents {
        assert_eq!(
            blobs.found[&BlobId::of(content.as_bytes())],
            content.as_bytes()
        );
    }
    let blobs = mirror.blobs(&[ids[0], unknown]).unwrap();
    assert_eq!((blobs.found.len(), blobs.missing), (1, vec![unknown]));
    // And the mirror still writes.
    if mirror.tip().is_none() {
        mirror.fetch().unwrap();
    }
    pushed(&write(&mut mirror, &[("live/0.yaml", Some("changed\n"))]));
    server.repository.assert_sound("main");
}

fn push_options_reach_the_server(transport: Transport) {
    let server = Server::start(transport);
    let said = server.root.path().join("said");
    server.repository.hook(
        "post-receive",
        &format!(
            "echo \"$GIT_PUSH_OPTION_COUNT $GIT_PUSH_OPTION_0\" > {}",
            said.display()
        ),
    );
    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    let plan = plan(&mirror, "live", &[("live/a.yaml", Some("a\n"))]);
    let prepared = mirror.commit(&[plan], None).unwrap().prepared.unwrap();
    let options = PushOptions::new(["ci.skip"]).unwrap();
    pushed(&mirror.push(&prepared, &options).unwrap());
    assert_eq!(std::fs::read_to_string(said).unwrap(), "1 ci.skip\n");
    // A server that does not take them says so.
    server
        .repository
        .config("receive.advertisePushOptions", "false");
    let plan = crate::support::plan(&mirror, "live", &[("live/b.yaml", Some("b\n"))]);
    let prepared = mirror.commit(&[plan], None).unwrap().prepared.unwrap();
    let PushOutcome::Refused(refusal) = mirror.push(&prepared, &options).unwrap() else {
        panic!()
    };
    assert_eq!(refusal.kind, RefusalKind::PushOptions);
}

fn a_repository_that_does_not_exist_is_named(transport: Transport) {
    let mut server = Server::start(transport);
    server.url = server.url.replace("r.git", "nothing.git");
    let mut mirror = server.mirror("main");
    for error in [mirror.reach().unwrap_err(), mirror.fetch().unwrap_err()] {
        let FetchError::Remote(RemoteFailure::Unreachable { cause, .. }) = &error else {
            panic!("{error:?}")
        };
        assert_eq!(*cause, UnreachableCause::NotFound, "{error}");
    }
}

fn pushing_the_same_commits_twice_is_harmless(transport: Transport) {
    let server = Server::start(transport);
    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    let plan = plan(&mirror, "live", &[("live/a.yaml", Some("a\n"))]);
    let committed = mirror.commit(&[plan], None).unwrap();
    let tip = pushed(&push(&mut mirror, &committed));
    assert_eq!(pushed(&push(&mut mirror, &committed)), tip);
    assert_eq!(server.repository.history("main").len(), 1);
    // Once somebody has built on them, they are stale and nothing happens.
    let foreign = server
        .repository
        .commit("main", "foreign", &[FileChange::Write("x", "x\n")]);
    assert_eq!(
        push(&mut mirror, &committed),
        PushOutcome::Stale {
            tip: Some(foreign.parse().unwrap())
        }
    );
    assert_eq!(
        mirror.fetch().unwrap(),
        Tip::Branch(foreign.parse().unwrap())
    );
}

fn a_server_that_dies_before_the_update_is_tried_again(transport: Transport) {
    let server = Server::start(transport);
    let died = server.root.path().join("died").display().to_string();
    server.repository.hook(
        "pre-receive",
        &format!("mkdir {died} 2>/dev/null && kill -9 $PPID; exit 0"),
    );
    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    pushed(&write(&mut mirror, &[("live/a.yaml", Some("a\n"))]));
    assert!(server.root.path().join("died").exists());
    assert_eq!(server.repository.history("main").len(), 1);
    // Every time, and the answer is that nobody knows.
    server.repository.hook("pre-receive", "kill -9 $PPID");
    let outcome = write(&mut mirror, &[("live/a.yaml", Some("b\n"))]);
    assert!(
        matches!(outcome, PushOutcome::Unknown { .. }),
        "{outcome:?}"
    );
    server.repository.remove_hook("pre-receive");
    pushed(&write(&mut mirror, &[("live/a.yaml", Some("b\n"))]));
    server.repository.assert_sound("main");
}

fn a_server_that_dies_after_the_update_is_asked(transport: Transport) {
    let server = Server::start(transport);
    server.repository.hook("post-receive", "kill -9 $PPID");
    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    let tip = pushed(&write(&mut mirror, &[("live/a.yaml", Some("a\n"))]));
    assert_eq!(server.repository.tip("main"), Some(tip));
    server.repository.assert_sound("main");
}
