//! The only place that starts a program.
//!
//! Every command gets the same surroundings: an empty environment and configuration, messages in
//! English, no prompts, no hooks, no helpers, one allowed protocol, credentials by environment, a
//! process group of its own, a deadline and a way to be cancelled.
//!
//! A command that runs out of time is killed with its whole group: `git push` starts helpers that
//! would otherwise go on and land a commit seconds later.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use secrecy::{ExposeSecret, SecretString};

use crate::cancel::CancelToken;
use crate::credentials::Access;
use crate::porcelain::{GitVersion, parse_version};
use crate::push_progress::{PushListener, WithoutProgress};

/// The oldest `git` that the tests run against.
const MIN_VERSION: GitVersion = GitVersion {
    major: 2,
    minor: 39,
};

/// More than this of either output is drained and dropped, unless a command says otherwise.
const MAX_OUTPUT: usize = 256 * 1024;

/// How long a killed group may take to let go of its pipes.
const KILL_GRACE: Duration = Duration::from_secs(10);

/// Marks every process of a mirror, so that the next owner of its folder finds the helpers of one
/// that was killed.
const OWNER_VARIABLE: &str = "GITOPS_REVERSER_MIRROR";

/// Variables of our own environment that a command may see.
const INHERITED: &[&str] = &[
    "PATH",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "no_proxy",
    "NO_PROXY",
];

/// What every command is told, whatever the configuration files of the machine say.
const FIXED_CONFIG: &[(&str, &str)] = &[
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.attributesFile", "/dev/null"),
    ("credential.helper", ""),
    ("fetch.unpackLimit", "1"),
    ("gc.auto", "0"),
    ("http.followRedirects", "false"),
    ("http.lowSpeedLimit", "100"),
    ("http.lowSpeedTime", "60"),
    ("maintenance.auto", "false"),
    ("pack.useSparse", "false"),
    ("protocol.version", "2"),
    ("push.gpgSign", "false"),
    ("submodule.recurse", "false"),
];

/// The `git` program, found and of a version that is known to work.
#[derive(Debug, Clone)]
pub struct Git {
    program: PathBuf,
    version: GitVersion,
}

/// Why there is no usable `git`.
#[derive(Debug, thiserror::Error)]
pub enum GitUnusable {
    /// It could not be started.
    #[error("`{program}` could not be started; install git {MIN_VERSION} or newer")]
    Spawn {
        /// What was tried.
        program: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// It did not answer `git version` as git does.
    #[error(
        "`{program} version` says {answer:?}, which is not git; install git {MIN_VERSION} or newer"
    )]
    NotGit {
        /// What was tried.
        program: PathBuf,
        /// What it said.
        answer: String,
    },
    /// It is too old.
    #[error("git {found} is too old; install git {MIN_VERSION} or newer")]
    TooOld {
        /// What is installed.
        found: GitVersion,
    },
}

impl Git {
    /// Finds `git` in the search path.
    pub fn find() -> Result<Self, GitUnusable> {
        Self::at("git")
    }

    /// Uses this program.
    pub fn at(program: impl Into<PathBuf>) -> Result<Self, GitUnusable> {
        let program = program.into();
        let version = GitVersion { major: 0, minor: 0 };
        let git = Self {
            program: program.clone(),
            version,
        };
        let limits = Limits {
            deadline: Duration::from_secs(30),
            cancel: &CancelToken::new(),
        };
        let finished = match git.run(Invocation::new(Path::new("/"), ["version"]), &limits) {
            Ok(finished) => finished,
            Err(source) => return Err(GitUnusable::Spawn { program, source }),
        };
        let answer = String::from_utf8_lossy(&finished.stdout).trim().to_owned();
        match parse_version(&answer) {
            None => Err(GitUnusable::NotGit { program, answer }),
            Some(found) if found < MIN_VERSION => Err(GitUnusable::TooOld { found }),
            Some(version) => Ok(Self { program, version }),
        }
    }

    /// The version that was found.
    #[must_use]
    pub fn version(&self) -> GitVersion {
        self.version
    }

    /// Runs one command to its end, its deadline or its cancellation.
    ///
    /// # Errors
    /// Only if it could not be started; whatever it says or does is in [`Finished`].
    pub(crate) fn run(
        &self,
        invocation: Invocation<'_>,
        limits: &Limits<'_>,
    ) -> io::Result<Finished> {
        let secrets = invocation
            .access
            .map(|a| a.secrets.clone())
            .unwrap_or_default();
        if limits.cancel.is_cancelled() {
            return Ok(Finished {
                end: End::Cancelled,
                stdout: vec![],
                stderr: String::new(),
            });
        }
        let mut child = self.command(&invocation).spawn()?;
        let group = Group::of(&child);
        let (sender, events) = channel();
        feed(&mut child, invocation.stdin);
        let most = invocation.most_output;
        drain(child.stdout.take(), most, &sender, Event::Stdout);
        let stderr = child.stderr.take();
        match invocation.listener {
            Some(listener) => {
                let stderr = stderr.map(|stderr| WithoutProgress::new(stderr, listener));
                drain(stderr, most, &sender, Event::Stderr);
            }
            None => drain(stderr, most, &sender, Event::Stderr),
        }
        let cancelled = sender.clone();
        // A send fails only when nobody waits any more.
        let _subscription = limits
            .cancel
            .on_cancel(move || drop(cancelled.send(Event::Cancelled)));
        thread::spawn(move || drop(sender.send(Event::Exited(child.wait()))));
        let mut finished = await_end(&events, group, Instant::now() + limits.deadline)?;
        finished.stderr = scrub(&finished.stderr, &secrets);
        Ok(finished)
    }

    fn command(&self, invocation: &Invocation<'_>) -> Command {
        let mut command = Command::new(&self.program);
        if invocation.for_user {
            command
                .args(&invocation.args)
                .current_dir(invocation.folder)
                .process_group(0)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .env("GIT_TERMINAL_PROMPT", "0");
            return command;
        }
        command
            .args(&invocation.args)
            .current_dir(invocation.folder)
            .process_group(0)
            .stdin(if invocation.stdin.is_empty() { Stdio::null() } else { Stdio::piped() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .env_clear()
            .envs(INHERITED.iter().filter_map(|key| Some((key, std::env::var_os(key)?))))
            // LC_ALL would change the encoding too; it and LANGUAGE are not inherited.
            .env("LC_MESSAGES", "C")
            .env("LC_CTYPE", "C.UTF-8")
            // Otherwise curl looks for .netrc in the home that the password file names.
            .env("HOME", invocation.folder)
            .env(OWNER_VARIABLE, invocation.folder)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            // A damaged object in the clone would be fetched again, and again, without end.
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            // Set but empty: nobody is asked, not even SSH_ASKPASS.
            .env("GIT_ASKPASS", "")
            .env("GIT_ALLOW_PROTOCOL", invocation.protocol);
        if let Some(git_dir) = &invocation.git_dir {
            command.env("GIT_DIR", git_dir);
        }
        if invocation.trace_http {
            command
                .env("GIT_TRACE_CURL", "1")
                .env("GIT_TRACE_CURL_NO_DATA", "1");
        }
        if let Some(access) = invocation.access {
            command.envs(access.env.iter().map(|(key, value)| (key, value)));
        }
        add_config(&mut command, invocation);
        command
    }
}

fn add_config(command: &mut Command, invocation: &Invocation<'_>) {
    let fixed = FIXED_CONFIG.iter().map(|(key, value)| (*key, *value));
    let own = invocation
        .config
        .iter()
        .map(|(key, value)| (*key, value.as_str()));
    let secret = invocation
        .access
        .into_iter()
        .flat_map(|access| &access.config);
    let secret = secret.map(|(key, value)| (*key, value.expose_secret()));
    let mut count = 0;
    for (key, value) in fixed.chain(own).chain(secret) {
        command.env(format!("GIT_CONFIG_KEY_{count}"), key);
        command.env(format!("GIT_CONFIG_VALUE_{count}"), value);
        count += 1;
    }
    command.env("GIT_CONFIG_COUNT", count.to_string());
}

/// One command line of `git` and its surroundings.
pub(crate) struct Invocation<'a> {
    /// The folder of the mirror: working directory, home and mark of ownership.
    folder: &'a Path,
    args: Vec<OsString>,
    git_dir: Option<PathBuf>,
    config: Vec<(&'static str, String)>,
    access: Option<&'a Access>,
    protocol: &'static str,
    stdin: Vec<u8>,
    trace_http: bool,
    /// More than this of either output is drained and dropped.
    most_output: usize,
    for_user: bool,
    listener: Option<PushListener>,
}

impl<'a> Invocation<'a> {
    pub(crate) fn new<S: Into<OsString>>(
        folder: &'a Path,
        args: impl IntoIterator<Item = S>,
    ) -> Self {
        Self {
            folder,
            args: args.into_iter().map(Into::into).collect(),
            git_dir: None,
            config: vec![],
            access: None,
            // An unset list would allow the default protocols.
            protocol: "none",
            stdin: vec![],
            trace_http: false,
            most_output: MAX_OUTPUT,
            for_user: false,
            listener: None,
        }
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    pub(crate) fn git_dir(mut self, git_dir: &Path) -> Self {
        self.git_dir = Some(git_dir.to_owned());
        self
    }

    pub(crate) fn config(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.config.push((key, value.into()));
        self
    }

    /// Lets the command reach the network, by this protocol only.
    pub(crate) fn access(mut self, protocol: &'static str, access: &'a Access) -> Self {
        self.protocol = protocol;
        self.access = Some(access);
        self
    }

    pub(crate) fn stdin(mut self, stdin: Vec<u8>) -> Self {
        self.stdin = stdin;
        self
    }

    /// Keeps this much of what it says.
    pub(crate) fn keep_output(mut self, bytes: usize) -> Self {
        self.most_output = bytes;
        self
    }

    /// Lets somebody hear how far a push is, which it then has to say.
    pub(crate) fn heard_by(mut self, listener: Option<&PushListener>) -> Self {
        if let Some(listener) = listener {
            self.listener = Some(listener.clone());
            self.args.push("--progress".into());
        }
        self
    }

    /// With the environment and the configuration of whoever runs this: for questions about what
    /// that person has, never for anything that touches a repository.
    pub(crate) fn for_user(mut self) -> Self {
        self.for_user = true;
        self
    }

    /// Writes the HTTP headers to standard error (Git itself leaves the credentials out).
    pub(crate) fn trace_http(mut self) -> Self {
        self.trace_http = true;
        self
    }
}

/// How long a command may run, and who may stop it.
pub(crate) struct Limits<'a> {
    pub(crate) deadline: Duration,
    pub(crate) cancel: &'a CancelToken,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Success,
    /// It said no, or was killed by somebody else.
    Failure,
    TimedOut,
    Cancelled,
}

/// What a command left behind.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) end: End,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

enum Event {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    Exited(io::Result<ExitStatus>),
    Cancelled,
}

/// The process group of a command, which bears the number of its first process.
#[derive(Clone, Copy)]
struct Group(Option<rustix::process::Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(
            i32::try_from(child.id())
                .ok()
                .and_then(rustix::process::Pid::from_raw),
        )
    }

    fn kill(self) {
        if let Some(group) = self.0 {
            // Fails only if the whole group is gone already.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

fn feed(child: &mut Child, input: Vec<u8>) {
    if let Some(mut stdin) = child.stdin.take() {
        // A command that does not read its input says why on standard error.
        thread::spawn(move || drop(stdin.write_all(&input)));
    }
}

fn drain(
    stream: Option<impl Read + Send + 'static>,
    most: usize,
    sender: &Sender<Event>,
    event: fn(Vec<u8>) -> Event,
) {
    let sender = sender.clone();
    thread::spawn(move || {
        let mut kept = Vec::new();
        if let Some(mut stream) = stream {
            // What could be read before an error is still worth showing.
            let _ = stream.by_ref().take(most as u64).read_to_end(&mut kept);
            let _ = io::copy(&mut stream, &mut io::sink());
        }
        drop(sender.send(event(kept)));
    });
}

/// Waits until the process has ended and both outputs are closed: a helper that outlives `git`
/// still holds them.
fn await_end(events: &Receiver<Event>, group: Group, deadline: Instant) -> io::Result<Finished> {
    let (mut stdout, mut stderr, mut status) = (None, None, None);
    let mut stopped = None;
    let mut until = deadline;
    while stdout.is_none() || stderr.is_none() || status.is_none() {
        let stop = match events.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Event::Stdout(bytes)) => {
                stdout = Some(bytes);
                continue;
            }
            Ok(Event::Stderr(bytes)) => {
                stderr = Some(bytes);
                continue;
            }
            Ok(Event::Exited(result)) => {
                status = Some(result?);
                continue;
            }
            Ok(Event::Cancelled) => End::Cancelled,
            Err(RecvTimeoutError::Timeout) if stopped.is_none() => End::TimedOut,
            // Killed and still holding on: nothing more can be done about it from here.
            Err(_) => break,
        };
        group.kill();
        stopped.get_or_insert(stop);
        until = Instant::now() + KILL_GRACE;
    }
    let end = match (stopped, status) {
        (Some(stopped), _) => stopped,
        (None, Some(status)) if status.success() => End::Success,
        (None, Some(status)) => {
            // A git that was killed leaves helpers which still hold the lease on the network.
            if status.signal().is_some() {
                group.kill();
            }
            End::Failure
        }
        (None, None) => End::Failure,
    };
    let stderr = String::from_utf8_lossy(&stderr.unwrap_or_default()).into_owned();
    Ok(Finished {
        end,
        stdout: stdout.unwrap_or_default(),
        stderr,
    })
}

fn scrub(text: &str, secrets: &[SecretString]) -> String {
    secrets.iter().fold(text.to_owned(), |text, secret| {
        let secret = secret.expose_secret();
        // A very short "secret" would only make the text unreadable.
        if secret.len() < 4 {
            text
        } else {
            text.replace(secret, "***")
        }
    })
}

/// Kills the programs that an earlier owner of `folder` left running: it was killed itself, or it
/// would have waited for them. Only Linux shows whose they are; elsewhere nothing happens.
pub(crate) fn kill_orphans(folder: &Path) {
    let mut mark = OsString::from(format!("{OWNER_VARIABLE}="));
    mark.push(folder);
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return;
    };
    for process in processes.flatten() {
        let name = process.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let environ = std::fs::read(process.path().join("environ")).unwrap_or_default();
        let marked = environ
            .split(|byte| *byte == 0)
            .any(|entry| entry == mark.as_encoded_bytes());
        if let Some(pid) = rustix::process::Pid::from_raw(pid).filter(|_| marked) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fake_git(folder: &Path, script: &str) -> Git {
        // Written by another process: a file that this one still holds open for writing, or that a
        // fork of it does, cannot be executed.
        let write = format!("printf '#!/bin/sh\\n%s\\n' '{script}' > git && chmod 755 git");
        let status = Command::new("sh")
            .args(["-c", &write])
            .current_dir(folder)
            .status()
            .unwrap();
        assert!(status.success());
        Git {
            program: folder.join("git"),
            version: MIN_VERSION,
        }
    }

    fn run(script: &str, deadline: Duration, cancel: &CancelToken) -> Finished {
        let folder = tempfile::tempdir().unwrap();
        let git = fake_git(folder.path(), script);
        git.run(
            Invocation::new(folder.path(), ["x"]),
            &Limits { deadline, cancel },
        )
        .unwrap()
    }

    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn outputs_and_the_end_are_reported() {
        let token = CancelToken::new();
        let finished = run("echo out; echo err >&2", LONG, &token);
        assert_eq!((finished.end, &*finished.stderr), (End::Success, "err\n"));
        assert_eq!(finished.stdout, b"out\n");
        assert_eq!(run("exit 1", LONG, &token).end, End::Failure);
    }

    #[test]
    fn the_whole_group_dies_at_the_deadline() {
        // The helper holds the pipes: without killing it, this would wait for a minute.
        let started = Instant::now();
        let finished = run(
            "sleep 60 & echo started; wait",
            Duration::from_millis(300),
            &CancelToken::new(),
        );
        assert_eq!(finished.end, End::TimedOut);
        assert_eq!(finished.stdout, b"started\n");
        assert!(started.elapsed() < KILL_GRACE);
    }

    #[test]
    fn a_helper_that_outlives_git_does_not_outlive_the_deadline() {
        let finished = run(
            "sleep 60 &",
            Duration::from_millis(300),
            &CancelToken::new(),
        );
        assert_eq!(finished.end, End::TimedOut);
    }

    #[test]
    fn cancelling_ends_what_runs_and_what_starts_later() {
        let token = CancelToken::new();
        let other = token.clone();
        let (sender, receiver) = channel();
        let running = thread::spawn(move || {
            sender.send(()).unwrap();
            run("sleep 60 & wait", LONG, &other).end
        });
        receiver.recv().unwrap();
        token.cancel();
        assert_eq!(running.join().unwrap(), End::Cancelled);
        assert_eq!(run("echo x", LONG, &token).end, End::Cancelled);
    }

    #[test]
    fn too_much_output_is_dropped_and_does_not_block() {
        let finished = run(
            "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2",
            LONG,
            &CancelToken::new(),
        );
        assert_eq!(finished.end, End::Success);
        assert_eq!(
            (finished.stdout.len(), finished.stderr.len()),
            (MAX_OUTPUT, MAX_OUTPUT)
        );
    }

    #[test]
    fn nothing_of_our_environment_or_configuration_reaches_git() {
        let finished = run("env", LONG, &CancelToken::new());
        let env = String::from_utf8(finished.stdout).unwrap();
        for expected in [
            "LC_MESSAGES=C",
            "GIT_CONFIG_NOSYSTEM=1",
            "GIT_CONFIG_GLOBAL=/dev/null",
            "GIT_TERMINAL_PROMPT=0",
            "GIT_ALLOW_PROTOCOL=none",
            "GIT_ASKPASS=",
        ] {
            assert!(
                env.lines().any(|line| line == expected),
                "{expected} in {env}"
            );
        }
        assert!(!env.contains("CARGO"), "{env}");
        assert!(!env.contains("LC_ALL"), "{env}");
    }

    #[test]
    fn secrets_are_taken_out_of_what_git_says() {
        let secrets = [SecretString::from("hunter2")];
        assert_eq!(scrub("fatal: hunter2!", &secrets), "fatal: ***!");
    }

    #[test]
    fn an_unusable_git_is_named_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let at = |script| {
            fake_git(folder.path(), script);
            Git::at(folder.path().join("git"))
                .expect_err(script)
                .to_string()
        };
        assert_eq!(
            at("echo git version 2.20.1"),
            "git 2.20 is too old; install git 2.39 or newer"
        );
        assert!(at("echo hello").contains("is not git"));
        let missing = Git::at("/nonexistent/git")
            .expect_err("nothing there")
            .to_string();
        assert!(missing.contains("install git 2.39 or newer"), "{missing}");
        assert!(Git::find().unwrap().version() >= MIN_VERSION);
    }

    #[test]
    fn orphans_of_a_folder_are_killed_and_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        let start = |folder: &Path| {
            Command::new("sleep")
                .arg("60")
                .env(OWNER_VARIABLE, folder)
                .spawn()
                .unwrap()
        };
        let (mut orphan, mut stranger) = (start(folder.path()), start(other.path()));
        kill_orphans(folder.path());
        assert_eq!(orphan.wait().unwrap().signal(), Some(9));
        assert!(stranger.try_wait().unwrap().is_none());
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }
}
