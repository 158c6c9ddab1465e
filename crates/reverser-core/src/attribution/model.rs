//! A small API server that tells admission and the watch what it does, in every disorder that there
//! is: never a wrong name.

use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::tests::{form, record};
use super::*;
use crate::admission_record::FormId;

const USERS: [&str; 4] = ["alice", "bob", "carol", "dave"];

/// What becomes of one attempt.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Accepted,
    /// By a quota, another webhook, a validation: admission was asked, nothing is stored.
    Refused,
    /// It was made from an older state.
    Conflict,
}

/// What becomes of its record.
#[derive(Clone, Copy, Debug)]
enum Delivery {
    AtOnce,
    /// After so many other events.
    Late(u8),
    Lost,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Update,
    /// With the same content as the attempt before, by whoever.
    Copy,
    NoOp,
    Scale,
    Delete,
    /// Status is written without admission.
    Status,
}

#[derive(Clone, Copy, Debug)]
struct Attempt {
    object: usize,
    user: usize,
    kind: Kind,
    fate: Fate,
    delivery: Delivery,
    /// Whether the watch is interrupted before it, and lists after it.
    unwatched: bool,
}

fn attempt() -> impl Strategy<Value = Attempt> {
    let kind = prop_oneof![
        6 => Just(Kind::Update), 2 => Just(Kind::Copy), 1 => Just(Kind::NoOp),
        2 => Just(Kind::Scale), 2 => Just(Kind::Delete), 2 => Just(Kind::Status),
    ];
    let fate = prop_oneof![
        6 => Just(Fate::Accepted), 2 => Just(Fate::Refused), 2 => Just(Fate::Conflict),
    ];
    let delivery = prop_oneof![
        6 => Just(Delivery::AtOnce), 3 => (0..6u8).prop_map(Delivery::Late), 2 => Just(Delivery::Lost),
    ];
    (
        0..3usize,
        0..USERS.len(),
        kind,
        fate,
        delivery,
        prop::bool::weighted(0.15),
    )
        .prop_map(|(object, user, kind, fate, delivery, unwatched)| Attempt {
            object,
            user,
            kind,
            fate,
            delivery,
            unwatched,
        })
}

/// One object as the server has it.
#[derive(Clone)]
struct Stored {
    uid: String,
    version: u64,
    form: FormId,
    replicas: i64,
    content: String,
}

/// What the dispatcher keeps of it.
#[derive(Clone)]
struct Seen {
    version: u64,
    form: FormId,
}

/// A change, who really made it since what was known before, and what was found out.
struct Change {
    users: Vec<usize>,
    origin: Arc<Origin>,
}

struct World {
    attributor: Attributor,
    now: Instant,
    version: u64,
    stored: [Option<Stored>; 3],
    earlier: [Option<Stored>; 3],
    seen: [Option<Seen>; 3],
    /// Who changed what while nobody watched.
    unwatched: [Vec<usize>; 3],
    watching: bool,
    late: Vec<(u8, AdmissionRecord)>,
    changes: Vec<Change>,
}

impl World {
    fn new() -> Self {
        let mut attributor = Attributor::new(StoreLimits::default());
        attributor.listen(true);
        Self {
            attributor,
            now: Instant::now(),
            version: 10,
            stored: [None, None, None],
            earlier: [None, None, None],
            seen: [None, None, None],
            unwatched: Default::default(),
            watching: true,
            late: Vec::new(),
            changes: Vec::new(),
        }
    }

    fn deliver(&mut self, delivery: Delivery, record: AdmissionRecord) {
        match delivery {
            Delivery::AtOnce => {
                self.attributor.record(record, self.now);
            }
            Delivery::Late(after) => self.late.push((after, record)),
            Delivery::Lost => {}
        }
    }

    fn pass_time(&mut self) {
        self.now += Duration::from_millis(10);
        let late = std::mem::take(&mut self.late);
        for (after, record) in late {
            match after.checked_sub(1) {
                Some(after) => self.late.push((after, record)),
                None => {
                    self.attributor.record(record, self.now);
                }
            }
        }
    }

    fn told(&mut self, users: Vec<usize>, uid: &str, transition: Transition) -> Arc<Origin> {
        let origin = self.attributor.attribute(uid, transition, None, self.now);
        self.changes.push(Change {
            users,
            origin: origin.clone(),
        });
        origin
    }

    /// A complete list after an interruption.
    fn list(&mut self) {
        self.watching = true;
        for object in 0..3 {
            let users = std::mem::take(&mut self.unwatched[object]);
            let (seen, stored) = (self.seen[object].take(), self.stored[object].clone());
            let Some(stored) = stored else { continue };
            let before = match &seen {
                Some(seen) => Before::Form {
                    blob: seen.form.blob,
                    version: seen.version.to_string().into(),
                },
                None => Before::Absent,
            };
            self.seen[object] = Some(Seen {
                version: stored.version,
                form: stored.form,
            });
            if seen.is_none_or(|seen| seen.form.blob != stored.form.blob) && !users.is_empty() {
                let new = stored.form;
                self.told(users, &stored.uid, Transition::Listed { before, new });
            }
        }
    }

    #[expect(clippy::too_many_lines, reason = "one attempt is one story")]
    fn run(&mut self, index: usize, attempt: Attempt) {
        let Attempt {
            object,
            user,
            kind,
            fate,
            delivery,
            unwatched,
        } = attempt;
        if !self.watching {
            self.list();
        }
        self.watching = !unwatched;
        self.pass_time();
        let current = match fate {
            Fate::Conflict => self.earlier[object].clone(),
            Fate::Accepted | Fate::Refused => self.stored[object].clone(),
        };
        let name = USERS[user];
        let Some(current) = current else {
            if !matches!(fate, Fate::Conflict) && self.stored[object].is_none() {
                self.create(index, attempt);
            }
            return;
        };
        // Every attempt leaves a mark of its own, except one that copies another.
        let (content, mark) = match kind {
            Kind::Copy => (
                current.content.clone() + "+",
                format!("copy-{}", current.version),
            ),
            Kind::NoOp => (current.content.clone(), String::new()),
            _ => (format!("content-{index}"), format!("{name}-{index}")),
        };
        let mut next = current.clone();
        self.version += 1;
        next.version = self.version;
        let version = current.version.to_string();
        let mut delivery = delivery;
        let change = match kind {
            Kind::Update | Kind::Copy => {
                if matches!(kind, Kind::Copy) {
                    // Two who write the same in one second cannot be told apart if one of them was
                    // never heard.
                    delivery = Delivery::AtOnce;
                }
                next.content = content;
                next.form = form(&next.content, &mark);
                Some(AdmittedChange::Update {
                    replaced: version.clone(),
                    old: current.form.blob,
                    new: next.form,
                })
            }
            Kind::Scale => {
                // Nor two who scale alike.
                delivery = Delivery::AtOnce;
                next.replicas += 1;
                next.form = form(&format!("{}*{}", next.content, next.replicas), "scaled");
                Some(AdmittedChange::Scale {
                    replaced: version.clone(),
                    replicas: next.replicas,
                })
            }
            Kind::Delete => {
                delivery = Delivery::AtOnce;
                Some(AdmittedChange::Delete {
                    version: version.clone(),
                })
            }
            // What asks for what is there already leaves no record.
            Kind::NoOp | Kind::Status => None,
        };
        if let Some(change) = change {
            self.deliver(delivery, record(name, &current.uid, change));
        }
        if !matches!(fate, Fate::Accepted) || matches!(kind, Kind::NoOp) {
            return;
        }
        self.earlier[object] = Some(current.clone());
        let deleted = matches!(kind, Kind::Delete);
        self.stored[object] = (!deleted).then(|| next.clone());
        if unwatched {
            if matches!(kind, Kind::Status) {
                return;
            }
            if deleted {
                self.unwatched[object].clear();
                self.seen[object] = None;
            } else {
                self.unwatched[object].push(user);
            }
            return;
        }
        let replaced: Box<str> = self.seen[object]
            .as_ref()
            .map_or_else(|| "0".into(), |seen| seen.version.to_string().into());
        let transition = if deleted {
            self.seen[object] = None;
            Transition::Deleting {
                version: replaced,
                owners: Box::default(),
                namespace: None,
            }
        } else {
            self.seen[object] = Some(Seen {
                version: next.version,
                form: next.form,
            });
            Transition::Updated {
                replaced,
                new: next.form,
                scaled_to: matches!(kind, Kind::Scale).then_some(next.replicas),
            }
        };
        // Where nobody asked admission, whoever is named did not do it.
        let asked = !matches!(kind, Kind::Status);
        let users = asked.then_some(user).into_iter().collect();
        self.told(users, &current.uid, transition);
    }

    fn create(&mut self, index: usize, attempt: Attempt) {
        let Attempt {
            object,
            user,
            fate,
            delivery,
            unwatched,
            ..
        } = attempt;
        self.version += 1;
        let content = format!("content-{index}");
        let stored = Stored {
            uid: format!("uid-{index}"),
            version: self.version,
            form: form(&content, &format!("{}-{index}", USERS[user])),
            replicas: 1,
            content,
        };
        let change = AdmittedChange::Create { new: stored.form };
        self.deliver(delivery, record(USERS[user], &stored.uid, change));
        if matches!(fate, Fate::Refused) {
            return;
        }
        self.earlier[object] = None;
        let (uid, new) = (stored.uid.clone(), stored.form);
        if unwatched {
            self.unwatched[object].push(user);
        } else {
            self.seen[object] = Some(Seen {
                version: stored.version,
                form: stored.form,
            });
            self.told(vec![user], &uid, Transition::Created { new });
        }
        self.stored[object] = Some(stored);
    }

    fn check(&self) {
        for Change { users, origin } in &self.changes {
            if let Verdict::Named(user, how) = origin.verdict(None).0 {
                assert!(!users.is_empty(), "{} did not do that", user.name());
                for really in users {
                    assert_eq!(user.name(), USERS[*really], "{how:?} of {users:?}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn nobody_is_ever_named_for_what_another_did(attempts in prop::collection::vec(attempt(), 1..120)) {
        let mut world = World::new();
        for (index, attempt) in attempts.iter().enumerate() {
            world.run(index, *attempt);
            world.check();
        }
        world.list();
        for _ in 0..8 {
            world.pass_time();
        }
        world.check();
    }
}
