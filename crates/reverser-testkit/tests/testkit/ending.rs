//! Whatever ends the test process ends what it started, and no folder stays.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use reverser_testkit::control_plane::ControlPlane;
use reverser_testkit::process::Process;
use reverser_testkit::scratch::Scratch;
use reverser_testkit::wait;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::again;

const SOON: Duration = Duration::from_mins(2);
const PLANE: &str = "a process with a shared plane";
const LOOSE: &str = "a process with a program that is never dropped";

/// A process that started something, and says what.
struct Started {
    child: Child,
    pids: Vec<Pid>,
    folder: PathBuf,
}

impl Started {
    fn new(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("this very program starts");
        let stderr = child.stderr.take().expect("piped above");
        let mut lines = BufReader::new(stderr).lines();
        let mut after = |mark: &str| loop {
            let line = lines.next().expect("the process says what it started");
            let line = line.expect("in plain words");
            if let Some(rest) = line.strip_prefix(mark) {
                return rest.to_owned();
            }
        };
        let folder = PathBuf::from(after("folder: "));
        let pids = after("pids: ");
        let started = Self {
            child,
            pids: pids.split(' ').map(pid).collect(),
            folder,
        };
        assert!(started.folder.is_dir());
        assert!(started.pids.iter().all(|&pid| runs(pid)));
        started
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    fn everything_ends(mut self) {
        self.child.wait().expect("it was signalled");
        let programs_end = wait::until_blocking("the end of all programs", SOON, || {
            let left: Vec<_> = self.pids.iter().filter(|&&pid| runs(pid)).collect();
            if left.is_empty() {
                Ok(())
            } else {
                Err(format!("{left:?}"))
            }
        });
        programs_end.expect("nothing outlives its test process");
        let folder_ends =
            wait::until_blocking("the end of the folder", SOON, || !self.folder.exists());
        folder_ends.expect("no folder outlives its test process");
    }
}

fn pid(text: &str) -> Pid {
    let raw = text.parse().ok().and_then(Pid::from_raw);
    raw.expect("a process says numbers")
}

/// A zombie that nobody has waited for does not run.
fn runs(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    let is_zombie = stat.is_ok_and(|stat| stat.contains(") Z "));
    !is_zombie && test_kill_process(pid).is_ok()
}

fn tell(folder: &Path, pids: &[u32]) {
    let pids: Vec<_> = pids.iter().map(u32::to_string).collect();
    eprintln!("folder: {}\npids: {}", folder.display(), pids.join(" "));
}

/// Returns when the other end closes.
fn await_input() {
    let _ = std::io::stdin().lines().next();
}

#[test]
fn role_with_a_shared_plane() {
    if again::plays(PLANE) {
        let plane = ControlPlane::shared();
        let pids: Vec<_> = plane.pids().into_iter().map(|(_, pid)| pid).collect();
        tell(plane.dir(), &pids);
        await_input();
    }
}

#[test]
fn role_with_a_loose_program() {
    if again::plays(LOOSE) {
        let scratch = Scratch::create("loose").unwrap();
        let process = Process::new(&scratch, "sleep", Path::new("/bin/sleep"), ["1000"]);
        process.start().unwrap();
        tell(scratch.path(), &[process.pid().unwrap()]);
        std::mem::forget(process);
        std::mem::forget(scratch);
        await_input();
    }
}

fn with_plane() -> Started {
    Started::new(again::play(PLANE, "ending::role_with_a_shared_plane"))
}

fn with_loose_program() -> Started {
    Started::new(again::play(LOOSE, "ending::role_with_a_loose_program"))
}

#[test]
fn a_plane_ends_when_the_test_process_is_killed() {
    let started = with_plane();
    assert_eq!(started.pids.len(), 2);
    started.signal(Signal::KILL);
    started.everything_ends();
}

#[test]
fn a_program_ends_when_the_test_process_is_interrupted() {
    let started = with_loose_program();
    started.signal(Signal::INT);
    started.everything_ends();
}

#[test]
fn a_program_ends_when_the_test_process_ends_without_dropping_it() {
    let mut started = with_loose_program();
    drop(started.child.stdin.take());
    started.everything_ends();
}

#[test]
fn a_paused_program_ends_too() {
    let started = with_loose_program();
    kill_process(started.pids[0], Signal::STOP).unwrap();
    started.signal(Signal::KILL);
    started.everything_ends();
}

/// The kernel's help is not there on every system, and the undertaker does without.
#[test]
fn a_program_ends_with_the_test_process_where_there_is_no_setpriv() {
    let few = tempfile::tempdir().unwrap();
    for tool in ["sh", "cat", "rm"] {
        let found = env::split_paths(&env::var_os("PATH").unwrap())
            .map(|folder| folder.join(tool))
            .find(|path| path.is_file());
        symlink(found.unwrap(), few.path().join(tool)).unwrap();
    }
    let mut command = again::play(LOOSE, "ending::role_with_a_loose_program");
    command.env("PATH", few.path());
    let started = Started::new(command);
    started.signal(Signal::KILL);
    started.everything_ends();
}
