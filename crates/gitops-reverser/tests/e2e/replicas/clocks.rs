//! Clocks that jump while replicas run.

use std::time::{SystemTime, UNIX_EPOCH};

use super::front::Selects;
use super::history;
use super::leader::{begin, more_changes, next_commit, settle};
use super::stage::{Peculiarity, Stage};

/// In seconds.
const HOUR: i64 = 3_600;
/// An hour is what somebody set it to, give or take.
const ABOUT: i64 = 900;

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_secs()).unwrap()
}

#[test]
fn a_clock_that_jumps_by_an_hour_costs_nobody_the_lead_and_nothing_else() {
    let mut stage = Stage::with_webhook("clocks", Selects::Leader);
    let mut clocks = Vec::new();
    for _ in 0..3 {
        let clock = stage.clock();
        stage.add_with(&Peculiarity {
            clock: Some(&clock),
            ..Peculiarity::default()
        });
        clocks.push(clock);
    }
    let mut replicas = vec![0, 1, 2];
    let (mut leader, load) = begin(&stage, &replicas);
    for left in [3, 2] {
        // The leader's, there and back again; then those of all others.
        for offset in [HOUR, -HOUR] {
            clocks[leader].set(offset);
            next_commit(&stage);
            more_changes(&load, 10);
            next_commit(&stage);
            let written = history::read(&stage);
            let wrong_by = |time: i64| (time - now() - offset).abs();
            let jumped = written.iter().any(|one| wrong_by(one.time) < ABOUT);
            assert!(jumped, "nothing was written an hour off");
        }
        for (replica, clock) in clocks.iter().enumerate() {
            if replica != leader {
                clock.set(HOUR);
            }
        }
        more_changes(&load, 10);
        assert_eq!(stage.holder(), Some(leader), "no clock is anybody's lease");
        // Its successor's clock says that it is two hours later.
        stage.replicas[leader].stop().unwrap();
        replicas.retain(|replica| *replica != leader);
        let took;
        (leader, took) = stage.await_leader(&replicas);
        println!("clocks two hours apart, {left} replicas: handed over within {took:?}");
        next_commit(&stage);
    }
    settle(&stage, load, "clocks that jump by an hour");
}
