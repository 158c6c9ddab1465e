//! The wall clock of one process, which can be made to jump while the process runs.
//!
//! libfaketime stands between the process and the clock. Only the time of day jumps: clocks that
//! nobody sets go on as they are, as they do when a person or NTP sets the time of a machine.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::scratch::Scratch;

/// Where Debian, and distributions like it, keep libraries of their architecture.
const LIBRARIES: &str = "/usr/lib";
/// The variant for programs with threads.
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";

/// A clock that is right until it is set.
#[derive(Debug)]
pub struct WallClock {
    library: PathBuf,
    offset: PathBuf,
}

impl WallClock {
    /// A clock for one process of a test; fails the test if this machine cannot do that.
    #[track_caller]
    #[must_use]
    pub fn new(scratch: &Scratch, name: &str) -> Self {
        let clock = Self {
            library: library().expect("libfaketime is installed by `make setup`"),
            offset: scratch.path().join(format!("{name}.clock")),
        };
        clock.set(0);
        clock
    }

    /// By so many seconds it is wrong from now on.
    #[track_caller]
    pub fn set(&self, seconds: i64) {
        // The process reads it whenever it asks for the time, so it is never half-written.
        let new = self.offset.with_extension("new");
        fs::write(&new, format!("{seconds:+}\n")).expect("a file can be written");
        fs::rename(&new, &self.offset).expect("a file can be renamed");
    }

    /// What a process needs in its environment to go by this clock.
    #[must_use]
    pub fn environment(&self) -> [(&'static str, OsString); 4] {
        [
            ("LD_PRELOAD", self.library.clone().into()),
            ("FAKETIME_TIMESTAMP_FILE", self.offset.clone().into()),
            ("FAKETIME_NO_CACHE", "1".into()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
        ]
    }
}

fn library() -> Option<PathBuf> {
    let of_architectures = fs::read_dir(LIBRARIES).ok()?.flatten();
    let mut libraries = of_architectures.map(|folder| folder.path().join(LIBRARY));
    libraries.find(|library: &PathBuf| Path::exists(library))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use super::*;
    use crate::process::Process;
    use crate::wait;

    #[test]
    fn a_clock_jumps_while_the_process_runs() {
        let scratch = Scratch::create("test").unwrap();
        let clock = WallClock::new(&scratch, "shell");
        let script = "while :; do date +%s; sleep 0.1; done";
        let environment = clock.environment().into_iter();
        let shell = Process::new(&scratch, "shell", Path::new("/bin/sh"), ["-c", script]);
        let shell = environment.fold(shell, |shell, (name, value)| shell.env(name, value));
        shell.start().unwrap();
        for offset in [0, 3_600, -3_600] {
            clock.set(offset);
            wait::until_blocking("the clock to jump", Duration::from_mins(2), || {
                let log = shell.log_tail();
                let last = log.lines().last().and_then(|line| line.parse::<i64>().ok());
                let shown = last.ok_or_else(|| log.clone())?;
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
                let wrong_by = shown - i64::try_from(now.as_secs()).unwrap();
                if (wrong_by - offset).abs() < 600 {
                    Ok(())
                } else {
                    Err(format!("wrong by {wrong_by}"))
                }
            })
            .unwrap();
        }
    }
}
