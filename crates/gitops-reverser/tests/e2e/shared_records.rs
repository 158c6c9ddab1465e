//! Records that replicas share, through a real Redis that comes and goes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use gitops_reverser::attribution::shared_records::{
    LONGEST_WAIT_FOR_STORE, SharedRecords, Sharing, StoreAddress, share,
};
use gitops_reverser::attribution::{Attribution, TakeRecords as _};
use gitops_reverser::telemetry::{Telemetry, metrics};
use prometheus_client::registry::Registry;
use reverser_core::admission_record::{AdmissionRecord, AdmittedChange, FormId, Requester};
use reverser_core::attribution::StoreLimits;
use reverser_core::blob_id::BlobId;
use reverser_core::object_key::TypeKey;
use reverser_core::redaction::RedactionKey;
use reverser_testkit::redis_server::{Protection, RedisServer};
use reverser_testkit::wait;
use tokio::runtime::Runtime;

const SOON: Duration = Duration::from_mins(2);

/// A replica, and what it knows.
struct Replica {
    records: Arc<SharedRecords>,
    local: Attribution,
    registry: Registry,
    runtime: Runtime,
}

impl Replica {
    fn start(redis: &RedisServer) -> Self {
        Self::of("main", redis)
    }

    fn of(instance_id: &str, redis: &RedisServer) -> Self {
        let sharing = Sharing {
            address: StoreAddress::parse(&redis.url(), Some(redis.credentials())).unwrap(),
            instance_id: instance_id.to_owned(),
            key: Box::new(|| async { Ok(RedactionKey::new([7; 32])) }.boxed()),
            ttl: Duration::from_mins(1),
            max_entries: 10_000,
        };
        let mut registry = metrics::registry();
        let telemetry = Telemetry::register(&mut registry);
        let local = Attribution::new(StoreLimits::default(), telemetry.clone());
        let (records, run) = share(sharing, local.clone(), telemetry);
        let runtime = Runtime::new().unwrap();
        runtime.spawn(run);
        Self {
            records: Arc::new(records),
            local,
            registry,
            runtime,
        }
    }

    /// The webhook learns something, and waits as it does before it answers.
    fn learn(&self, uid: &str) {
        self.runtime.block_on(async {
            if let Some(kept) = self.records.take(record(uid)) {
                kept.wait().await;
            }
        });
    }

    #[track_caller]
    fn await_known(&self, uid: &str) {
        wait::until_blocking(format!("{uid} is known"), SOON, || self.local.knows(uid))
            .unwrap_or_else(|error| panic!("{error}; {:?}", *self.local.store_trouble().borrow()));
    }

    /// Waits until what is learnt here is known there; the store may just have come back.
    #[track_caller]
    fn await_shared_with(&self, other: &Self, what: &str) {
        let mut number = 0;
        let shared = || {
            number += 1;
            self.learn(&format!("{what} {number}"));
            (1..=number).any(|number| other.local.knows(&format!("{what} {number}")))
        };
        wait::until_blocking("records are shared", SOON, shared).unwrap();
    }

    #[track_caller]
    fn await_trouble(&self, words: &str) {
        let trouble = self.local.store_trouble();
        wait::until_blocking(format!("trouble: {words}"), SOON, || {
            let trouble = trouble.borrow().clone().unwrap_or_default();
            if trouble.contains(words) {
                Ok(())
            } else {
                Err(trouble)
            }
        })
        .unwrap_or_else(|error| panic!("{error}"));
    }

    #[track_caller]
    fn await_no_trouble(&self) {
        let trouble = self.local.store_trouble();
        let none = || trouble.borrow().clone().map_or(Ok(()), Err);
        wait::until_blocking("the store works", SOON, none)
            .unwrap_or_else(|error| panic!("{error}"));
    }

    fn scrape(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }
}

fn record(uid: &str) -> AdmissionRecord {
    let new = FormId {
        blob: BlobId::of(b"content"),
        managers: None,
    };
    record_of(uid, AdmittedChange::Create { new })
}

fn deletion(uid: &str) -> AdmissionRecord {
    let version = "1".to_owned();
    record_of(uid, AdmittedChange::Delete { version })
}

fn record_of(uid: &str, change: AdmittedChange) -> AdmissionRecord {
    AdmissionRecord {
        type_key: TypeKey::new("", "v1", "configmaps").unwrap(),
        namespace: Some("shop".to_owned()),
        name: "the-name-of-an-object".to_owned(),
        uid: uid.to_owned(),
        change,
        user: Requester::new("alice"),
    }
}

#[test]
fn what_one_replica_learns_all_know_also_one_that_starts_later() {
    for protection in [
        Protection::None,
        Protection::Password,
        Protection::UserAndTls,
    ] {
        let redis = RedisServer::start(protection);
        let first = Replica::start(&redis);
        first.learn("a");
        assert!(first.local.knows("a"), "what it learns itself it knows");
        let second = Replica::start(&redis);
        second.await_known("a");
        second.learn("b");
        first.await_known("b");
        first.await_no_trouble();
        // Another installation may use the same Redis.
        let other = Replica::of("other", &redis);
        other.learn("c");
        other.await_no_trouble();
        first.await_shared_with(&second, "more");
        assert!(!first.local.knows("c") && !other.local.knows("a"));
    }
}

/// How often a question has to wait for the store in vain, of many.
fn waits_in_vain(replica: &Replica, what: &str) -> usize {
    let mut waits = 0;
    for number in 0..5_000 {
        let start = Instant::now();
        replica.learn(&format!("{what} {number}"));
        waits += usize::from(start.elapsed() >= LONGEST_WAIT_FOR_STORE);
    }
    waits
}

#[test]
fn a_store_that_is_down_or_hangs_or_is_full_makes_nobody_wait_and_is_used_again_when_it_is_back() {
    let redis = RedisServer::start(Protection::None);
    let first = Replica::start(&redis);
    let second = Replica::start(&redis);
    first.await_shared_with(&second, "before");

    redis.process().pause().unwrap();
    let waits = waits_in_vain(&first, "hangs");
    assert!(waits < 500, "{waits} of 5000 questions waited");
    first.await_trouble("it does not answer in time");
    redis.process().resume().unwrap();
    first.await_shared_with(&second, "after the pause");
    first.await_no_trouble();

    let _ = first.records.take(deletion("before it is down"));
    assert!(first.local.knows("before it is down"));
    redis.process().kill().unwrap();
    let waits = waits_in_vain(&first, "down");
    assert!(waits < 500, "{waits} of 5000 questions waited");
    first.await_trouble("refused");
    second.await_trouble("refused");
    // Of deletions nobody can tell which came true, if others are not heard.
    let _ = first.records.take(deletion("while it is down"));
    for uid in ["before it is down", "while it is down"] {
        assert!(!first.local.knows(uid), "{uid}");
    }
    redis.start_again();
    first.await_shared_with(&second, "after the restart");
    first.await_no_trouble();

    redis.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    first.learn("full");
    first.await_trouble("OOM");
    assert!(first.local.knows("full"), "its own it knows");
    redis.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    first.await_shared_with(&second, "after there was no room");
    first.await_no_trouble();

    let scrape = first.scrape();
    let none = "gitopsreverser_attribution_store_errors_total 0\n";
    assert!(!scrape.contains(none), "{scrape}");
    let none = "gitopsreverser_attribution_store_dropped_total 0\n";
    assert!(
        !scrape.contains(none),
        "5000 are more than can wait: {scrape}"
    );
}

#[test]
fn what_the_store_holds_tells_nothing_and_what_others_put_there_names_nobody() {
    let redis = RedisServer::start(Protection::None);
    let first = Replica::start(&redis);
    let second = Replica::start(&redis);
    first.await_shared_with(&second, "shared");
    let stream = "gitops-reverser:records:main";
    let held = redis.ask(&["XRANGE", stream, "-", "+"]);
    for word in [
        "alice",
        "shop",
        "the-name-of-an-object",
        "shared",
        "configmaps",
    ] {
        assert!(!held.contains(word), "{word} is in\n{held}");
    }
    let forged = serde_json::to_string(&record("forged")).unwrap();
    redis.ask(&["XADD", stream, "*", "p", "somebody", "r", &forged]);
    redis.ask(&["XADD", stream, "*", "nonsense", "1"]);
    first.await_shared_with(&second, "after that");
    assert!(!second.local.knows("forged"));
    assert!(redis.ask(&["PTTL", stream]).trim().parse::<i64>().unwrap() > 0);
}

#[test]
fn a_password_that_is_wrong_is_told_without_it_and_a_right_one_is_used_at_once() {
    let redis = RedisServer::start(Protection::Password);
    let file = redis.credentials().join("password");
    std::fs::write(&file, "hunter2").unwrap();
    let replica = Replica::start(&redis);
    replica.await_trouble("it does not let us in (WRONGPASS)");
    let trouble = replica.local.store_trouble().borrow().clone().unwrap();
    assert!(!trouble.contains("hunter2"), "{trouble}");
    std::fs::write(&file, RedisServer::PASSWORD).unwrap();
    replica.await_no_trouble();
}
