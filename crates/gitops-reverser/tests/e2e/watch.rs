//! Lists and watches on a real API server, and on one whose answers go wrong.

use std::collections::HashSet;
use std::time::Duration;

use gitops_reverser::watch::{self, Observation, SupervisorError, WatchSettings, WatchSupervisor};
use reverser_testkit::control_plane::{ControlPlane, User};
use reverser_testkit::fault_proxy::{Fault, FaultProxy};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::observer::{Author, Observer, SOON, config_maps, paged, quick, scope};

/// A namespace of the shared plane with someone who works in it.
fn workshop(prefix: &str) -> (kube::Config, Author, String) {
    let plane = ControlPlane::shared();
    let namespace = plane.namespace(prefix);
    let author = Author::new(plane.client(User::Alice).unwrap(), &namespace);
    (plane.kube_config(User::Alice), author, namespace)
}

/// The same behind a proxy.
fn behind_a_proxy(prefix: &str) -> (FaultProxy, kube::Config, Author, String) {
    let (config, author, namespace) = workshop(prefix);
    let proxy = FaultProxy::start(&config);
    let config = proxy.kube_config(config);
    (proxy, config, author, namespace)
}

/// How long a server that falls silent is waited for: what goes well takes less on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(4);

/// Whether only patience ends it.
fn is_silent(fault: &Fault) -> bool {
    matches!(fault, Fault::Hang | Fault::SilentAfter(_))
}

#[tokio::test]
async fn pages_and_streams_tell_the_same_1201_objects() {
    let (proxy, config, author, namespace) = behind_a_proxy("pages");
    author.create_many(1_201).await;

    let mut pages = Observer::start(config.clone(), paged(), config_maps(&namespace));
    pages.until_told("Complete 1201", 1).await;
    let asked = proxy.seen();
    let lists: Vec<_> = asked
        .iter()
        .filter(|line| line.contains("limit="))
        .collect();
    assert_eq!(lists.len(), 3, "{asked:#?}");
    assert!(
        lists
            .iter()
            .all(|line| line.contains("limit=500") && !line.contains("resourceVersion"))
    );
    assert!(!lists[0].contains("continue") && lists[1].contains("&continue="));

    let mut stream = Observer::start(config, quick(), config_maps(&namespace));
    stream.until_told("Complete 1201", 1).await;
    assert_eq!(stream.known, pages.known);
    let asked: Vec<_> = proxy.seen().into_iter().skip(asked.len()).collect();
    let first = asked
        .iter()
        .find(|line| line.contains("sendInitialEvents=true"));
    let first = first.expect("it streamed");
    assert!(
        first.contains("resourceVersionMatch=NotOlderThan") && !first.contains("resourceVersion=")
    );
    assert!(
        asked.iter().all(|line| !line.contains("limit=")),
        "{asked:#?}"
    );
}

#[tokio::test]
async fn changes_are_told_as_they_happen() {
    let (config, author, namespace) = workshop("live");
    author.create("before").await;
    for settings in [quick(), paged()] {
        let mut observer = Observer::start(config.clone(), settings, config_maps(&namespace));
        observer.until_told("Complete 1", 1).await;
        author.create("later").await;
        observer.until_told("added later", 1).await;
        author.change("later", "value").await;
        observer.until_told("modified later", 1).await;
        author.delete("later").await;
        observer.until_told("gone later", 1).await;
        assert_eq!(observer.names(), ["before"]);
        assert_eq!(observer.log.len(), 5, "{:?}", observer.log);
    }
}

#[tokio::test]
async fn an_empty_scope_is_complete() {
    let (config, _, namespace) = workshop("empty");
    for settings in [quick(), paged()] {
        let mut observer = Observer::start(config.clone(), settings, config_maps(&namespace));
        observer.until_told("Complete 0", 1).await;
    }
}

#[tokio::test]
async fn who_may_see_one_namespace_sees_that_and_is_told_so_of_the_rest() {
    let plane = ControlPlane::shared();
    let config = plane.kube_config(User::Tenant);
    for settings in [quick(), paged()] {
        let everywhere = scope(("", "v1", "configmaps"), "ConfigMap", None);
        let mut observer = Observer::start(config.clone(), settings.clone(), everywhere);
        observer.until_told("lost Forbidden", 2).await;
        assert_eq!(observer.told("Complete"), 0);
        let home = config_maps(User::TENANT_NAMESPACE);
        let mut observer = Observer::start(config.clone(), settings, home);
        observer.until_told("Complete", 1).await;
    }
}

#[tokio::test]
async fn a_type_that_is_not_served_is_lost() {
    let (config, ..) = workshop("nothing");
    let missing = scope(("nobody.example.com", "v1", "things"), "Thing", None);
    let mut observer = Observer::start(config, quick(), missing);
    observer.until_told("lost NotFound", 2).await;
}

#[tokio::test]
async fn a_list_that_goes_wrong_proves_nothing_and_is_made_again() {
    const LIST: &str = "configmaps?limit=";
    let (proxy, config, author, namespace) = behind_a_proxy("bad-list");
    author.create_many(5).await;
    let status =
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","code":200}"#;
    let other =
        r#"{"kind":"SecretList","apiVersion":"v2","metadata":{"resourceVersion":"9"},"items":[]}"#;
    let forgetful = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"9","remainingItemCount":3},"items":[]}"#;
    let looping = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"9","continue":"x"},"items":[]}"#;
    for (words, fault, times, lost) in [
        (LIST, Fault::CutAfter(300), 1, "lost Truncated"),
        ("continue=", Fault::CutAfter(300), 1, "lost Truncated"),
        (LIST, Fault::answer(200, ""), 1, "lost Truncated"),
        (
            LIST,
            Fault::answer(200, "<html></html>"),
            1,
            "lost Malformed",
        ),
        (LIST, Fault::answer(200, status), 1, "lost Malformed"),
        (LIST, Fault::answer(200, other), 1, "lost Malformed"),
        (LIST, Fault::answer(200, forgetful), 1, "lost Malformed"),
        (LIST, Fault::answer(200, looping), 2, "lost Malformed"),
        (LIST, Fault::answer(500, status), 1, "lost ServerError 500"),
        (LIST, Fault::answer(503, "busy"), 1, "lost ServerError 503"),
        (LIST, Fault::answer(429, status), 1, "lost TooManyRequests"),
        (LIST, Fault::answer(401, status), 1, "lost Unauthorized"),
        (LIST, Fault::answer(403, status), 1, "lost Forbidden"),
        (LIST, Fault::answer(404, status), 1, "lost NotFound"),
        ("continue=", Fault::answer(410, status), 1, "lost Expired"),
        (LIST, Fault::Close, 1, "lost Unreachable"),
        (LIST, Fault::Hang, 1, "lost Timeout"),
        (LIST, Fault::SilentAfter(300), 1, "lost Timeout"),
    ] {
        println!("{words} {fault:?}");
        let mut settings = paged();
        settings.page_limit = 2;
        if is_silent(&fault) {
            settings.page_deadline = PATIENCE;
        }
        proxy.fault(words, fault, times);
        let mut observer = Observer::start(config.clone(), settings, config_maps(&namespace));
        observer.until_told(lost, 1).await;
        assert_eq!(observer.told("Complete"), 0);
        observer.until_told("Complete 5", 1).await;
        let told: Vec<_> = observer.log.iter().map(|line| &line[..4]).collect();
        assert_eq!(told, ["list", "lost", "list", "Comp"], "{:?}", observer.log);
        proxy.heal();
    }
    assert!(
        proxy
            .seen()
            .iter()
            .all(|line| !line.contains("resourceVersion=0"))
    );
}

#[tokio::test]
async fn a_streamed_list_that_the_server_cannot_give_comes_in_pages() {
    const STREAM: &str = "sendInitialEvents";
    let (proxy, config, author, namespace) = behind_a_proxy("no-stream");
    author.create_many(5).await;
    for fault in [
        Fault::answer(422, "sendInitialEvents is forbidden"),
        Fault::answer(400, "what?"),
        Fault::answer(200, ""),
        Fault::answer(200, "<html>\n"),
        // Some of what is there, and then nothing.
        Fault::SilentAfter(700),
        Fault::SilentAfter(0),
        Fault::CutAfter(700),
        Fault::Hang,
    ] {
        println!("{fault:?}");
        let mut settings = quick();
        if is_silent(&fault) {
            settings.streaming_silence = PATIENCE;
            settings.response_deadline = PATIENCE;
        }
        proxy.fault(STREAM, fault, 1);
        let scope = config_maps(&namespace);
        let mut observer = Observer::start(config.clone(), settings, scope.clone());
        observer.until_told("Complete 5", 1).await;
        assert_eq!(observer.log, ["list", "list", "Complete 5"]);
        // A new driver tries again.
        let before = proxy.seen().len();
        observer.restart(&scope);
        observer.until_told("Complete 5", 2).await;
        let asked = proxy.seen().split_off(before);
        assert!(asked.iter().any(|line| line.contains(STREAM)), "{asked:?}");
        proxy.heal();
    }
}

#[tokio::test]
async fn a_server_without_streamed_lists_is_listed_in_pages() {
    let plane = ControlPlane::builder()
        .feature_gate("WatchList", false)
        .start()
        .unwrap();
    let config = plane.kube_config(User::Alice);
    let namespaces = scope(("", "v1", "namespaces"), "Namespace", None);
    let mut observer = Observer::start(config, quick(), namespaces);
    observer
        .until("complete list", |seen| seen.lists == 1)
        .await;
    assert_eq!(observer.log.len(), 3, "{:?}", observer.log);
    plane.namespace("new");
    observer.until_told("added new-1", 1).await;
}

#[tokio::test]
async fn a_past_that_is_gone_is_listed_again() {
    const WATCH: &str = "watch=true resourceVersion=";
    let (proxy, config, author, namespace) = behind_a_proxy("expired");
    author.create("one").await;
    let event = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too old","reason":"Expired","code":410}}"#;
    for fault in [
        Fault::answer(410, r#"{"message":"too old"}"#),
        Fault::answer(200, format!("{event}\n")),
    ] {
        proxy.fault(WATCH, fault, 1);
        let mut observer = Observer::start(config.clone(), paged(), config_maps(&namespace));
        observer.until_told("Complete 1", 2).await;
        let log = [
            "list",
            "Complete 1",
            "lost Expired (410: too old)",
            "list",
            "Complete 1",
        ];
        assert_eq!(observer.log, log);
    }
}

#[tokio::test]
async fn a_watch_that_fails_three_times_is_listed_again() {
    const WATCH: &str = "watch=true resourceVersion=";
    let (proxy, config, author, namespace) = behind_a_proxy("failing");
    author.create("one").await;
    for (fault, lost) in [
        (Fault::answer(500, "broken"), "lost ServerError 500"),
        (Fault::answer(429, "busy"), "lost TooManyRequests"),
        (Fault::answer(200, "no event\n"), "lost Malformed"),
        (Fault::answer(200, "{\"type\":"), "lost Truncated"),
        (Fault::Close, "lost Unreachable"),
        (Fault::Hang, "lost Timeout"),
    ] {
        println!("{fault:?}");
        let before = proxy.seen().len();
        let mut settings = paged();
        if is_silent(&fault) {
            settings.response_deadline = PATIENCE;
        }
        proxy.fault(WATCH, fault, 3);
        let mut observer = Observer::start(config.clone(), settings, config_maps(&namespace));
        observer.until_told("Complete 1", 2).await;
        assert_eq!(observer.told(lost), 1, "{:?}", observer.log);
        assert_eq!(observer.log.len(), 5, "{:?}", observer.log);
        let asked = proxy.seen().split_off(before);
        let watches = asked.iter().filter(|line| line.contains("watch=true"));
        let versions: HashSet<_> = watches
            .take(3)
            .map(|line| line.split("&resourceVersion=").nth(1).unwrap().to_owned())
            .collect();
        assert_eq!(versions.len(), 1, "{asked:?}");
        proxy.heal();
    }
}

#[tokio::test]
async fn a_watch_that_breaks_or_falls_silent_goes_on_where_it_was() {
    const WATCH: &str = "watch=true resourceVersion=";
    let (proxy, config, author, namespace) = behind_a_proxy("silent");
    author.create("one").await;
    for fault in [
        Fault::SilentAfter(0),
        Fault::CutAfter(0),
        Fault::answer(200, ""),
    ] {
        println!("{fault:?}");
        proxy.fault(WATCH, fault, 2);
        let settings = WatchSettings {
            watch_silence: Duration::from_secs(1),
            // Quiet for longer than that is usual here.
            watch_failures: 1_000,
            ..paged()
        };
        let mut observer = Observer::start(config.clone(), settings, config_maps(&namespace));
        observer.until_told("Complete 1", 1).await;
        author.create("two").await;
        observer.until_told("added two", 1).await;
        author.delete("two").await;
        observer.until_told("gone two", 1).await;
        assert_eq!(
            observer.log,
            ["list", "Complete 1", "added two", "gone two"]
        );
        proxy.heal();
    }
}

#[tokio::test]
async fn a_watch_that_stays_silent_is_listed_again_without_a_doubt() {
    const WATCH: &str = "watch=true resourceVersion=";
    let (proxy, config, author, namespace) = behind_a_proxy("quiet");
    author.create("one").await;
    proxy.fault(WATCH, Fault::SilentAfter(0), 3);
    let settings = WatchSettings {
        watch_silence: Duration::from_millis(300),
        ..paged()
    };
    let mut observer = Observer::start(config, settings, config_maps(&namespace));
    observer.until_told("Complete 1", 2).await;
    assert_eq!(observer.told("lost"), 0, "{:?}", observer.log);
}

#[tokio::test]
async fn a_page_that_is_too_large_is_asked_for_in_smaller_ones() {
    let (proxy, config, author, namespace) = behind_a_proxy("large");
    author.create_many(40).await;
    let settings = WatchSettings {
        max_bytes: 4_000,
        ..paged()
    };
    let mut observer = Observer::start(config.clone(), settings, config_maps(&namespace));
    observer.until_told("Complete 40", 1).await;
    let asked = proxy.seen();
    assert!(
        asked.iter().any(|line| line.contains("limit=7")),
        "{asked:?}"
    );
    let settings = WatchSettings {
        max_bytes: 100,
        ..paged()
    };
    let mut observer = Observer::start(config, settings, config_maps(&namespace));
    observer.until_told("lost TooLarge", 1).await;
}

#[tokio::test]
async fn one_bad_item_makes_a_list_partial() {
    let (proxy, config, _, namespace) = behind_a_proxy("partial");
    let list = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"9"},
        "items":[{"metadata":{"name":"good","resourceVersion":"8"}},null]}"#;
    proxy.fault("limit=", Fault::answer(200, list), 1);
    let mut observer = Observer::start(config, paged(), config_maps(&namespace));
    observer.until_told("Partial", 1).await;
    assert_eq!(observer.told("undecodable"), 1);
    assert_eq!(observer.names(), ["good"]);
}

#[tokio::test]
async fn nothing_is_missed_while_the_server_is_killed_and_paused() {
    let plane = ControlPlane::builder().start().unwrap();
    let namespace = plane.namespace("killed");
    let author = Author::new(plane.client(User::Alice).unwrap(), &namespace);
    let config = plane.kube_config(User::Alice);
    let settings = WatchSettings {
        watch_silence: Duration::from_secs(3),
        response_deadline: Duration::from_secs(3),
        ..quick()
    };
    author.create("kept").await;
    author.create("goes").await;
    let mut observer = Observer::start(config, settings, config_maps(&namespace));
    observer.until_told("Complete 2", 1).await;

    for round in 0..3 {
        plane.apiserver().kill().unwrap();
        plane.apiserver().start().unwrap();
        author.create(&format!("round-{round}")).await;
        author.change("kept", &format!("{round}")).await;
        author.delete("goes").await;
        let name = format!("round-{round}");
        observer
            .until("the changes", |seen| {
                seen.known.contains_key(&name) && !seen.known.contains_key("goes")
            })
            .await;
        author.create("goes").await;
        observer
            .until("it again", |seen| seen.known.contains_key("goes"))
            .await;
    }

    // The connection stays open and says nothing.
    plane.apiserver().pause().unwrap();
    observer.listen_for(Duration::from_secs(5)).await;
    plane.apiserver().resume().unwrap();
    author.delete("kept").await;
    observer
        .until("the deletion", |seen| !seen.known.contains_key("kept"))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_known_in_the_end_is_what_is_there_however_often_the_server_died() {
    let plane = ControlPlane::builder().start().unwrap();
    let namespace = plane.namespace("busy");
    let author = Author::new(
        watch::client(plane.kube_config(User::Alice)).unwrap(),
        &namespace,
    );
    let config = plane.kube_config(User::Alice);
    let mut streamed = Observer::start(config.clone(), quick(), config_maps(&namespace));
    let mut in_pages = Observer::start(config, paged(), config_maps(&namespace));
    let worker = author.clone();
    let work = tokio::spawn(async move { worker.work(1_500).await });
    for round in 0..2 {
        for observer in [&mut streamed, &mut in_pages] {
            observer.listen_for(Duration::from_secs(1)).await;
        }
        if round == 1 {
            plane.compact_etcd().unwrap();
        }
        plane.apiserver().restart().unwrap();
    }
    work.await.unwrap();
    let there = author.there().await;
    assert!(!there.is_empty());
    for observer in [&mut streamed, &mut in_pages] {
        observer
            .until("what is there", |seen| seen.known == there)
            .await;
        observer.listen_for(Duration::from_millis(500)).await;
        assert_eq!(observer.known, there);
    }
}

#[tokio::test]
async fn a_compacted_past_is_listed_again() {
    let plane = ControlPlane::builder().start().unwrap();
    let namespace = plane.namespace("compacted");
    let author = Author::new(plane.client(User::Alice).unwrap(), &namespace);
    author.create("one").await;
    author.create("two").await;
    let settings = WatchSettings {
        // Until the server says that the past is gone.
        watch_failures: 1_000,
        ..quick()
    };
    let config = plane.kube_config(User::Alice);
    let mut observer = Observer::start(config, settings, config_maps(&namespace));
    observer.until_told("Complete 2", 1).await;
    plane.apiserver().kill().unwrap();
    plane.compact_etcd().unwrap();
    plane.apiserver().start().unwrap();
    author.delete("two").await;
    observer.until("second list", |seen| seen.lists == 2).await;
    assert_eq!(observer.told("lost Expired"), 1, "{:?}", observer.log);
    observer
        .until("the deletion", |seen| seen.names() == ["one"])
        .await;
}

#[tokio::test]
async fn scopes_come_and_go_and_those_that_stay_are_not_disturbed() {
    let (config, author, namespace) = workshop("scopes");
    author.create("one").await;
    let (tx, mut rx) = mpsc::channel(100);
    let mut supervisor = WatchSupervisor::new(watch::client(config).unwrap(), quick(), tx);
    let maps = config_maps(&namespace);
    let secrets = scope(("", "v1", "secrets"), "Secret", Some(&namespace));

    let changes = supervisor.set_scopes(&HashSet::from([maps.clone(), secrets.clone()]));
    assert_eq!((changes.started.len(), changes.stopped.len()), (2, 0));
    let first = supervisor.epoch_of(&maps).unwrap();
    let changes = supervisor.set_scopes(&HashSet::from([maps.clone()]));
    assert_eq!((changes.started.len(), changes.stopped.len()), (0, 1));
    assert_eq!(supervisor.epoch_of(&maps), Some(first));
    assert_eq!(supervisor.epoch_of(&secrets), None);
    assert_eq!(supervisor.restart(&secrets), None);

    let second = supervisor.restart(&maps).unwrap();
    assert!(second > first);
    let listed = async {
        loop {
            let observed = rx.recv().await.unwrap();
            let listed = matches!(observed.observation, Observation::Listed(_));
            if listed && observed.epoch == second {
                return observed.scope;
            }
        }
    };
    let listed = timeout(SOON, listed).await.unwrap();
    assert_eq!(*listed, maps);

    // What was stopped on purpose is no news.
    let quiet = timeout(Duration::from_millis(200), supervisor.broken());
    assert!(quiet.await.is_err());
    drop(rx);
    author.create("two").await;
    let error = timeout(SOON, supervisor.broken()).await.unwrap();
    assert!(
        matches!(error, SupervisorError::ConsumerGone { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn only_so_many_lists_run_at_once() {
    let (proxy, config, author, namespace) = behind_a_proxy("turns");
    author.create("one").await;
    proxy.fault("/configmaps", Fault::Hang, 1);
    let (tx, mut rx) = mpsc::channel(100);
    let settings = WatchSettings {
        concurrent_lists: 1,
        ..paged()
    };
    let mut supervisor = WatchSupervisor::new(watch::client(config).unwrap(), settings, tx);
    let maps = config_maps(&namespace);
    let secrets = scope(("", "v1", "secrets"), "Secret", Some(&namespace));
    drop(supervisor.set_scopes(&HashSet::from([maps.clone()])));
    let first = timeout(SOON, rx.recv()).await.unwrap().unwrap();
    assert_eq!(first.observation, Observation::ListStarted);
    drop(supervisor.set_scopes(&HashSet::from([maps, secrets.clone()])));
    let waiting = timeout(Duration::from_millis(500), rx.recv());
    assert!(waiting.await.is_err(), "the second list did not wait");
    proxy.heal();
    let next = async {
        loop {
            let observed = rx.recv().await.unwrap();
            if *observed.scope == secrets {
                return observed.observation;
            }
        }
    };
    let next = timeout(SOON, next).await.unwrap();
    assert_eq!(next, Observation::ListStarted);
}
