//! Replicas are replaced one after the other while people work, as a Deployment does it.

use std::time::{Duration, Instant};

use reverser_testkit::redis_server::{Protection, RedisServer};

use super::front::Selects;
use super::leader::{more_changes, next_commit, settle};
use super::load::{Load, Work};
use super::stage::Stage;

/// Five changes a second.
const EVERY: Duration = Duration::from_millis(200);
/// Between the replacements of two replicas; one that takes as long as people say by
/// `REVERSER_ROLLING_SECONDS` for all of it shows the shares that are promised.
const CHANGES_BETWEEN: usize = 30;

/// Replaces three replicas; tells the share of changes that have their author, and whether it took
/// as long as promises are made for.
fn roll(name: &str, selects: Selects, flags: &[&str]) -> (usize, bool) {
    let seconds = std::env::var("REVERSER_ROLLING_SECONDS").ok();
    let whole = seconds.map(|seconds| Duration::from_secs(seconds.parse().unwrap()));
    let mut stage = Stage::with_webhook(name, selects);
    for _ in 0..3 {
        stage.add_with(None, flags);
    }
    stage.await_leader(&[0, 1, 2]);
    stage.await_asked();
    let load = Load::start(&stage, EVERY, Work::Changes);
    next_commit(&stage);
    let start = Instant::now();
    let mut hand_overs = 0;
    for old in 0..3_u32 {
        let new = stage.add_with(None, flags);
        stage.await_ready(new);
        let old_leads = stage.holder() == Some(old as usize);
        stage.replicas[old as usize].stop().unwrap();
        let rest: Vec<usize> = (old as usize + 1..=new).collect();
        let (_, took) = stage.await_leader(&rest);
        if old_leads {
            hand_overs += 1;
            println!("{name}: handed over within {took:?}");
        }
        next_commit(&stage);
        more_changes(&load, CHANGES_BETWEEN);
        if let Some(whole) = whole {
            let left = (whole * (old + 1) / 3).saturating_sub(start.elapsed());
            std::thread::sleep(left);
        }
    }
    let what = format!("{name}: three replicas replaced, {hand_overs} hand-overs");
    let account = settle(&stage, load, &what);
    (account.share(), whole.is_some())
}

#[test]
fn no_change_is_lost_and_few_authors_when_replicas_are_replaced_one_by_one() {
    let (share, whole) = roll("rolling", Selects::Leader, &[]);
    // A hand-over costs the authors of a second or two, and on a busy machine of more: in a short
    // run that may be most of them.
    let promised = if whole { 95 } else { 1 };
    assert!(share >= promised, "{share} %");
}

#[test]
fn no_change_and_hardly_an_author_is_lost_where_replicas_share_what_they_hear() {
    let redis = RedisServer::start(Protection::None);
    let store = format!("--attribution-store={}", redis.url());
    let (share, whole) = roll("rolling-shared", Selects::Everyone, &[&store]);
    let promised = if whole { 99 } else { 10 };
    assert!(share >= promised, "{share} %");
}
