//! Programs that end with the test process, and can be paused, killed and started again.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::scratch::Scratch;
use crate::wait;

/// How long a program that was asked to end may take, before it is killed.
const GRACE: Duration = Duration::from_secs(10);
/// As much of a log as one wants to read in an error.
const TAIL: u64 = 4_000;

/// What cannot be done with a program.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It cannot be started.
    #[error("cannot start {}", .program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// It runs already.
    #[error("{name} runs already")]
    Running {
        /// Its name in the test.
        name: String,
    },
    /// It does not run.
    #[error("{name} does not run")]
    NotRunning {
        /// Its name in the test.
        name: String,
    },
    /// It cannot be signalled or waited for.
    #[error("cannot signal {name}")]
    Signal {
        /// Its name in the test.
        name: String,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

/// One program with its arguments, running or not.
#[derive(Debug)]
pub struct Process {
    name: String,
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    log: PathBuf,
    pid_file: PathBuf,
    child: Mutex<Option<Child>>,
}

impl Process {
    /// A program that does not run yet. It writes to `<scratch>/logs/<name>.log`.
    ///
    /// It inherits no environment, so that a test depends on nothing that its caller has set; its
    /// home is the scratch folder.
    pub fn new<A: Into<OsString>>(
        scratch: &Scratch,
        name: &str,
        program: &Path,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self {
            name: name.to_owned(),
            program: program.to_owned(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            environment: vec![
                ("HOME".into(), scratch.path().into()),
                ("PATH".into(), path),
            ],
            log: scratch.path().join("logs").join(format!("{name}.log")),
            pid_file: scratch.pid_file(name),
            child: Mutex::new(None),
        }
    }

    /// Adds a variable to the environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Its name in the test.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process id, if it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child().as_ref().map(Child::id)
    }

    /// The file that has both of its outputs, of all its runs.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The last lines of the log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        tail(&self.log).unwrap_or_else(|error| format!("(no log: {error})"))
    }

    /// Starts it. It is up to the caller to await that it is ready.
    pub fn start(&self) -> Result<(), ProcessError> {
        let mut child = self.child();
        if child.is_some() {
            return Err(ProcessError::Running {
                name: self.name.clone(),
            });
        }
        *child = Some(self.spawn().map_err(|source| ProcessError::Start {
            program: self.program.clone(),
            source,
        })?);
        Ok(())
    }

    fn spawn(&self) -> io::Result<Child> {
        if let Some(folder) = self.log.parent() {
            fs::create_dir_all(folder)?;
        }
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)?;
        let mut command = dies_with_parent(&self.program);
        command
            .args(&self.arguments)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // Ctrl-C is for the test process; what it started follows it.
            .process_group(0);
        let mut child = keeper_spawns(command)?;
        if let Err(error) = fs::write(&self.pid_file, child.id().to_string()) {
            child.kill()?;
            child.wait()?;
            return Err(error);
        }
        Ok(child)
    }

    /// How it ended, if it ended by itself.
    pub fn ended(&self) -> Result<Option<ExitStatus>, ProcessError> {
        let mut slot = self.child();
        let child = slot.as_mut().ok_or_else(|| self.not_running())?;
        let status = child.try_wait().map_err(|source| self.signal(source))?;
        if status.is_some() {
            self.forget(&mut slot);
        }
        Ok(status)
    }

    /// Asks it to end, as an orderly shutdown does, and kills it if it takes too long.
    pub fn stop(&self) -> Result<(), ProcessError> {
        let mut slot = self.child();
        let child = slot.as_mut().ok_or_else(|| self.not_running())?;
        self.send(child, Signal::TERM)?;
        // It may be paused.
        self.send(child, Signal::CONT)?;
        let ended = wait::until_blocking("the end", GRACE, || child.try_wait().ok().flatten());
        if ended.is_err() {
            end(child).map_err(|source| self.signal(source))?;
        }
        self.forget(&mut slot);
        Ok(())
    }

    /// Ends it at once, as a crash does.
    pub fn kill(&self) -> Result<(), ProcessError> {
        let mut slot = self.child();
        let child = slot.as_mut().ok_or_else(|| self.not_running())?;
        end(child).map_err(|source| self.signal(source))?;
        self.forget(&mut slot);
        Ok(())
    }

    /// Stops it from running on; its connections stay open and silent.
    pub fn pause(&self) -> Result<(), ProcessError> {
        let slot = self.child();
        let child = slot.as_ref().ok_or_else(|| self.not_running())?;
        self.send(child, Signal::STOP)?;
        // A thread on another core may still answer before the signal reaches it.
        let id = child.id();
        wait::until_blocking("all threads to be stopped", GRACE, || {
            is_stopped(id).then_some(())
        })
        .map_err(|late| self.signal(io::Error::other(late)))
    }

    /// Lets it run on after [`Process::pause`].
    pub fn resume(&self) -> Result<(), ProcessError> {
        let slot = self.child();
        let child = slot.as_ref().ok_or_else(|| self.not_running())?;
        self.send(child, Signal::CONT)
    }

    /// A child that is in the slot has not been waited for, so its process id is still its own.
    fn send(&self, child: &Child, signal: Signal) -> Result<(), ProcessError> {
        kill_process(Pid::from_child(child), signal).map_err(|errno| self.signal(errno.into()))
    }

    fn forget(&self, slot: &mut Option<Child>) {
        *slot = None;
        // The undertaker must not end whoever gets this process id next.
        let _ = fs::remove_file(&self.pid_file);
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        // A test that panicked while it held the lock left nothing half-done.
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn not_running(&self) -> ProcessError {
        ProcessError::NotRunning {
            name: self.name.clone(),
        }
    }

    fn signal(&self, source: io::Error) -> ProcessError {
        ProcessError::Signal {
            name: self.name.clone(),
            source,
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already, and there is nobody to tell.
        let _ = self.kill();
    }
}

fn end(child: &mut Child) -> io::Result<()> {
    child.kill()?;
    child.wait()?;
    Ok(())
}

/// The program with a wish to be killed when the thread that started it ends, where the system can
/// do that. Where it cannot, the undertaker of the scratch folder is alone.
fn dies_with_parent(program: &Path) -> Command {
    static SETPRIV: OnceLock<bool> = OnceLock::new();
    let available = *SETPRIV.get_or_init(|| {
        let mut probe = Command::new("setpriv");
        probe.args(["--pdeathsig", "KILL", "--", "true"]);
        probe.stdout(Stdio::null()).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    });
    if available {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program);
        command
    } else {
        Command::new(program)
    }
}

/// Starts a command on the one thread that lives as long as the process.
///
/// A child's wish to die with its parent means the thread that started it, and the threads of tests
/// end long before the test process does.
fn keeper_spawns(command: Command) -> io::Result<Child> {
    type Order = (Command, Sender<io::Result<Child>>);
    static KEEPER: OnceLock<Sender<Order>> = OnceLock::new();

    let keeper = KEEPER.get_or_init(|| {
        let (orders, inbox) = channel::<Order>();
        thread::Builder::new()
            .name("keeper".to_owned())
            .spawn(move || {
                // Ends with the process, because the static sender is never dropped.
                for (mut command, answer) in inbox {
                    // Who no longer waits for the answer drops the child.
                    let _ = answer.send(command.spawn());
                }
            })
            .expect("a process that runs tests can start one more thread");
        orders
    });
    let (answer, child) = channel();
    keeper
        .send((command, answer))
        .expect("the keeper lives as long as the process");
    child.recv().expect("the keeper answers every order")
}

/// The end of a file, from the start of a line.
fn tail(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    match text.split_once('\n') {
        Some((_, lines)) if length > TAIL => Ok(lines.to_owned()),
        _ => Ok(text.into_owned()),
    }
}

/// Whether no thread of a process runs on.
fn is_stopped(id: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{id}/task")) else {
        return true;
    };
    threads.flatten().all(|thread| {
        let status = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The name before the state may contain anything but ends with the last bracket.
        let state = status
            .rsplit_once(") ")
            .and_then(|(_, rest)| rest.chars().next());
        matches!(state, None | Some('T' | 'Z' | 'X'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_mins(2);

    fn shell(scratch: &Scratch, script: &str) -> Process {
        Process::new(scratch, "shell", Path::new("/bin/sh"), ["-c", script])
    }

    #[test]
    fn a_program_outlives_the_thread_that_started_it() {
        let scratch = Scratch::create("test").unwrap();
        let process = shell(&scratch, "echo up; exec sleep 100");
        thread::scope(|scope| scope.spawn(|| process.start().unwrap()).join().unwrap());
        wait::until_blocking("the line", SOON, || process.log_tail() == "up\n").unwrap();
        assert!(process.ended().unwrap().is_none());
    }

    #[test]
    fn a_program_can_be_stopped_while_paused_and_started_again() {
        let scratch = Scratch::create("test").unwrap();
        let process = shell(&scratch, "echo up; exec sleep 100");
        for run in 1..=2 {
            process.start().unwrap();
            wait::until_blocking("the line", SOON, || {
                process.log_tail().lines().count() == run
            })
            .unwrap();
            process.pause().unwrap();
            process.stop().unwrap();
            assert!(process.pid().is_none());
        }
        assert!(matches!(
            process.stop(),
            Err(ProcessError::NotRunning { .. })
        ));
    }

    #[test]
    fn a_program_that_ends_by_itself_says_how() {
        let scratch = Scratch::create("test").unwrap();
        let process = shell(&scratch, "exit 7");
        process.start().unwrap();
        let status = wait::until_blocking("the end", SOON, || process.ended().unwrap()).unwrap();
        assert_eq!(status.code(), Some(7));
        process.start().unwrap();
    }

    #[test]
    fn the_environment_of_the_caller_is_not_inherited() {
        let scratch = Scratch::create("test").unwrap();
        let process = shell(&scratch, "env | sort").env("ADDED", "yes");
        process.start().unwrap();
        wait::until_blocking("the end", SOON, || process.ended().unwrap()).unwrap();
        let log = process.log_tail();
        assert!(log.contains("ADDED=yes"), "{log}");
        assert!(!log.contains("CARGO_"), "{log}");
    }
}
