//! Replicas are replaced one after the other while people work, as a Deployment does it.

use std::time::{Duration, Instant};

use reverser_testkit::redis_server::{Protection, RedisServer};

use super::front::Selects;
use super::leader::{more_changes, next_commit, settle};
use super::load::{Load, Work};
use super::stage::{Peculiarity, Stage, promises_are_held, rolling_time};

/// Five changes a second.
const EVERY: Duration = Duration::from_millis(200);
/// At least so many are made between the replacements of two replicas.
const CHANGES_BETWEEN: usize = 30;

/// Replaces three replicas; tells the share of changes that have their author.
fn roll(name: &str, selects: Selects, flags: &[&str]) -> usize {
    let whole = rolling_time();
    let mut stage = Stage::with_webhook(name, selects);
    let replica = Peculiarity {
        flags,
        ..Peculiarity::default()
    };
    for _ in 0..3 {
        stage.add_with(&replica);
    }
    stage.await_leader(&[0, 1, 2]);
    stage.await_asked();
    let load = Load::start(&stage, EVERY, Work::Changes);
    next_commit(&stage);
    let start = Instant::now();
    let mut hand_overs = 0;
    for old in 0..3_u32 {
        let new = stage.add_with(&replica);
        stage.await_ready(new);
        let (old_leads, before) = (stage.holder() == Some(old as usize), load.changes());
        stage.replicas[old as usize].stop().unwrap();
        let rest: Vec<usize> = (old as usize + 1..=new).collect();
        let (_, took) = stage.await_leader(&rest);
        if old_leads {
            hand_overs += 1;
            println!("{name}: handed over within {took:?}");
        }
        next_commit(&stage);
        stage.await_asked();
        // Where only the leader hears of changes, a hand-over costs the authors of a second or two,
        // and on a busy machine of more: what follows is twice as long, however long that was.
        let costs = old_leads && selects == Selects::Leader;
        let meanwhile = if costs { load.changes() - before } else { 0 };
        more_changes(&load, CHANGES_BETWEEN.max(2 * meanwhile));
        if let Some(whole) = whole {
            let left = (whole * (old + 1) / 3).saturating_sub(start.elapsed());
            std::thread::sleep(left);
        }
    }
    let what = format!("{name}: three replicas replaced, {hand_overs} hand-overs");
    settle(&stage, load, &what).share()
}

#[test]
fn no_change_is_lost_and_few_authors_when_replicas_are_replaced_one_by_one() {
    let share = roll("rolling", Selects::Leader, &[]);
    let promised = if promises_are_held() { 95 } else { 50 };
    assert!(share >= promised, "{share} %");
}

#[test]
fn no_change_and_hardly_an_author_is_lost_where_replicas_share_what_they_hear() {
    let redis = RedisServer::start(Protection::None);
    let store = format!("--attribution-store={}", redis.url());
    let share = roll("rolling-shared", Selects::Everyone, &[&store]);
    let promised = if promises_are_held() { 99 } else { 90 };
    assert!(share >= promised, "{share} %");
}
