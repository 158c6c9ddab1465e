//! The running operator against its floors, on a real control plane and a real Git server.
//!
//! The operator is the program itself, in a process of its own, so that its memory and its time are
//! its own. Every figure stands beside its target, and where there is one beside a floor from the
//! same run: what the plainest program would need that does the same work.
//!
//! `cargo bench -p gitops-reverser --bench operator -- lone rate` measures only these parts;
//! `REVERSER_BENCH_OBJECTS=100000` mirrors so many objects instead of 10,000;
//! `REVERSER_BENCH_PROGRAM` names another build of the operator to be measured.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a program for people at a terminal, with rounded figures"
)]

/// What it costs to do the same with the plainest means.
mod floor;
/// Updates at a given rate, and how far the branch is behind them.
mod load;
/// The command for one person, from its start to its end.
mod mirror;
/// What is mirrored.
mod objects;
/// The operator as a process.
mod running;
/// How figures are shown.
mod table;
/// A cluster with objects, and a Git server.
mod world;

use std::time::Duration;

use self::running::{Cost, Running};
use self::table::{Table, percentile, seconds};
use self::world::World;

const OBJECTS: usize = 10_000;
const LONE_CHANGES: usize = 100;
const LAG_RATE: usize = 300;
const LAG_TIME: Duration = Duration::from_secs(20);
const RATES: [usize; 6] = [300, 500, 750, 1_000, 1_250, 1_500];
const RATE_TIME: Duration = Duration::from_secs(10);
const CAPACITY_TIME: Duration = Duration::from_secs(5);

fn main() {
    let objects = std::env::var("REVERSER_BENCH_OBJECTS");
    let objects = objects.map_or(OBJECTS, |count| count.parse().expect("a number of objects"));
    let parts: Vec<String> = std::env::args()
        .skip(1)
        .filter(|part| !part.starts_with('-'))
        .collect();
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|other| other == part);

    let title = "ConfigMaps, Services and Deployments in 20 namespaces; Git over HTTP";
    let mut table = Table::new(format!("{objects} {title}"));
    let world = World::create(objects);
    if wanted("mirror") {
        mirror::measure(&world, &mut table);
    }
    if parts == ["mirror"] {
        return;
    }
    let capacity = wanted("rate").then(|| load::capacity(&world, CAPACITY_TIME));
    let running = first_mirror(&world, &mut table);
    if wanted("lone") {
        lone_changes(&world, &mut table);
    }
    if wanted("lag") {
        lag(&world, &running, &mut table);
    }
    if let Some(capacity) = capacity {
        highest_rate(&world, capacity, &mut table);
    }
    peak(objects, &running, "peak memory", &mut table);
    running.stop();
    if wanted("restart") {
        restart(&world, objects, &mut table);
    }
    world.assert_mirrored();
}

/// From the start of the process to the branch that holds everything.
fn first_mirror(world: &World, table: &mut Table) -> Running {
    let floor = floor::first_mirror(world);
    let running = Running::start(world);
    let took = running.until_pushed(world);
    world.assert_mirrored();
    table.row(
        "first mirror, from the start of the process",
        &seconds(took),
        &format!(
            "{} (list {}, fast-import {}, push {})",
            seconds(floor.total()),
            seconds(floor.list),
            seconds(floor.import),
            seconds(floor.push)
        ),
        &table::ratio(took, floor.total(), 1.5),
    );
    running
}

/// From the API server's answer to the branch, one change at a time.
fn lone_changes(world: &World, table: &mut Table) {
    let floor = floor::pushes_of_one_change(world);
    let mut times = world.lone_changes(LONE_CHANGES);
    times.sort();
    let floor = format!("{} for git push alone", seconds(percentile(&floor, 50)));
    for (which, most) in [(50, 0.5), (99, 1.0)] {
        let time = percentile(&times, which);
        table.row(
            &format!("a lone change, p{which} of {LONE_CHANGES}"),
            &seconds(time),
            &floor,
            &table::at_most(time, most),
        );
    }
}

/// How long after the last of many updates the branch has them all.
fn lag(world: &World, running: &Running, table: &mut Table) {
    let before = running.cost();
    let run = load::run(world, LAG_RATE, LAG_TIME);
    let cost = running.cost() - before;
    table.row(
        &format!(
            "lag after {} s of {LAG_RATE} updates a second",
            LAG_TIME.as_secs()
        ),
        &seconds(run.lag),
        &format!(
            "{:.0} a second reached, {} commits",
            run.rate,
            run.behind.len()
        ),
        &table::at_most(run.lag, 1.0),
    );
    let thousands = run.updates as f64 / 1000.0;
    let Cost { own, children } = cost;
    table.row(
        "CPU for 1,000 changes",
        &format!("{:.2} s", own.as_secs_f64() / thousands),
        &format!("git {:.2} s beside it", children.as_secs_f64() / thousands),
        "",
    );
}

/// The highest rate at which the branch does not fall further and further behind.
fn highest_rate(world: &World, capacity: f64, table: &mut Table) {
    let mut held = 0;
    for rate in RATES {
        let run = load::run(world, rate, RATE_TIME);
        table.note(&format!(
            "{rate} updates a second: {:.0} reached, behind by {} at first and {} at last, lag {}",
            run.rate,
            seconds(run.behind_at_first()),
            seconds(run.behind_at_last()),
            seconds(run.lag)
        ));
        if run.falls_behind() {
            break;
        }
        if !run.api_kept_up(rate) {
            held = held.max(run.rate as usize);
            break;
        }
        held = rate;
    }
    table.row(
        "highest rate held without growing lag",
        &format!("{held} /s"),
        &format!("{capacity:.0} /s: updates that are taken with one raw watch and no operator"),
        &table::at_least(held, 1_000),
    );
}

/// From the start of the process to a destination that is known to be in sync, without a commit.
fn restart(world: &World, objects: usize, table: &mut Table) {
    let floor = floor::list(world);
    let tip = world.tip();
    let mut running = Running::start(world);
    let mut took = running.until_in_sync();
    // The best counts, as it does for the floor.
    for _ in 1..floor::ROUNDS {
        running.stop();
        running = Running::start(world);
        took = took.min(running.until_in_sync());
    }
    assert_eq!(
        world.tip(),
        tip,
        "nothing changed, and yet there is a commit"
    );
    table.row(
        "restart with nothing changed, no commit",
        &seconds(took),
        &format!("{} for the list alone", seconds(floor)),
        &table::ratio(took, floor, 1.5),
    );
    let Cost { own, children } = running.cost();
    table.row(
        "CPU for the restart",
        &seconds(own),
        &format!("git {} beside it", seconds(children)),
        "",
    );
    peak(objects, &running, "peak memory of the restart", table);
    running.stop();
}

fn peak(objects: usize, running: &Running, what: &str, table: &mut Table) {
    let most = if objects > OBJECTS { 150.0 } else { 60.0 };
    let peak = running.peak_megabytes();
    let met = if peak <= most { "met" } else { "MISSED" };
    table.row(
        what,
        &format!("{peak:.0} MB"),
        "",
        &format!("at most {most:.0} MB: {met}"),
    );
}
