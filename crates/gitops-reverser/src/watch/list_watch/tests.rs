//! The driver against a server that is played by the test, in time that passes at once.

use std::io;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::channel::{Channel, Sender};
use kube::client::Body;
use reverser_core::object_key::TypeKey;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;

const EMPTY_PAGE: &str =
    r#"{"kind":"ThingList","apiVersion":"a.b/v1","metadata":{"resourceVersion":"100"},"items":[]}"#;

type Answer = Response<Channel<Bytes, io::Error>>;

/// A request that waits for its answer.
struct Question {
    url: String,
    reply: oneshot::Sender<Answer>,
    asked: Instant,
}

impl Question {
    /// The value of a part of the query.
    fn value(&self, name: &str) -> Option<&str> {
        let query = self.url.split_once('?').unwrap().1;
        query.split('&').find_map(|part| {
            let (key, value) = part.split_once('=')?;
            (key == name).then_some(value)
        })
    }

    /// Answers with a status and a body that is not over yet.
    fn answer(self, status: u16, headers: &[(&str, &str)]) -> Stream {
        let (sender, body) = Channel::new(16);
        let mut answer = Response::builder().status(status);
        for (name, value) in headers {
            answer = answer.header(*name, *value);
        }
        // A client that does not wait any more does not get it.
        drop(self.reply.send(answer.body(body).unwrap()));
        Stream(sender)
    }

    async fn answer_whole(self, status: u16, body: &str) {
        self.answer(status, &[]).send(body).await;
    }

    fn stream(self) -> Stream {
        self.answer(200, &[])
    }
}

/// A body that is not over yet. Dropped, it ends in order.
struct Stream(Sender<Bytes, io::Error>);

impl Stream {
    async fn send(&mut self, text: &str) {
        drop(self.0.send_data(Bytes::from(text.to_owned())).await);
    }

    async fn event(&mut self, kind: &str, name: &str, version: u32) {
        let event = format!(
            r#"{{"type":"{kind}","object":{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}}}"#
        );
        self.send(&(event + "\n")).await;
    }

    async fn bookmark(&mut self, version: u32) {
        self.event("BOOKMARK", "", version).await;
    }

    async fn initial_events_end(&mut self, version: u32) {
        let event = format!(
            r#"{{"type":"BOOKMARK","object":{{"metadata":{{"resourceVersion":"{version}","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}}}"#
        );
        self.send(&(event + "\n")).await;
    }
}

/// A driver, what it asks and what it tells.
struct Stage {
    questions: mpsc::Receiver<Question>,
    told: mpsc::Receiver<Observed>,
    _driver: JoinHandle<()>,
}

impl Stage {
    fn set(settings: WatchSettings) -> Self {
        let (ask, questions) = mpsc::channel(16);
        let service = tower::service_fn(move |request: Request<Body>| {
            let ask = ask.clone();
            async move {
                let (reply, answer) = oneshot::channel();
                let question = Question {
                    url: request.uri().to_string(),
                    reply,
                    asked: Instant::now(),
                };
                ask.send(question).await.map_err(io::Error::other)?;
                answer.await.map_err(io::Error::other)
            }
        });
        let (tx, told) = mpsc::channel(1);
        let scope = Scope {
            type_key: TypeKey::new("a.b", "v1", "things").unwrap(),
            kind: "Thing".to_owned(),
            namespace: None,
        };
        let driver = drive(Assignment {
            client: kube::Client::new(service, "default"),
            lists: Arc::new(Semaphore::new(1)),
            settings: Arc::new(settings),
            scope: Arc::new(scope),
            epoch: 1,
            tx,
        });
        Self {
            questions,
            told,
            _driver: tokio::spawn(driver),
        }
    }

    fn paged() -> Self {
        Self::set(WatchSettings {
            streaming_lists: false,
            ..WatchSettings::default()
        })
    }

    /// The next request; what is told meanwhile must be taken before.
    async fn asked(&mut self) -> Question {
        let question = timeout(Duration::from_hours(1), self.questions.recv());
        question.await.expect("a request").unwrap()
    }

    /// The next observation, in short.
    async fn told(&mut self) -> String {
        let observed = timeout(Duration::from_hours(1), self.told.recv());
        let name = |object: &str| {
            let object: serde_json::Value = serde_json::from_str(object).unwrap();
            object["metadata"]["name"].as_str().unwrap().to_owned()
        };
        match observed.await.expect("an observation").unwrap().observation {
            Observation::ListStarted => "list".to_owned(),
            Observation::Seen {
                object,
                live,
                added,
            } => format!("seen {} {live} {added}", name(&object)),
            Observation::Gone { object } => format!("gone {}", name(&object)),
            Observation::Undecodable { .. } => "undecodable".to_owned(),
            Observation::Listed(outcome) => format!("{outcome:?}"),
            Observation::Lost { reason, .. } => format!("lost {}", reason.category()),
        }
    }

    /// An empty list; gives the request for the watch that follows.
    async fn list_nothing(&mut self) -> Question {
        assert_eq!(self.told().await, "list");
        let page = self.asked().await;
        assert_eq!(page.url, "/apis/a.b/v1/things?limit=500");
        page.answer_whole(200, EMPTY_PAGE).await;
        assert_eq!(self.told().await, "Complete");
        let watch = self.asked().await;
        assert_eq!(watch.value("resourceVersion"), Some("100"));
        watch
    }
}

fn seconds_since(start: Instant) -> f64 {
    start.elapsed().as_secs_f64()
}

#[tokio::test(start_paused = true)]
async fn a_watch_asks_for_about_290_seconds_and_is_ended_soon_after() {
    let mut stage = Stage::paged();
    let watch = stage.list_nothing().await;
    assert_eq!(watch.value("allowWatchBookmarks"), Some("true"));
    assert!(!watch.url.contains("elector"), "{}", watch.url);
    let asked: u64 = watch.value("timeoutSeconds").unwrap().parse().unwrap();
    assert!((275..=305).contains(&asked), "{asked}");
    let start = watch.asked;
    let mut stream = watch.stream();
    // A server that forgets to end it.
    let bookmarks = async {
        for version in 101.. {
            tokio::time::sleep(Duration::from_mins(1)).await;
            stream.bookmark(version).await;
        }
    };
    let next = tokio::select! {
        next = stage.asked() => next,
        () = bookmarks => unreachable!(),
    };
    #[expect(clippy::cast_precision_loss, reason = "a few hundred")]
    let late = seconds_since(start) - asked as f64;
    assert!((14.0..=17.0).contains(&late), "{late}");
    // It goes on from the last bookmark.
    let from: u32 = next.value("resourceVersion").unwrap().parse().unwrap();
    assert!((104..=106).contains(&from), "{from}");
}

#[tokio::test(start_paused = true)]
async fn ninety_seconds_without_a_byte_are_too_many() {
    let mut stage = Stage::paged();
    let watch = stage.list_nothing().await;
    let mut stream = watch.stream();
    tokio::time::sleep(Duration::from_secs(80)).await;
    // Not a line, but a byte.
    stream.send(" ").await;
    let start = Instant::now();
    let again = stage.asked().await;
    let waited = seconds_since(start);
    assert!((89.9..=90.1).contains(&waited), "{waited}");
    assert_eq!(again.value("resourceVersion"), Some("100"));
}

#[tokio::test(start_paused = true)]
async fn the_next_watch_is_from_the_last_event_and_never_from_an_older_one() {
    let mut stage = Stage::paged();
    let mut stream = stage.list_nothing().await.stream();
    stream.event("ADDED", "a", 105).await;
    assert_eq!(stage.told().await, "seen a true true");
    stream.event("MODIFIED", "b", 103).await;
    assert_eq!(stage.told().await, "seen b true false");
    drop(stream);
    let again = stage.asked().await;
    assert_eq!(again.value("resourceVersion"), Some("105"));
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_versions_went_back_is_listed_again() {
    let mut stage = Stage::paged();
    let mut stream = stage.list_nothing().await.stream();
    stream.bookmark(99).await;
    assert_eq!(stage.told().await, "lost Expired");
    stage.list_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn one_bad_event_is_told_and_the_watch_goes_on() {
    let mut stage = Stage::paged();
    let mut stream = stage.list_nothing().await.stream();
    stream.send("{\"type\":\"ADDED\",\"object\":7}\n").await;
    assert_eq!(stage.told().await, "undecodable");
    stream.event("DELETED", "b", 103).await;
    assert_eq!(stage.told().await, "gone b");
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_tells_what_happens_meanwhile_and_becomes_the_watch() {
    let mut stage = Stage::set(WatchSettings::default());
    assert_eq!(stage.told().await, "list");
    let list = stage.asked().await;
    assert_eq!(list.value("sendInitialEvents"), Some("true"));
    assert_eq!(list.value("resourceVersion"), None);
    let mut stream = list.stream();
    for (kind, name, version) in [
        ("ADDED", "a", 90),
        ("ADDED", "b", 20),
        ("BOOKMARK", "", 95),
        ("MODIFIED", "a", 101),
        ("DELETED", "b", 102),
    ] {
        stream.event(kind, name, version).await;
    }
    stream.initial_events_end(103).await;
    stream.event("ADDED", "c", 104).await;
    for line in [
        "seen a false false",
        "seen b false false",
        "seen a true false",
        "gone b",
        "Complete",
        "seen c true true",
    ] {
        assert_eq!(stage.told().await, line);
    }
    drop(stream);
    let again = stage.asked().await;
    assert_eq!(again.value("resourceVersion"), Some("104"));
    assert_eq!(again.value("sendInitialEvents"), None);
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_without_an_end_is_made_in_pages() {
    let mut stage = Stage::set(WatchSettings::default());
    assert_eq!(stage.told().await, "list");
    let start = Instant::now();
    let mut stream = stage.asked().await.stream();
    // As a server does that takes the wish for a list for a wish to watch.
    let events = async {
        for version in 1.. {
            tokio::time::sleep(Duration::from_secs(5)).await;
            stream.bookmark(version).await;
        }
    };
    tokio::select! {
        line = stage.told() => assert_eq!(line, "list"),
        () = events => unreachable!(),
    }
    let waited = seconds_since(start);
    assert!((119.0..=121.0).contains(&waited), "{waited}");
    assert_eq!(stage.asked().await.url, "/apis/a.b/v1/things?limit=500");
}

#[tokio::test(start_paused = true)]
async fn whoever_takes_long_to_listen_does_not_make_a_list_fail() {
    let mut stage = Stage::set(WatchSettings::default());
    assert_eq!(stage.told().await, "list");
    let mut stream = stage.asked().await.stream();
    for number in 1..=4 {
        stream.event("ADDED", "a", number).await;
    }
    stream.initial_events_end(100).await;
    tokio::time::sleep(Duration::from_secs(200)).await;
    for _ in 0..4 {
        assert_eq!(stage.told().await, "seen a false false");
    }
    assert_eq!(stage.told().await, "Complete");
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_asked_again_when_it_says_but_not_later_than_in_30_seconds() {
    for (wish, least, most) in [("7", 7.0, 7.1), ("3600", 30.0, 30.1)] {
        let mut stage = Stage::paged();
        assert_eq!(stage.told().await, "list");
        let page = stage.asked().await;
        drop(page.answer(429, &[("Retry-After", wish)]));
        assert_eq!(stage.told().await, "lost TooManyRequests");
        let start = Instant::now();
        assert_eq!(stage.told().await, "list");
        let waited = seconds_since(start);
        assert!((least..=most).contains(&waited), "{waited}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_is_given_60_seconds_a_page() {
    let mut stage = Stage::paged();
    assert_eq!(stage.told().await, "list");
    let page = stage.asked().await;
    let start = page.asked;
    let mut stream = page.stream();
    let drip = async {
        loop {
            stream.send(" ").await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::select! {
        line = stage.told() => assert_eq!(line, "lost Timeout"),
        () = drip => unreachable!(),
    }
    let waited = seconds_since(start);
    assert!((59.9..=60.1).contains(&waited), "{waited}");
}

#[test]
fn pages_grow_to_the_wanted_size_and_never_below_the_first() {
    let settings = WatchSettings::default();
    let limit = |bytes, objects| super::limit_for(2 << 20, bytes, objects, &settings);
    assert_eq!(limit(500 << 10, 500), 2048);
    assert_eq!(limit(100_000, 500), 4000, "eight times the first");
    assert_eq!(limit(8 << 20, 500), 500);
    assert_eq!(limit(0, 0), 500);
}
