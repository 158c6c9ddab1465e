//! Two installations of two replicas each, a repository and an API server, as a model: the claims are
//! the real ones, time and network are not. Processes stop for as long as they like between any two
//! steps, requests and answers are late or lost, wall clocks jump, and in every second schedule
//! somebody deletes leases.
//!
//! ## What must hold
//! - Whatever was pushed stays in the history, and no commit changes the folder of another.
//! - What a folder says never becomes older, although each replica knows the cluster only as of when
//!   it last heard of it. Where leases are deleted, two may lead for a moment; then it may become older,
//!   until the next push.

use std::time::Duration;

use super::boot_time::BootTime;
use super::claim::{Claim, Document, Move};

const LENGTH: u64 = 1_500;
const RENEW: u64 = 500;
const LOOK: u64 = 250;
/// A client that waits longer for an answer takes it for lost.
const DEADLINE: u64 = 375;
const SCHEDULES: u64 = 10_000;
const SIMULATED: u64 = 5_000;

/// How a writer is ordered.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    FetchThenCheck,
    CheckThenFetch,
}

/// The Leases of the API server: those of two leaders, and that of the branch.
#[derive(Default)]
struct Slots([Slot; 3]);

#[derive(Default)]
struct Slot {
    version: u64,
    document: Option<Document>,
}

const BRANCH: usize = 2;

/// What a branch's tip holds: of each installation, as of when it knew the cluster.
#[derive(Clone, Copy, Default)]
struct Tip {
    commit: u64,
    folders: [u64; 2],
}

enum Request {
    Take,
    Ask,
    Yield,
}

enum KeeperStep {
    Look,
    Read,
    Answered(Option<(u64, Option<Document>)>),
    Write(Request, u64, BootTime),
    Confirmed(Option<Document>, BootTime),
}

enum WriterStep {
    Idle,
    Fetched(Tip),
    Checked(Tip),
    Pushed(Tip, u64),
}

struct Replica {
    installation: usize,
    /// Its clock began at another time than those of others.
    offset: u64,
    lives: u64,
    claims: [Claim; 2],
    keepers: [(u64, KeeperStep); 2],
    writer: (u64, WriterStep),
    /// The cluster as it is known; nothing before the first list.
    seen: Option<u64>,
    known_tip: Option<Tip>,
}

struct World {
    random: fastrand::Rng,
    order: Order,
    deletes_leases: bool,
    now: u64,
    slots: Slots,
    tip: Tip,
    /// The tips that there were, in order.
    history: Vec<u64>,
    pushed: [u64; 2],
    /// What the folder of an installation was set back to.
    gone_back: Option<(u64, u64)>,
}

fn replica(installation: usize, number: u64, random: &mut fastrand::Rng) -> Replica {
    let length = Duration::from_millis(LENGTH);
    let start = random.u64(..500);
    Replica {
        installation,
        offset: random.u64(..1_000_000),
        lives: 0,
        claims: [
            Claim::new(format!("replica-{number}"), length, false),
            Claim::new(format!("installation-{installation}"), length, true),
        ],
        keepers: [(start, KeeperStep::Look), (start, KeeperStep::Look)],
        writer: (start, WriterStep::Idle),
        seen: None,
        known_tip: None,
    }
}

impl World {
    fn run(seed: u64, order: Order) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut replicas: Vec<Replica> = (0..4)
            .map(|number| replica(usize::from(number >= 2), number, &mut random))
            .collect();
        let mut world = Self {
            random,
            order,
            deletes_leases: seed % 2 == 1,
            now: 0,
            slots: Slots::default(),
            tip: Tip::default(),
            history: vec![0],
            pushed: [0; 2],
            gone_back: None,
        };
        while world.now < SIMULATED {
            let (at, who, actor) = next(&replicas);
            world.now = world.now.max(at);
            if world.deletes_leases && world.random.u32(..1_000) == 0 {
                let slot = world.random.usize(..3);
                let slot = &mut world.slots.0[slot];
                slot.document = None;
                slot.version += 1;
            }
            let replica = &mut replicas[who];
            // A process that stops stops as a whole, wherever it is.
            if world.random.u32(..200) == 0 {
                let stopped = world.random.u64(..3 * LENGTH);
                for keeper in &mut replica.keepers {
                    keeper.0 = keeper.0.max(world.now) + stopped;
                }
                replica.writer.0 = replica.writer.0.max(world.now) + stopped;
                continue;
            }
            match actor {
                2 => world.write(replica),
                keeper => world.keep(replica, keeper),
            }
        }
        world
    }

    /// How the cluster is called now: its state only grows.
    fn cluster(&self) -> u64 {
        self.now / 150 + 1
    }

    fn delay(&mut self) -> u64 {
        if self.random.u32(..20) == 0 {
            self.random.u64(..2 * DEADLINE)
        } else {
            self.random.u64(1..40)
        }
    }

    fn keep(&mut self, replica: &mut Replica, which: usize) {
        let slot = if which == 0 {
            replica.installation
        } else {
            BRANCH
        };
        let clock = replica.clock(self.now);
        let lost = self.random.u32(..30) == 0;
        let step = std::mem::replace(&mut replica.keepers[which].1, KeeperStep::Look);
        let claim = &mut replica.claims[which];
        let (wait, next) = match step {
            KeeperStep::Look => (self.delay(), KeeperStep::Read),
            KeeperStep::Read => {
                let Slot { version, document } = &self.slots.0[slot];
                let answer = (!lost).then(|| (*version, document.clone()));
                (self.delay(), KeeperStep::Answered(answer))
            }
            KeeperStep::Answered(None) => (LOOK, KeeperStep::Look),
            KeeperStep::Answered(Some((version, document))) => {
                let leads = which == 0 || replica.seen.is_some();
                let writing = matches!(replica.writer.1, WriterStep::Checked(_));
                let request = match claim.decide(document, leads, writing, clock) {
                    Move::Create | Move::Take => Some(Request::Take),
                    Move::Ask => Some(Request::Ask),
                    Move::Yield => {
                        claim.let_go();
                        Some(Request::Yield)
                    }
                    Move::Wait => None,
                };
                match request {
                    Some(request) => (self.delay(), KeeperStep::Write(request, version, clock)),
                    None => (LOOK, KeeperStep::Look),
                }
            }
            KeeperStep::Write(request, version, begun) => {
                let written = self.write_lease(slot, version, &request, claim.identity());
                let taken = matches!(request, Request::Take) && !lost;
                let answer = self.delay();
                let in_time = answer < DEADLINE;
                let document = written.filter(|_| taken && in_time);
                (answer, KeeperStep::Confirmed(document, begun))
            }
            KeeperStep::Confirmed(document, begun) => {
                if let Some(document) = document {
                    claim.taken(document, begun);
                }
                (RENEW.min(LOOK + self.random.u64(..LOOK)), KeeperStep::Look)
            }
        };
        replica.keepers[which] = (self.now + wait, next);
    }

    fn write_lease(
        &mut self,
        slot: usize,
        version: u64,
        request: &Request,
        identity: &str,
    ) -> Option<Document> {
        // Wall clocks jump by hours: it is only text.
        let wall = self.now + self.random.u64(..7_200_000);
        let Slot {
            version: current,
            document,
        } = &mut self.slots.0[slot];
        if *current != version {
            return None;
        }
        *current += 1;
        let old = document.clone();
        let wanted_by = old.as_ref().and_then(|old| old.wanted_by.clone());
        let renewal = format!("{wall} {current}");
        let length = Some(Duration::from_millis(LENGTH));
        *document = Some(match request {
            Request::Take => Document {
                renewal,
                wanted_by: wanted_by.filter(|_| {
                    let holder = old.as_ref().and_then(|old| old.holder.as_deref());
                    holder == Some(identity)
                }),
                holder: Some(identity.to_owned()),
                length,
            },
            Request::Yield => Document {
                renewal,
                holder: None,
                length,
                wanted_by,
            },
            Request::Ask => Document {
                wanted_by: Some(identity.to_owned()),
                ..old?
            },
        });
        document.clone()
    }

    fn write(&mut self, replica: &mut Replica) {
        let step = std::mem::replace(&mut replica.writer.1, WriterStep::Idle);
        let may_write = replica.may_write(self.now);
        let leads = replica.claims[0]
            .held_until(replica.clock(self.now))
            .is_some();
        let check_first = self.order == Order::CheckThenFetch;
        let (wait, next) = match step {
            WriterStep::Idle if !leads => {
                // Whoever has lost leadership ends, and starts again as another.
                if replica.seen.take().is_some() {
                    replica.lives += 1;
                    let identity = format!("{}+{}", replica.claims[0].identity(), replica.lives);
                    let length = Duration::from_millis(LENGTH);
                    replica.claims[0] = Claim::new(identity, length, false);
                    replica.known_tip = None;
                }
                (300, WriterStep::Idle)
            }
            WriterStep::Idle if check_first && !may_write && replica.seen.is_some() => {
                (150, WriterStep::Idle)
            }
            WriterStep::Idle => {
                // A list is fresh; events come with a lag.
                let cluster = self.cluster();
                let known = replica.seen.unwrap_or(cluster);
                replica.seen = Some(self.random.u64(known..=cluster));
                let tip = match replica.known_tip {
                    Some(tip) if self.random.bool() => tip,
                    _ => self.tip,
                };
                (self.delay(), WriterStep::Fetched(tip))
            }
            WriterStep::Fetched(_) if !may_write && !check_first => {
                replica.known_tip = None;
                (150, WriterStep::Idle)
            }
            WriterStep::Fetched(tip) => (self.random.u64(1..20), WriterStep::Checked(tip)),
            WriterStep::Checked(tip) => {
                let seen = replica.seen.unwrap_or_default();
                if tip.folders[replica.installation] == seen {
                    (150, WriterStep::Idle)
                } else {
                    (self.delay(), WriterStep::Pushed(tip, seen))
                }
            }
            WriterStep::Pushed(stated, seen) => {
                replica.known_tip = self.push(replica.installation, stated, seen);
                (150, WriterStep::Idle)
            }
        };
        replica.writer = (self.now + wait, next);
    }

    /// The Git server: takes what was built on its tip, and nothing else.
    fn push(&mut self, installation: usize, stated: Tip, seen: u64) -> Option<Tip> {
        if stated.commit != self.tip.commit {
            return None;
        }
        let before = self.tip.folders;
        let mut folders = stated.folders;
        folders[installation] = seen;
        let other = 1 - installation;
        assert_eq!(
            folders[other], before[other],
            "another's folder was changed"
        );
        if seen < before[installation] {
            self.gone_back = Some((before[installation], seen));
        }
        self.tip = Tip {
            commit: stated.commit + 1,
            folders,
        };
        assert_eq!(
            self.history.last(),
            Some(&stated.commit),
            "a commit was lost"
        );
        self.history.push(self.tip.commit);
        self.pushed[installation] += 1;
        Some(self.tip)
    }
}

impl Replica {
    fn clock(&self, now: u64) -> BootTime {
        BootTime::after_start(Duration::from_millis(now + self.offset))
    }

    fn may_write(&self, now: u64) -> bool {
        let clock = self.clock(now);
        self.claims
            .iter()
            .all(|claim| claim.held_until(clock).is_some())
    }
}

/// Who acts next, and with which hand.
fn next(replicas: &[Replica]) -> (u64, usize, usize) {
    let all = replicas.iter().enumerate().flat_map(|(who, replica)| {
        let [(leader, _), (branch, _)] = &replica.keepers;
        [
            (*leader, who, 0),
            (*branch, who, 1),
            (replica.writer.0, who, 2),
        ]
    });
    all.min().expect("there are replicas")
}

#[test]
fn in_ten_thousand_schedules_nothing_is_lost_and_nothing_goes_back() {
    let check = |seed| {
        let world = World::run(seed, Order::FetchThenCheck);
        if !world.deletes_leases {
            assert_eq!(world.gone_back, None, "seed {seed}");
        }
        world.pushed
    };
    let half = |from: u64| {
        let pushed = (from..SCHEDULES).step_by(2).map(check);
        pushed.fold([0; 2], |all, [one, other]| [all[0] + one, all[1] + other])
    };
    let pushed = std::thread::scope(|scope| {
        let odd = scope.spawn(|| half(1));
        let even = half(0);
        let odd = odd.join().expect("what must hold holds");
        [even[0] + odd[0], even[1] + odd[1]]
    });
    // A model in which nobody writes would prove nothing.
    assert!(
        pushed.iter().all(|pushes| *pushes > SCHEDULES / 2),
        "{pushed:?}"
    );
}

#[test]
fn the_model_would_notice_a_check_before_the_fetch() {
    let mut noticed = (0..SCHEDULES).filter(|seed| {
        let world = World::run(*seed, Order::CheckThenFetch);
        world.gone_back.is_some()
    });
    assert!(noticed.next().is_some());
}
