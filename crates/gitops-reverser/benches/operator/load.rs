use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt as _;

use crate::table::percentile;
use crate::world::World;

/// So many updates may be under way at once; an API server that needs more does not keep up.
const UNDER_WAY: usize = 64;
/// Every so many updates one goes to the beacon, whose file tells how far the branch has come.
const BEACON_EACH: usize = 16;
/// The branch has come to rest when it has not moved for so long.
const REST: Duration = Duration::from_secs(3);
/// A branch that falls behind by more than this within a run falls further and further behind.
const GROWTH: Duration = Duration::from_millis(500);

/// What a load did to the branch.
pub(crate) struct Run {
    pub(crate) updates: usize,
    /// Updates a second that the API server answered.
    pub(crate) rate: f64,
    /// From the last answer to a branch that holds everything.
    pub(crate) lag: Duration,
    /// How old the oldest update was that the branch lacked, for each commit of the run.
    pub(crate) behind: Vec<Duration>,
}

impl Run {
    pub(crate) fn api_kept_up(&self, rate: usize) -> bool {
        self.rate > rate as f64 * 0.95
    }

    pub(crate) fn behind_at_first(&self) -> Duration {
        median(&self.behind[..self.behind.len().div_ceil(3)])
    }

    pub(crate) fn behind_at_last(&self) -> Duration {
        median(&self.behind[self.behind.len() - self.behind.len().div_ceil(3)..])
    }

    pub(crate) fn falls_behind(&self) -> bool {
        self.behind_at_last() > self.behind_at_first() + GROWTH
    }
}

fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort();
    percentile(&sorted, 50)
}

/// Updates ConfigMaps, one after the other, at a rate, for a time.
pub(crate) fn run(world: &World, rate: usize, time: Duration) -> Run {
    // So that every run changes every object it touches.
    let run = fastrand::u32(..);
    let ending = AtomicBool::new(false);
    let (answered, beacons, tips) = std::thread::scope(|scope| {
        let watching = scope.spawn(|| watch_tips(world, &ending));
        let (answered, beacons) = world.runtime.block_on(update(world, run, rate, time));
        ending.store(true, Ordering::SeqCst);
        (answered, beacons, watching.join().unwrap())
    });
    let Answers {
        updates,
        first,
        last,
    } = answered;
    // The first commit whose tree is the last one's holds everything.
    let tree = |tip: &str| {
        world
            .repository
            .git(&["rev-parse", &format!("{tip}^{{tree}}")])
    };
    let trees: Vec<String> = tips.iter().map(|(_, tip)| tree(tip)).collect();
    let complete = trees.iter().position(|tree| Some(tree) == trees.last());
    let lag = complete.map_or(Duration::ZERO, |at| {
        tips[at].0.saturating_duration_since(last)
    });
    let behind = tips
        .iter()
        .skip(1)
        .filter(|(seen, _)| *seen <= last)
        .map(|(seen, tip)| behind(world, run, *seen, tip, &beacons))
        .collect();
    Run {
        updates,
        rate: updates as f64 / (last - first).as_secs_f64(),
        lag,
        behind,
    }
}

struct Answers {
    updates: usize,
    first: Instant,
    last: Instant,
}

/// Sends updates as a clock says, and notes when those of the beacon were answered.
async fn update(world: &World, run: u32, rate: usize, time: Duration) -> (Answers, Vec<Instant>) {
    let updates = (rate as f64 * time.as_secs_f64()) as usize;
    let beacon = world.config_maps().next().unwrap();
    let others: Vec<usize> = world.config_maps().skip(1).collect();
    let permits = Arc::new(tokio::sync::Semaphore::new(UNDER_WAY));
    let first = Instant::now();
    let lighting = async {
        // One after the other, so that a later number means a later answer.
        let mut beacons = Vec::new();
        for number in 0..updates / BEACON_EACH {
            tokio::time::sleep_until(due(first, number * BEACON_EACH, rate).into()).await;
            let value = format!("beacon {run} {number}");
            world.change(beacon, &value).await;
            beacons.push(Instant::now());
        }
        beacons
    };
    let sending = async {
        let mut tasks = tokio::task::JoinSet::new();
        for number in (0..updates).filter(|number| number % BEACON_EACH != 0) {
            tokio::time::sleep_until(due(first, number, rate).into()).await;
            let permit = permits.clone().acquire_owned().await.unwrap();
            let index = others[number % others.len()];
            let change = world.change(index, &format!("{run} {number}"));
            tasks.spawn(async move {
                change.await;
                drop(permit);
            });
        }
        tasks.join_all().await.len()
    };
    let (beacons, others) = tokio::join!(lighting, sending);
    let answers = Answers {
        updates: others + beacons.len(),
        first,
        last: Instant::now(),
    };
    (answers, beacons)
}

fn due(first: Instant, number: usize, rate: usize) -> Instant {
    first + Duration::from_secs_f64(number as f64 / rate as f64)
}

/// How many updates a second the API server takes while nothing but one raw watch is attached.
pub(crate) fn capacity(world: &World, time: Duration) -> f64 {
    let run = fastrand::u32(..);
    world.runtime.block_on(async {
        let watching = tokio::spawn(world.watch_config_maps());
        let first = Instant::now();
        let mut indices = world.config_maps().cycle();
        let requests = std::iter::from_fn(|| {
            let index = indices.next().filter(|_| first.elapsed() < time)?;
            Some(world.change(index, &format!("capacity {run} {}", fastrand::u32(..))))
        });
        let answered = futures::stream::iter(requests)
            .buffer_unordered(UNDER_WAY)
            .count()
            .await;
        let rate = answered as f64 / first.elapsed().as_secs_f64();
        watching.abort();
        rate
    })
}

/// Every place where the branch stands, until it has come to rest.
fn watch_tips(world: &World, ending: &AtomicBool) -> Vec<(Instant, String)> {
    let mut tips = vec![(Instant::now(), world.tip().unwrap())];
    let mut moved = Instant::now();
    loop {
        let tip = world.tip().unwrap();
        if tips.last().is_some_and(|(_, last)| *last != tip) {
            moved = Instant::now();
            tips.push((moved, tip));
        }
        if ending.load(Ordering::SeqCst) {
            if moved.elapsed() > REST {
                return tips;
            }
        } else {
            moved = Instant::now();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// How old the oldest update of the beacon was that a commit lacked when it came.
fn behind(world: &World, run: u32, seen: Instant, tip: &str, beacons: &[Instant]) -> Duration {
    let file = world.file_of(world.config_maps().next().unwrap());
    let text = world.repository.git(&["show", &format!("{tip}:{file}")]);
    let beacon = format!("value: beacon {run} ");
    let there = text
        .lines()
        .find_map(|line| line.trim().strip_prefix(&beacon));
    let next = there
        .and_then(|number| number.parse::<usize>().ok())
        .map_or(0, |there| there + 1);
    beacons.get(next).map_or(Duration::ZERO, |answered| {
        seen.saturating_duration_since(*answered)
    })
}
