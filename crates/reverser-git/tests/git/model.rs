//! Random sequences of our plans, other people's commits, crashes and server faults. After each
//! settling the folder is what was wanted, everything else is what other people made it, and the
//! history is linear and complete.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use reverser_git::{BlobId, Change, FetchError, Mirror, PushOptions, PushOutcome};
use reverser_testkit::git_server::{Fault, FileChange, Request};
use tempfile::TempDir;

use crate::crashes::{CRASH_POINTS, start_child};
use crate::support::{Server, Transport, folder, path, plan};

/// Set to repeat a run.
const SEED: &str = "REVERSER_MODEL_SEED";

struct Dice(u64);

impl Dice {
    /// xorshift64*: small, and the same everywhere.
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let drawn = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(drawn).unwrap() % sides
    }
}

struct World {
    server: Server,
    place: TempDir,
    mirror: Option<Mirror>,
    /// What we want below `live`.
    desired: BTreeMap<String, String>,
    /// What others have made of the rest.
    foreign: BTreeMap<String, String>,
    /// Commits of others that are to be in the history.
    kept: Vec<String>,
    /// Commits that somebody has removed.
    removed: Vec<String>,
    log: Vec<String>,
    attempts: usize,
}

impl World {
    fn new(transport: Transport) -> Self {
        let server = Server::start(transport);
        let kept = vec![server.repository.commit(
            "main",
            "first",
            &[FileChange::Write("README.md", "0\n")],
        )];
        let foreign = BTreeMap::from([("README.md".to_owned(), "0\n".to_owned())]);
        Self {
            server,
            place: tempfile::tempdir().unwrap(),
            mirror: None,
            desired: BTreeMap::new(),
            foreign,
            kept,
            removed: vec![],
            log: vec![],
            attempts: 0,
        }
    }

    fn mirror(&mut self) -> &mut Mirror {
        if self.mirror.is_none() {
            self.mirror = Some(self.server.open(self.place.path(), "main"));
        }
        self.mirror.as_mut().unwrap()
    }

    fn step(&mut self, dice: &mut Dice, number: usize) {
        let content = format!("content {number}\n");
        match dice.roll(12) {
            0..=3 => {
                for _ in 0..=dice.roll(4) {
                    let file = format!("live/{}/{}.yaml", dice.roll(3), dice.roll(4));
                    if dice.roll(3) == 0 {
                        self.desired.remove(&file);
                    } else {
                        self.desired
                            .insert(file, format!("{content}{}", dice.roll(5)));
                    }
                }
                self.log.push("we want something else".to_owned());
            }
            4..=5 => {
                let file = format!("others/{}", dice.roll(5));
                self.foreign.insert(file.clone(), content.clone());
                self.kept.push(self.server.repository.commit(
                    "main",
                    "theirs",
                    &[FileChange::Write(&file, &content)],
                ));
                self.log.push(format!("they write {file}"));
            }
            6 => {
                let file = format!("live/{}/{}.yaml", dice.roll(3), dice.roll(4));
                self.kept.push(self.server.repository.commit(
                    "main",
                    "vandals",
                    &[FileChange::Write(&file, "vandalised\n")],
                ));
                self.log.push(format!("they vandalise {file}"));
            }
            7 => self.wind_back(dice),
            8 => self.crash(dice, &content),
            9 => {
                self.mirror = None;
                self.log.push("we restart".to_owned());
            }
            _ => self.server_fault(dice),
        }
    }

    fn wind_back(&mut self, dice: &mut Dice) {
        let history = self.server.repository.history("main");
        // Only commits of ours at the top, so that what others did stays as the model has it.
        let ours = history
            .iter()
            .take_while(|commit| !self.kept.contains(commit))
            .count();
        if ours == 0 {
            return;
        }
        let back = 1 + dice.roll(ours);
        self.removed.extend(history[..back].iter().cloned());
        self.server
            .repository
            .set_branch("main", Some(&history[back]));
        self.log.push(format!("they remove {back} commits"));
    }

    fn crash(&mut self, dice: &mut Dice, content: &str) {
        let Some(_) = &self.server.front else { return };
        self.mirror = None;
        let point = CRASH_POINTS[dice.roll(CRASH_POINTS.len())];
        self.log.push(format!(
            "an operator that wants something else dies at {point:?}"
        ));
        start_child(&self.server, self.place.path(), content, point)
            .wait()
            .unwrap();
    }

    fn server_fault(&mut self, dice: &mut Dice) {
        let Some(front) = &self.server.front else {
            return;
        };
        let requests = [
            Request::Any,
            Request::FetchRefs,
            Request::PushRefs,
            Request::Fetch,
            Request::Push,
        ];
        let request = requests[dice.roll(requests.len())];
        let fault = match dice.roll(3) {
            0 => Fault::DropRequest,
            1 => Fault::CutAnswer(dice.roll(400)),
            _ => Fault::Status([502, 503, 429][dice.roll(3)]),
        };
        self.log
            .push(format!("the server has {fault:?} for {request:?}"));
        front.fault(request, fault, 1 + dice.roll(2));
    }

    /// As the operator does: every attempt fetches, compares, commits and pushes.
    fn attempt(&mut self) -> bool {
        let desired = self.desired.clone();
        self.attempts += 1;
        // Otherwise a commit that is made again after its removal would be the very same.
        let message = format!("Attempt {}", self.attempts);
        let mirror = self.mirror();
        match mirror.fetch() {
            Ok(_) => {}
            Err(FetchError::Remote(_)) => return false,
            Err(error) => panic!("{error:?}"),
        }
        let snapshot = mirror.snapshot(&folder("live")).unwrap();
        let mut plan = plan(mirror, "live", &[]);
        plan.message = message;
        for (file, content) in &desired {
            let blob = BlobId::of(content.as_bytes());
            if snapshot.get(&path(file)).and_then(|entry| entry.blob) != Some(blob) {
                assert_eq!(mirror.staged().write(content.as_bytes()).unwrap(), blob);
                plan.changes.push(Change::Put {
                    path: path(file),
                    blob,
                });
            }
        }
        for entry in snapshot.iter() {
            let file = String::from_utf8(entry.path.to_vec()).unwrap();
            if !desired.contains_key(&file) {
                plan.changes.push(Change::Delete { path: path(&file) });
            }
        }
        let committed = mirror.commit(&[plan], None).unwrap();
        assert_eq!(committed.refused, []);
        let Some(prepared) = committed.prepared else {
            return true;
        };
        let outcome = mirror.push(&prepared, &PushOptions::default()).unwrap();
        mirror.retain_staged(|_| false).unwrap();
        match outcome {
            PushOutcome::Pushed { .. } => true,
            PushOutcome::Refused(refusal) => panic!("{refusal:?}"),
            PushOutcome::Unauthorised { reason } => panic!("{reason}"),
            PushOutcome::Stale { .. }
            | PushOutcome::Unreachable { .. }
            | PushOutcome::Unknown { .. } => false,
        }
    }

    fn settle(&mut self) {
        for _ in 0..20 {
            if self.attempt() {
                return;
            }
        }
        panic!("it did not settle: {:#?}", self.log);
    }

    fn check(&self) {
        let mut expected = self.foreign.clone();
        expected.extend(self.desired.clone());
        let found = self.server.repository.files("main");
        assert_eq!(found, expected, "{:#?}", self.log);
        let history = self.server.repository.history("main");
        for commit in &self.kept {
            assert!(
                history.contains(commit),
                "a foreign commit is lost: {:#?}",
                self.log
            );
        }
        for commit in &self.removed {
            assert!(
                !history.contains(commit),
                "a removed commit is back: {:#?}",
                self.log
            );
        }
        self.server.repository.assert_sound("main");
        let empty = self
            .server
            .repository
            .git(&["log", "--format=%T %an", "main"]);
        let trees: Vec<_> = empty.lines().collect();
        let repeated = trees
            .windows(2)
            .any(|pair| pair[0] == pair[1] && pair[0].ends_with("Alice"));
        assert!(!repeated, "an empty commit: {:#?}", self.log);
    }
}

fn run(transport: Transport, rounds: usize) {
    let seed = match std::env::var(SEED) {
        Ok(seed) => seed.parse().unwrap(),
        Err(_) => u64::try_from(
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap()
                .as_nanos()
                % 1_000_000_007,
        )
        .unwrap(),
    };
    eprintln!("{SEED}={seed}");
    let mut dice = Dice(seed | 1);
    let mut world = World::new(transport);
    for round in 0..rounds {
        for step in 0..=dice.roll(4) {
            world.step(&mut dice, round * 10 + step);
        }
        world.settle();
        world.check();
        world.log.push("settled".to_owned());
    }
}

#[test]
fn whatever_happens_over_http_it_settles() {
    run(Transport::Http, 25);
}

#[test]
fn whatever_happens_over_ssh_it_settles() {
    run(Transport::Ssh, 8);
}

#[test]
fn whatever_happens_on_this_machine_it_settles() {
    run(Transport::Path, 12);
}
