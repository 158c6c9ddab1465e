use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use reverser_testkit::control_plane::User;
use reverser_testkit::git_server::{BareRepository, sealed_git};

use crate::floor;
use crate::table::{self, Table, seconds};
use crate::world::World;

/// The command may have this much memory with 10,000 objects.
const MOST_MEGABYTES: f64 = 80.0;

/// `mirror --once` into an empty repository, and again with nothing changed.
pub(crate) fn measure(world: &World, table: &mut Table) {
    let repository = BareRepository::create(world.scratch.path(), "mirror.git");
    let url = world.front.url("mirror.git");
    let work_dir = world.scratch.path().join("mirror-work");
    let floor = floor::first_mirror(world);
    let first = once(world, &url, &work_dir);
    let tip = repository.tip("main");
    // The cluster has a few of its own beside them.
    assert!(repository.files("main").len() >= world.objects);
    table.row(
        "mirror --once into an empty repository",
        &seconds(first.took),
        &format!("{} (list, fast-import, push)", seconds(floor.total())),
        &table::ratio(first.took, floor.total(), 1.5),
    );
    let asked = ls_remote(world, &url);
    let again = (0..floor::ROUNDS).map(|_| once(world, &url, &work_dir));
    let again: Vec<Once> = again.collect();
    let second = again.iter().map(|run| run.took).min().unwrap_or_default();
    assert_eq!(
        repository.tip("main"),
        tip,
        "nothing changed, and yet there is a commit"
    );
    table.row(
        "mirror --once with nothing changed",
        &seconds(second),
        &format!("{} (list, ls-remote)", seconds(floor.list + asked)),
        &table::ratio(second, floor.list + asked, 1.5),
    );
    let peaks = again.iter().map(|run| run.peak);
    let peak = peaks.fold(first.peak, f64::max);
    let met = if peak <= MOST_MEGABYTES {
        "met"
    } else {
        "MISSED"
    };
    table.row(
        "peak memory of mirror --once",
        &format!("{peak:.0} MB"),
        "",
        &format!("at most {MOST_MEGABYTES:.0} MB: {met}"),
    );
}

struct Once {
    took: Duration,
    /// In megabytes, of the program itself.
    peak: f64,
}

fn once(world: &World, url: &str, work_dir: &PathBuf) -> Once {
    let program = std::env::var_os("REVERSER_BENCH_PROGRAM")
        .unwrap_or_else(|| env!("CARGO_BIN_EXE_gitops-reverser").into());
    let mut command = Command::new(program);
    command
        .args(["mirror", "--once", "--quiet", "-A", "--repo", url])
        .args(["--include", "configmaps,services,deployments"])
        .arg("--work-dir")
        .arg(work_dir)
        .arg("--kubeconfig")
        .arg(world.plane.kubeconfig(User::Alice))
        .stdin(Stdio::null());
    let start = Instant::now();
    let mut child = command.spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak: f64 = 0.0;
    let ended = loop {
        if let Some(ended) = child.try_wait().unwrap() {
            break ended;
        }
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        peak = peak.max(kilobytes.unwrap_or_default() * 1024.0 / 1e6);
        std::thread::sleep(Duration::from_millis(1));
    };
    let took = start.elapsed();
    assert!(ended.success(), "{ended}");
    Once { took, peak }
}

/// What it costs to ask a server where a branch stands.
fn ls_remote(world: &World, url: &str) -> Duration {
    let once = || {
        let start = Instant::now();
        let mut git = sealed_git(world.scratch.path());
        let asked = git
            .args(["ls-remote", "--quiet", url, "refs/heads/main"])
            .output();
        assert!(asked.unwrap().status.success());
        start.elapsed()
    };
    (0..floor::ROUNDS).map(|_| once()).min().unwrap_or_default()
}
