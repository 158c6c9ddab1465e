use std::ops::Sub;
use std::path::Path;
use std::time::{Duration, Instant};

use reverser_testkit::control_plane::User;
use reverser_testkit::process::Process;

use crate::world::{PATIENCE, World};

/// The operator, started as a user starts it.
pub(crate) struct Running {
    process: Process,
    started: Instant,
    /// Earlier runs have written so much to the log.
    log_before: usize,
}

/// Processor time.
#[derive(Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) own: Duration,
    /// Of the programs that it has started and that have ended.
    pub(crate) children: Duration,
}

impl Sub for Cost {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            own: self.own.saturating_sub(before.own),
            children: self.children.saturating_sub(before.children),
        }
    }
}

impl Running {
    pub(crate) fn start(world: &World) -> Self {
        let work_dir = tempfile::tempdir_in(world.scratch.path()).unwrap().keep();
        let kubeconfig = world.plane.kubeconfig(User::Admin);
        let arguments = [
            "controller".to_owned(),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--work-dir={}", work_dir.display()),
            "--allow-url-schemes=http".to_owned(),
            "--metrics-bind-address=127.0.0.1:0".to_owned(),
            "--health-probe-bind-address=127.0.0.1:0".to_owned(),
            // What it costs is another figure: see the bench `admission`.
            "--webhook-bind-address=0".to_owned(),
        ];
        let program = std::env::var_os("REVERSER_BENCH_PROGRAM")
            .unwrap_or_else(|| env!("CARGO_BIN_EXE_gitops-reverser").into());
        let process = Process::new(&world.scratch, "operator", Path::new(&program), arguments)
            // As the image has it.
            .env("MALLOC_TRIM_THRESHOLD_", "131072");
        let log_before = std::fs::read(process.log()).map_or(0, |log| log.len());
        let started = Instant::now();
        process.start().unwrap();
        Self {
            process,
            started,
            log_before,
        }
    }

    /// How long it took to push the first commit.
    pub(crate) fn until_pushed(&self, world: &World) -> Duration {
        let (pushed, _) = world.await_tip_after(None);
        pushed - self.started
    }

    /// How long it took to find that the branch holds what it should, as its log says.
    pub(crate) fn until_in_sync(&self) -> Duration {
        loop {
            let log = std::fs::read_to_string(self.process.log()).unwrap();
            if log[self.log_before..].contains("in sync") {
                return self.started.elapsed();
            }
            assert!(self.started.elapsed() < PATIENCE, "{log}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub(crate) fn stop(&self) {
        self.process.stop().unwrap();
    }

    /// The highest resident size that it has had.
    pub(crate) fn peak_megabytes(&self) -> f64 {
        let status = self.read("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        kilobytes.unwrap() * 1024.0 / 1e6
    }

    pub(crate) fn cost(&self) -> Cost {
        let stat = self.read("stat");
        // The name, in brackets, may hold anything.
        let fields = &stat[stat.rfind(')').unwrap() + 2..];
        let ticks: Vec<u64> = fields
            .split(' ')
            .skip(11)
            .take(4)
            .map(|ticks| ticks.parse().unwrap())
            .collect();
        // Linux shows them in hundredths to every program.
        let time = |ticks: u64| Duration::from_millis(10 * ticks);
        Cost {
            own: time(ticks[0] + ticks[1]),
            children: time(ticks[2] + ticks[3]),
        }
    }

    fn read(&self, file: &str) -> String {
        let pid = self.process.pid().unwrap();
        std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap()
    }
}
