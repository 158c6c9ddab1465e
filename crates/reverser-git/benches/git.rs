//! The Git engine against its floor: `git fast-import` and `git push` of the same tree to the same
//! server, measured in the same run, in turn.
//!
//! Each measurement of ours runs in a process of its own, so that its peak memory is its own. The
//! server runs in the parent.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a program for people at a terminal"
)]

use std::fmt::Write as _;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reverser_git::{
    BranchName, Change, CommitPlan, CommitTime, Credentials, FolderPath, Git, Mirror,
    MirrorOptions, Person, PushOptions, PushOutcome, RemoteUrl, RepoPath, Scheme, Stamp,
};
use reverser_testkit::git_server::{BareRepository, HttpFront, sealed_git};

const FILES: usize = 20_000;
const CHANGES: usize = 6;
const ROUNDS: usize = 3;

/// How the files lie.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// Twenty namespaces of a thousand objects.
    Namespaces,
    /// All in one folder: the trees are as large as they get.
    OneFolder,
}

impl Layout {
    fn path(self, index: usize) -> String {
        match self {
            Self::Namespaces => {
                format!(
                    "live/apps/v1/deployments/team-{:02}/web-{index:05}.yaml",
                    index % 20
                )
            }
            Self::OneFolder => format!("live/apps/v1/deployments/shop/web-{index:05}.yaml"),
        }
    }

    fn named(name: &str) -> Self {
        if name == "one-folder" {
            Self::OneFolder
        } else {
            Self::Namespaces
        }
    }

    fn name(self) -> &'static str {
        if self == Self::OneFolder {
            "one-folder"
        } else {
            "namespaces"
        }
    }
}

/// A manifest of 1.5 KiB: half of it the same in all, half of it not.
fn content(index: usize, version: usize) -> String {
    let mut text = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web-{index:05}\n  labels:\n"
    );
    let mut state = (index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (version as u64) << 17;
    while text.len() < 1_480 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let _ = writeln!(
            text,
            "    example.com/some-label-{:x}: \"{:016x}\"",
            text.len() % 16,
            state
        );
    }
    text
}

fn main() {
    if let Ok(task) = std::env::var("REVERSER_BENCH_TASK") {
        return child(&task);
    }
    println!(
        "\n{FILES} files of 1.5 KiB over HTTP to git http-backend with receive.fsckObjects; milliseconds\n"
    );
    first_commit();
    one_change(Layout::Namespaces);
    one_change(Layout::OneFolder);
}

/// (a) and (d): everything is new.
fn first_commit() {
    let (mut ours, mut floor_import, mut floor) = (vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        let server = Served::empty();
        let (imported, pushed) = floor_of_first_commit(&server);
        floor_import.push(imported);
        floor.push(imported + pushed);
        let server = Served::empty();
        ours.push(server.task("first", Layout::Namespaces, false));
    }
    let memory = Served::empty().task("first", Layout::Namespaces, true);
    let times: Vec<_> = ours.iter().map(|answer| answer.times[0]).collect();
    row(
        "(a) floor: fast-import + push",
        median(&floor),
        &format!("of that fast-import {:.0}", median(&floor_import)),
    );
    let ratio = median(&times) / median(&floor);
    row(
        "(a) ours: stage, commit, push",
        median(&times),
        &verdict("ratio", ratio, 1.0),
    );
    let parts: Vec<_> = (1..4)
        .map(|part| median(&ours.iter().map(|a| a.times[part]).collect::<Vec<_>>()))
        .collect();
    row("      stage 20,000 contents", parts[0], "");
    row("      commit", parts[1], "");
    row("      push", parts[2], "");
    memory_row("(d) memory of (a)", &memory);
}

/// (b), (c) and (d): one file of many changes. In turn, because the server slows down as it fills.
fn one_change(layout: Layout) {
    let folders = match layout {
        Layout::Namespaces => "20 folders of 1,000 files",
        Layout::OneFolder => "one folder of 20,000 files",
    };
    println!("\n  {folders}");
    let server = Served::seeded(layout);
    let (mut floor, mut ours, mut commits, mut with_fetch, mut snapshots) =
        (vec![], vec![], vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        floor.extend(floor_of_one_change(&server, layout));
        let times = server.task("change", layout, false).times;
        let mut parts = times.chunks(CHANGES);
        let mut next = || parts.next().unwrap().to_vec();
        ours.extend(next());
        commits.extend(next());
        with_fetch.extend(next());
        snapshots.extend(next());
    }
    let memory = server.task("change", layout, true);
    let snapshot_memory = server.task("snapshot", layout, true);
    let ratio = |times: &[f64]| median(times) / median(&floor);
    row(
        "(b) floor: git push of a prepared commit",
        median(&floor),
        "",
    );
    row(
        "(b) ours: stage, commit, push",
        median(&ours),
        &verdict("ratio", ratio(&ours), 1.5),
    );
    row("      of that stage and commit", median(&commits), "");
    row(
        "      all of it after a fetch",
        median(&with_fetch),
        &format!("ratio {:.2}", ratio(&with_fetch)),
    );
    row("(c) snapshot of 20,000 files", median(&snapshots), "");
    memory_row("(d) memory of (b)", &memory);
    memory_row("(d) memory of (c), with its fetch", &snapshot_memory);
}

fn row(what: &str, milliseconds: f64, note: &str) {
    println!("  {what:<42} {milliseconds:>9.1}   {note}");
}

fn memory_row(what: &str, answer: &Answer) {
    let megabytes = |bytes: u64| f64::from(u32::try_from(bytes / 1_000_000).unwrap());
    let own = verdict("own peak MB", megabytes(answer.own_peak), 100.0);
    println!(
        "  {what:<42} {own}; largest git process {:.0} MB (its maps of packs included)",
        megabytes(answer.git_peak)
    );
}

fn verdict(what: &str, value: f64, limit: f64) -> String {
    format!(
        "{what} {value:.2}, at most {limit}: {}",
        if value <= limit { "met" } else { "MISSED" }
    )
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}

/// A repository, the server in front of it, and a folder for whoever writes to it.
struct Served {
    front: HttpFront,
    _repository: BareRepository,
    root: tempfile::TempDir,
}

/// What a task of ours reports.
struct Answer {
    times: Vec<f64>,
    own_peak: u64,
    git_peak: u64,
}

impl Served {
    fn empty() -> Self {
        let root = tempfile::tempdir().unwrap();
        let repository = BareRepository::create(root.path(), "r.git");
        Self {
            front: HttpFront::start(root.path()),
            _repository: repository,
            root,
        }
    }

    fn seeded(layout: Layout) -> Self {
        let served = Self::empty();
        import(&served.root.path().join("r.git"), layout);
        served
    }

    fn url(&self) -> String {
        self.front.url("r.git")
    }

    fn task(&self, task: &str, layout: Layout, watched: bool) -> Answer {
        let cache = tempfile::tempdir().unwrap();
        let output = Command::new(std::env::current_exe().unwrap())
            .env("REVERSER_BENCH_TASK", task)
            .env("REVERSER_BENCH_URL", self.url())
            .env("REVERSER_BENCH_LAYOUT", layout.name())
            .env("REVERSER_BENCH_CACHE", cache.path())
            .env("REVERSER_BENCH_WATCHED", if watched { "1" } else { "" })
            .stderr(Stdio::inherit())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mut numbers = text.split_whitespace();
        let own_peak = numbers
            .next()
            .expect("the task has failed")
            .parse()
            .unwrap();
        let git_peak = numbers.next().unwrap().parse().unwrap();
        Answer {
            own_peak,
            git_peak,
            times: numbers.map(|number| number.parse().unwrap()).collect(),
        }
    }
}

fn import(repository: &Path, layout: Layout) {
    let mut import = sealed_git(repository);
    let mut child = import
        .args(["fast-import", "--quiet"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut stream = BufWriter::new(child.stdin.take().unwrap());
    write!(
        stream,
        "commit refs/heads/main\ncommitter A <a@b> 1 +0000\ndata 5\nfirst\n"
    )
    .unwrap();
    for index in 0..FILES {
        let content = content(index, 0);
        let path = layout.path(index);
        write!(
            stream,
            "M 100644 inline {path}\ndata {}\n{content}\n",
            content.len()
        )
        .unwrap();
    }
    drop(stream);
    assert!(child.wait().unwrap().success());
}

fn floor_of_first_commit(server: &Served) -> (f64, f64) {
    let folder = tempfile::tempdir().unwrap();
    let local = BareRepository::create(folder.path(), "local.git");
    let start = Instant::now();
    import(local.path(), Layout::Namespaces);
    let imported = milliseconds(start);
    let start = Instant::now();
    local.git(&["push", "--quiet", &server.url(), "main"]);
    (imported, milliseconds(start))
}

fn floor_of_one_change(server: &Served, layout: Layout) -> Vec<f64> {
    let folder = tempfile::tempdir().unwrap();
    let url = server.url();
    let mut clone = sealed_git(folder.path());
    assert!(
        clone
            .args(["clone", "--quiet", "--bare", &url, "local.git"])
            .status()
            .unwrap()
            .success()
    );
    let local = folder.path().join("local.git");
    let git = |args: &[&str]| {
        let output = sealed_git(&local)
            .args(args)
            .stderr(Stdio::inherit())
            .output()
            .unwrap();
        assert!(output.status.success(), "{args:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let mut times = Vec::new();
    for round in 0..=CHANGES {
        let mut import = sealed_git(&local);
        let mut child = import
            .args(["fast-import", "--quiet", "--force"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let (content, path) = (content(round, 1 + round), layout.path(round));
        write!(
            child.stdin.take().unwrap(),
            "commit refs/heads/main\ncommitter A <a@b> 1 +0000\ndata 6\nchange\nfrom refs/heads/main^0\n\
             M 100644 inline {path}\ndata {}\n{content}\n",
            content.len()
        )
        .unwrap();
        assert!(child.wait().unwrap().success());
        let start = Instant::now();
        git(&["push", "--quiet", "origin", "main:main"]);
        // The first one warms the server up.
        if round > 0 {
            times.push(milliseconds(start));
        }
    }
    times
}

fn child(task: &str) {
    let variable = |name| std::env::var(name).unwrap();
    let layout = Layout::named(&variable("REVERSER_BENCH_LAYOUT"));
    let watch = (!variable("REVERSER_BENCH_WATCHED").is_empty()).then(Watch::start);
    let remote = RemoteUrl::parse(&variable("REVERSER_BENCH_URL"), &[Scheme::Http]).unwrap();
    let cache = PathBuf::from(variable("REVERSER_BENCH_CACHE"));
    let branch = BranchName::parse("main").unwrap();
    let git = Git::find().unwrap();
    let mut mirror = Mirror::open(
        git,
        remote,
        branch,
        &cache,
        Credentials::anonymous(),
        MirrorOptions::default(),
    )
    .unwrap();
    mirror.fetch().unwrap();
    let times = match task {
        "first" => first(&mut mirror, layout),
        "change" => changes(&mut mirror, layout),
        _ => {
            assert_eq!(mirror.snapshot(&live()).unwrap().len(), FILES);
            vec![]
        }
    };
    let git_peak = watch.map_or(0, Watch::stop);
    print!("{} {git_peak}", peak_of(Path::new("/proc/self/status")));
    for time in times {
        print!(" {time}");
    }
}

fn live() -> FolderPath {
    FolderPath::parse("live").unwrap()
}

fn first(mirror: &mut Mirror, layout: Layout) -> Vec<f64> {
    let start = Instant::now();
    let mut batch = mirror.staged().batch();
    let mut changes = Vec::with_capacity(FILES);
    for index in 0..FILES {
        let blob = batch.write(content(index, 0).as_bytes()).unwrap();
        changes.push(Change::Put {
            path: RepoPath::parse(&layout.path(index)).unwrap(),
            blob,
        });
    }
    batch.finish().unwrap();
    let staged = milliseconds(start);
    let pushing = commit(mirror, changes);
    let pushed = push(mirror, &pushing.0);
    vec![milliseconds(start), staged, pushing.1, pushed]
}

/// Changes without a fetch, what of them is not the push, changes after a fetch, snapshots.
fn changes(mirror: &mut Mirror, layout: Layout) -> Vec<f64> {
    let (mut plain, mut commits, mut with_fetch, mut snapshots) = (vec![], vec![], vec![], vec![]);
    // Another run has changed the same files already.
    let version = std::process::id() as usize;
    for round in 0..=2 * CHANGES {
        let start = Instant::now();
        if round > CHANGES {
            mirror.fetch().unwrap();
        }
        let blob = mirror
            .staged()
            .write(content(round, version + round).as_bytes())
            .unwrap();
        let path = RepoPath::parse(&layout.path(round)).unwrap();
        let (prepared, _) = commit(mirror, vec![Change::Put { path, blob }]);
        let committed = milliseconds(start);
        push(mirror, &prepared);
        match round {
            // The first one warms the server up.
            0 => {}
            1..=CHANGES => {
                commits.push(committed);
                plain.push(milliseconds(start));
            }
            _ => with_fetch.push(milliseconds(start)),
        }
    }
    for _ in 0..CHANGES {
        let start = Instant::now();
        assert_eq!(mirror.snapshot(&live()).unwrap().len(), FILES);
        snapshots.push(milliseconds(start));
    }
    [plain, commits, with_fetch, snapshots].concat()
}

fn commit(mirror: &mut Mirror, changes: Vec<Change>) -> (reverser_git::Prepared, f64) {
    let start = Instant::now();
    let stamp = Stamp {
        person: Person::new("A", "a@b").unwrap(),
        time: CommitTime::utc(1_700_000_000),
    };
    let plan = CommitPlan {
        folder: live(),
        author: stamp.clone(),
        committer: stamp,
        message: "Change".to_owned(),
        changes,
    };
    let committed = mirror.commit(&[plan], None).unwrap();
    (committed.prepared.unwrap(), milliseconds(start))
}

fn push(mirror: &mut Mirror, prepared: &reverser_git::Prepared) -> f64 {
    let start = Instant::now();
    let outcome = mirror.push(prepared, &PushOptions::default()).unwrap();
    assert!(matches!(outcome, PushOutcome::Pushed { .. }), "{outcome:?}");
    milliseconds(start)
}

/// The highest resident size that a process has had.
fn peak_of(status: &Path) -> u64 {
    let status = std::fs::read_to_string(status).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// Looks at the processes below this one until it is stopped.
struct Watch {
    stopping: Arc<AtomicBool>,
    peak: Arc<AtomicU64>,
    thread: std::thread::JoinHandle<()>,
}

impl Watch {
    fn start() -> Self {
        let (stopping, peak) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let (seen_stopping, seen_peak) = (stopping.clone(), peak.clone());
        let own = std::process::id();
        let thread = std::thread::spawn(move || {
            while !seen_stopping.load(Ordering::SeqCst) {
                for process in std::fs::read_dir("/proc").unwrap().flatten() {
                    let environ = std::fs::read(process.path().join("environ")).unwrap_or_default();
                    let ours = environ
                        .windows(23)
                        .any(|window| window == b"GITOPS_REVERSER_MIRROR=");
                    if ours && process.file_name() != own.to_string().as_str() {
                        seen_peak
                            .fetch_max(peak_of(&process.path().join("status")), Ordering::SeqCst);
                    }
                }
                std::thread::sleep(Duration::from_millis(3));
            }
        });
        Self {
            stopping,
            peak,
            thread,
        }
    }

    fn stop(self) -> u64 {
        self.stopping.store(true, Ordering::SeqCst);
        self.thread.join().unwrap();
        self.peak.load(Ordering::SeqCst)
    }
}
