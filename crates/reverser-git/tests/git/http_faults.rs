//! What a server, or what stands in front of it, can do to us over HTTP.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use reverser_git::{
    FetchError, MirrorOptions, PushOutcome, RefusalKind, RemoteFailure, UnreachableCause,
};
use reverser_testkit::git_server::{Fault, FileChange, Request};
use reverser_testkit::wait;

use crate::support::{Server, TestMirror, Transport, plan, push, pushed, quick, settle, write};

fn started(transport: Transport) -> (Server, TestMirror) {
    let server = Server::start(transport);
    server
        .repository
        .commit("main", "first", &[FileChange::Write("README.md", "1\n")]);
    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    (server, mirror)
}

fn unreachable_by(error: &FetchError) -> Option<UnreachableCause> {
    match error {
        FetchError::Remote(RemoteFailure::Unreachable { cause, .. }) => Some(*cause),
        _ => None,
    }
}

#[test]
fn an_answer_that_is_lost_after_the_commit_landed_is_settled_by_asking() {
    for transport in [Transport::Http, Transport::Https] {
        let (server, mut mirror) = started(transport);
        for cut in [0, 20, 200, 280] {
            server
                .front()
                .fault(Request::Push, Fault::CutAnswer(cut), 1);
            let content = format!("{cut}\n");
            let tip = pushed(&write(&mut mirror, &[("live/a.yaml", Some(&content))]));
            assert_eq!(server.repository.tip("main"), Some(tip), "cut after {cut}");
        }
        assert_eq!(server.repository.history("main").len(), 5);
        server.repository.assert_sound("main");
    }
}

#[test]
fn a_request_that_is_lost_is_sent_again() {
    let (server, mut mirror) = started(Transport::Http);
    server.front().fault(Request::Push, Fault::DropRequest, 1);
    pushed(&write(&mut mirror, &[("live/a.yaml", Some("a\n"))]));
    server.front().fault(Request::Push, Fault::Status(502), 1);
    pushed(&write(&mut mirror, &[("live/a.yaml", Some("b\n"))]));
    assert_eq!(server.repository.history("main").len(), 3);
    server.repository.assert_sound("main");
}

#[test]
fn a_lost_connection_and_a_silent_remote_are_unknown_until_somebody_answers() {
    let (server, mut mirror) = started(Transport::Http);
    let plan = plan(&mirror, "live", &[("live/a.yaml", Some("a\n"))]);
    let committed = mirror.commit(&[plan], None).unwrap();
    server.front().fault(Request::Push, Fault::CutAnswer(0), 1);
    server
        .front()
        .fault(Request::FetchRefs, Fault::Status(503), 1);
    let outcome = push(&mut mirror, &committed);
    assert!(
        matches!(outcome, PushOutcome::Unknown { .. }),
        "{outcome:?}"
    );
    // It had landed; pushing the same again says so and does not do it twice.
    pushed(&push(&mut mirror, &committed));
    assert_eq!(server.repository.history("main").len(), 2);
    // Lost before it landed, every time.
    let plan = crate::support::plan(&mirror, "live", &[("live/b.yaml", Some("b\n"))]);
    let committed = mirror.commit(&[plan], None).unwrap();
    server.front().fault(Request::Push, Fault::DropRequest, 20);
    let outcome = push(&mut mirror, &committed);
    assert!(
        matches!(outcome, PushOutcome::Unknown { .. }),
        "{outcome:?}"
    );
    assert_eq!(server.repository.history("main").len(), 2);
    server.front().heal();
    pushed(&push(&mut mirror, &committed));
    server.repository.assert_sound("main");
}

#[test]
fn a_lost_answer_and_a_foreign_commit_on_top_is_stale() {
    let (server, mut mirror) = started(Transport::Http);
    // The foreign commit comes right after ours, before anybody asks.
    let repository = server.repository.path().display().to_string();
    let foreign = format!(
        "tip=$(git --git-dir={repository} rev-parse refs/heads/main)\n\
         new=$(echo foreign | git --git-dir={repository} commit-tree $tip^{{tree}} -p $tip)\n\
         git --git-dir={repository} update-ref refs/heads/main $new"
    );
    server.repository.hook("post-receive", &foreign);
    server.front().fault(Request::Push, Fault::CutAnswer(0), 1);
    let outcome = write(&mut mirror, &[("live/a.yaml", Some("a\n"))]);
    let foreign = server.repository.tip("main").unwrap();
    assert_eq!(
        outcome,
        PushOutcome::Stale {
            tip: Some(foreign.parse().unwrap())
        }
    );
    server.repository.remove_hook("post-receive");
    settle(
        &mut mirror,
        &BTreeMap::from([("live/a.yaml".to_owned(), "a\n".to_owned())]),
    );
    // Nothing was missing, so nothing was committed.
    assert_eq!(server.repository.tip("main"), Some(foreign));
    assert_eq!(server.repository.history("main").len(), 3);
}

#[test]
fn a_server_that_fails_before_anything_is_sent_is_unreachable() {
    let (server, mut mirror) = started(Transport::Http);
    for status in [500, 502, 503, 429] {
        server
            .front()
            .fault(Request::PushRefs, Fault::Status(status), 1);
        let outcome = write(&mut mirror, &[("live/a.yaml", Some("a\n"))]);
        let PushOutcome::Unreachable { cause, reason } = outcome else {
            panic!("{status}: {outcome:?}")
        };
        assert_eq!(cause, UnreachableCause::Interrupted);
        assert!(reason.contains(&status.to_string()), "{reason}");
        server
            .front()
            .fault(Request::FetchRefs, Fault::Status(status), 1);
        let error = mirror.fetch().unwrap_err();
        assert_eq!(
            unreachable_by(&error),
            Some(UnreachableCause::Interrupted),
            "{error}"
        );
        mirror.fetch().unwrap();
    }
    for status in [401, 403] {
        server
            .front()
            .fault(Request::PushRefs, Fault::Status(status), 1);
        let outcome = write(&mut mirror, &[("live/a.yaml", Some("a\n"))]);
        assert!(
            matches!(outcome, PushOutcome::Unauthorised { .. }),
            "{status}: {outcome:?}"
        );
    }
    server.front().fault(Request::Push, Fault::Status(403), 1);
    let outcome = write(&mut mirror, &[("live/a.yaml", Some("a\n"))]);
    assert!(
        matches!(outcome, PushOutcome::Unauthorised { .. }),
        "{outcome:?}"
    );
    pushed(&write(&mut mirror, &[("live/a.yaml", Some("a\n"))]));
}

#[test]
fn a_proxy_that_finds_the_push_too_large_is_understood() {
    let (server, mut mirror) = started(Transport::Http);
    server.front().fault(Request::Push, Fault::Status(413), 1);
    let outcome = write(&mut mirror, &[("live/a.yaml", Some("a\n"))]);
    let PushOutcome::Refused(refusal) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(refusal.kind, RefusalKind::TooLarge);
}

#[test]
fn a_server_that_is_gone_is_unreachable_and_comes_back() {
    let mut server = Server::start(Transport::Http);
    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    let here = server.url.clone();
    drop(server.front.take());
    // The port is closed as soon as the accepting thread has noticed.
    let error = wait::until_blocking("the server to be gone", Duration::from_mins(1), || {
        mirror
            .fetch()
            .err()
            .filter(|error| unreachable_by(error) == Some(UnreachableCause::NotConnected))
    })
    .unwrap();
    assert!(error.to_string().contains(&here[..16]), "{error}");
}

#[test]
fn a_redirect_is_not_followed_but_named() {
    let (server, mut mirror) = started(Transport::Http);
    let elsewhere = Server::start(Transport::Http);
    elsewhere
        .repository
        .commit("main", "elsewhere", &[FileChange::Write("x", "x\n")]);
    let to = elsewhere.url.trim_end_matches("/r.git").to_owned();
    for request in [Request::Any, Request::PushRefs] {
        server
            .front()
            .fault(request, Fault::Redirect(to.clone()), usize::MAX);
        let error = mirror.fetch();
        let outcome = if request == Request::Any {
            let error = error.unwrap_err();
            assert_eq!(
                unreachable_by(&error),
                Some(UnreachableCause::Redirect),
                "{error}"
            );
            error.to_string()
        } else {
            format!("{:?}", write(&mut mirror, &[("live/a.yaml", Some("a\n"))]))
        };
        if request == Request::Any {
            assert!(
                outcome.contains(&format!("write repoUrl: {}", elsewhere.url)),
                "{outcome}"
            );
        } else {
            assert!(outcome.contains("Redirect"), "{outcome}");
        }
        server.front().heal();
    }
    let asked = elsewhere.front().seen();
    assert!(asked.is_empty(), "{asked:?}");
}

#[test]
fn a_hanging_server_is_given_up_at_the_deadline() {
    let server = Server::start(Transport::Http);
    server
        .repository
        .commit("main", "first", &[FileChange::Write("README.md", "1\n")]);
    let folder = tempfile::tempdir().unwrap();
    let mut options = quick();
    options.timeouts.transfer = Duration::from_secs(8);
    options.timeouts.ask = Duration::from_secs(8);
    let mut mirror = server.open_with(folder.path(), "main", options);
    mirror.fetch().unwrap();
    let before = Instant::now();
    server.front().fault(Request::Any, Fault::Hang, 1);
    let error = mirror.fetch().unwrap_err();
    assert_eq!(
        unreachable_by(&error),
        Some(UnreachableCause::TimedOut),
        "{error}"
    );
    mirror.fetch().unwrap();
    server.front().fault(Request::Push, Fault::Hang, 1);
    server.front().fault(Request::FetchRefs, Fault::Hang, 1);
    let outcome = write(&mut mirror, &[("live/a.yaml", Some("a\n"))]);
    assert!(
        matches!(outcome, PushOutcome::Unknown { .. }),
        "{outcome:?}"
    );
    assert!(before.elapsed() < Duration::from_mins(2));
    mirror.fetch().unwrap();
    pushed(&write(&mut mirror, &[("live/a.yaml", Some("a\n"))]));
}

#[test]
fn a_slow_server_is_waited_for() {
    let (server, mut mirror) = started(Transport::Http);
    server.front().fault(Request::Any, Fault::Slow(1500), 3);
    pushed(&write(&mut mirror, &[("live/a.yaml", Some("a\n"))]));
    server.front().heal();
    server
        .front()
        .fault(Request::Any, Fault::Delay(Duration::from_millis(300)), 2);
    mirror.fetch().unwrap();
}

#[test]
fn cancelling_stops_a_hanging_push_and_the_next_owner_finds_out() {
    let (server, _) = started(Transport::Http);
    let folder = tempfile::tempdir().unwrap();
    let options = MirrorOptions {
        cancel: reverser_git::CancelToken::new(),
        ..quick()
    };
    let cancel = options.cancel.clone();
    let mut mirror = server.open_with(folder.path(), "main", options);
    mirror.fetch().unwrap();
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
        cancel.cancel();
        let outcome = pushing.join().unwrap();
        assert!(
            matches!(outcome, PushOutcome::Unknown { .. }),
            "{outcome:?}"
        );
    });
    assert!(matches!(mirror.fetch().unwrap_err(), FetchError::Cancelled));
    drop(mirror);
    let mut mirror = server.open(folder.path(), "main");
    settle(
        &mut mirror,
        &BTreeMap::from([("live/a.yaml".to_owned(), "a\n".to_owned())]),
    );
    server.repository.assert_sound("main");
}

#[test]
fn a_fetch_that_is_cut_off_is_repeated() {
    let (server, mut mirror) = started(Transport::Http);
    let many: Vec<(String, String)> = (0..300)
        .map(|i| (format!("live/{i}.yaml"), format!("{i}\n")))
        .collect();
    let writes: Vec<_> = many.iter().map(|(p, c)| FileChange::Write(p, c)).collect();
    server.repository.commit("main", "many", &writes);
    for cut in [0, 30, 300, 2000] {
        server
            .front()
            .fault(Request::Fetch, Fault::CutAnswer(cut), 20);
        let error = mirror.fetch().unwrap_err();
        assert_eq!(
            unreachable_by(&error),
            Some(UnreachableCause::Interrupted),
            "{cut}: {error}"
        );
        server.front().heal();
    }
    mirror.fetch().unwrap();
    pushed(&write(&mut mirror, &[("live/a.yaml", Some("a\n"))]));
    server.repository.assert_sound("main");
}

#[test]
fn a_foreign_commit_every_time_does_not_lose_any() {
    let (server, mut mirror) = started(Transport::Http);
    let mut foreign = Vec::new();
    for round in 0..6 {
        mirror.fetch().unwrap();
        let content = format!("{round}\n");
        foreign.push(server.repository.commit(
            "main",
            "foreign",
            &[FileChange::Write("README.md", &content)],
        ));
        let outcome = write(&mut mirror, &[("live/a.yaml", Some(&content))]);
        assert!(matches!(outcome, PushOutcome::Stale { .. }), "{outcome:?}");
        settle(
            &mut mirror,
            &BTreeMap::from([("live/a.yaml".to_owned(), content)]),
        );
    }
    let history = server.repository.history("main");
    assert!(foreign.iter().all(|commit| history.contains(commit)));
    assert_eq!(history.len(), 13);
    server.repository.assert_sound("main");
}
