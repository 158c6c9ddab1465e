//! A person with a kubeconfig, a namespace and a folder, who runs the binary.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use reverser_testkit::command;
use reverser_testkit::control_plane::{ControlPlane, SharedPlane, User};
use reverser_testkit::git_server::sealed_git;
use reverser_testkit::wait;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tempfile::TempDir;

/// How long anything may take that takes a second or two.
pub(super) const SOON: Duration = Duration::from_mins(2);

pub(super) struct World {
    pub(super) plane: SharedPlane,
    pub(super) namespace: String,
    pub(super) folder: TempDir,
}

/// What a run said, and how it ended.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl World {
    /// A namespace of its own with a Deployment, a ConfigMap and a Secret.
    pub(super) fn new(name: &str) -> Self {
        let world = Self::empty(name);
        world.kubectl(&["create", "deployment", "web", "--image=nginx:1.29"]);
        world.kubectl(&[
            "create",
            "configmap",
            "settings",
            "--from-literal=colour=blue",
        ]);
        let value = "--from-literal=password=hunter2";
        world.kubectl(&["create", "secret", "generic", "db", value]);
        world
    }

    pub(super) fn empty(name: &str) -> Self {
        let plane = ControlPlane::shared();
        // Called as the test says, so that what is printed reads as it would at home.
        command::run(
            plane
                .kubectl(User::Alice)
                .args(["create", "namespace", name]),
        );
        Self {
            plane,
            namespace: name.to_owned(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Around a namespace that somebody else has made.
    pub(super) fn in_namespace(namespace: &str) -> Self {
        Self {
            plane: ControlPlane::shared(),
            namespace: namespace.to_owned(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// A kubeconfig with which alice speaks for somebody else.
    pub(super) fn impersonating(&self, user: &str) -> String {
        let text = std::fs::read_to_string(self.plane.kubeconfig(User::Alice)).unwrap();
        let mut config: serde_json::Value = serde_json::from_str(&text).unwrap();
        config["users"][0]["user"]["as"] = user.into();
        let path = self.path("impersonating.yaml");
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }

    pub(super) fn kubectl(&self, arguments: &[&str]) -> String {
        let mut kubectl = self.plane.kubectl(User::Alice);
        command::run(kubectl.args(["-n", &self.namespace]).args(arguments)).stdout
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// The binary as alice would start it: nothing of whoever runs the tests is seen.
    pub(super) fn binary(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("gitops-reverser"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.folder.path())
            .env("KUBECONFIG", self.plane.kubeconfig(User::Alice));
        command
    }

    /// Runs it to its end.
    pub(super) fn run(&self, arguments: &[&str]) -> Run {
        run(&mut self.binary(arguments))
    }

    /// Mirrors the namespace once into `backup`, which must go well.
    pub(super) fn mirror(&self, more: &[&str]) -> Run {
        let mut arguments = vec![
            "mirror",
            "--repo",
            "backup",
            "-n",
            &self.namespace,
            "--once",
        ];
        arguments.extend(more);
        let run = self.run(&arguments);
        assert_eq!(run.code, Some(0), "{run:?}");
        run
    }

    pub(super) fn git(&self, arguments: &[&str]) -> String {
        let mut git = sealed_git(&self.folder.path().join("backup"));
        command::run(git.args(arguments)).stdout
    }

    /// A script in the folder, whose git knows nothing of this machine; it ends at the first failure.
    pub(super) fn shell(&self, script: &str) {
        let git = sealed_git(self.folder.path());
        let mut shell = Command::new("sh");
        shell.args(["-ec", script]).current_dir(self.folder.path());
        shell.env_clear();
        shell.envs(
            git.get_envs()
                .filter_map(|(key, value)| Some((key, value?))),
        );
        command::run(&mut shell);
    }

    pub(super) fn files(&self) -> Vec<String> {
        let listed = self.git(&["ls-tree", "-r", "--name-only", "main"]);
        listed.lines().map(str::to_owned).collect()
    }

    /// What is different each time, made the same: names, commits, times, places.
    pub(super) fn stable(&self, text: &str) -> String {
        let folder = self.folder.path().canonicalize().unwrap();
        steady(&text.replace(&*folder.to_string_lossy(), "/home/alice"))
    }

    /// Compares with a file of `tests/golden`, which `REVERSER_BLESS=1` writes.
    #[track_caller]
    pub(super) fn golden(&self, name: &str, text: &str) {
        golden(name, &self.stable(text));
    }
}

#[track_caller]
pub(super) fn golden(name: &str, text: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let file = root.join(format!("{name}.txt"));
    if std::env::var_os("REVERSER_BLESS").is_some() {
        std::fs::create_dir_all(&root).unwrap();
        std::fs::write(&file, text).unwrap();
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        text == expected,
        "{} differs; REVERSER_BLESS=1 writes it again\n--- expected\n{expected}\n--- seen\n{text}",
        file.display()
    );
}

/// Commits and times, made the same.
fn steady(text: &str) -> String {
    let mut steady = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = |character: char| character.is_ascii_alphanumeric();
        let word = rest
            .find(|character| !is_word(character))
            .unwrap_or(rest.len());
        let time = "0000-00-00 00:00:00";
        let looks_like_time = rest.len() >= time.len()
            && rest.is_char_boundary(time.len())
            && rest.bytes().zip(time.bytes()).all(|(seen, shape)| {
                if shape == b'0' {
                    seen.is_ascii_digit()
                } else {
                    seen == shape
                }
            });
        let is_commit = |word: &str| {
            (word.len() == 10 || word.len() == 40)
                && word.bytes().all(|byte| byte.is_ascii_hexdigit())
                && word.bytes().any(|byte| byte.is_ascii_digit())
        };
        let taken = if looks_like_time {
            steady.push_str("2026-11-15 14:03:22");
            time.len()
        } else if word > 0 && is_commit(&rest[..word]) {
            steady.push_str(&"4f3c2a1b9d4f3c2a1b9d4f3c2a1b9d4f3c2a1b9d"[..word]);
            word
        } else {
            let taken = word.max(first.len_utf8());
            steady.push_str(&rest[..taken]);
            taken
        };
        rest = &rest[taken..];
    }
    steady
}

pub(super) fn run(command: &mut Command) -> Run {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    Started::of(child).end()
}

/// A run that goes on.
pub(super) struct Started {
    child: Child,
    stdout: Option<JoinHandle<String>>,
    stderr: Option<JoinHandle<String>>,
}

impl Started {
    pub(super) fn of(mut child: Child) -> Self {
        let stdout = child.stdout.take().map(gather);
        let stderr = child.stderr.take().map(gather);
        Self {
            child,
            stdout,
            stderr,
        }
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(super) fn end(mut self) -> Run {
        let status = ended(&mut self.child);
        let said = |reader: Option<JoinHandle<String>>| {
            reader
                .map(|reader| reader.join().unwrap())
                .unwrap_or_default()
        };
        Run {
            code: status.code(),
            stdout: said(self.stdout.take()),
            stderr: said(self.stderr.take()),
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ended(child: &mut Child) -> ExitStatus {
    wait::until_blocking("the binary to end", SOON, || {
        child.try_wait().unwrap().ok_or("it runs")
    })
    .unwrap_or_else(|error| panic!("{error}"))
}

fn gather(mut stream: impl std::io::Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // The end of a terminal is an error.
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// A run on a pseudo-terminal, and what it shows there.
pub(super) struct OnTerminal {
    child: Child,
    master: File,
    seen: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl OnTerminal {
    pub(super) fn start(mut command: Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let name = PathBuf::from(name.to_str().unwrap());
        let slave = OpenOptions::new()
            .read(true)
            .write(true)
            .open(name)
            .unwrap();
        let size = rustix::termios::Winsize {
            ws_row: 40,
            ws_col: 120,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        rustix::termios::tcsetwinsize(&master, size).unwrap();
        let child = command
            .env("TERM", "xterm-256color")
            .stdin(slave.try_clone().unwrap())
            .stdout(slave.try_clone().unwrap())
            .stderr(slave)
            .spawn()
            .unwrap();
        drop(command);
        let master = File::from(master);
        let seen = Arc::<Mutex<Vec<u8>>>::default();
        let (mut screen, shared) = (master.try_clone().unwrap(), seen.clone());
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = screen.read(&mut bytes) {
                shared.lock().unwrap().extend(&bytes[..length]);
            }
        });
        Self {
            child,
            master,
            seen,
            reader,
        }
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn seen(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }

    #[track_caller]
    pub(super) fn await_text(&self, text: &str) {
        wait::until_blocking(format!("{text:?} on the terminal"), SOON, || {
            let seen = self.seen();
            if seen.contains(text) {
                Ok(())
            } else {
                Err(seen)
            }
        })
        .unwrap_or_else(|error| panic!("{error}"));
    }

    pub(super) fn type_in(&mut self, text: &str) {
        use std::io::Write as _;
        self.master.write_all(text.as_bytes()).unwrap();
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(super) fn end(mut self) -> (Option<i32>, String) {
        let status = ended(&mut self.child);
        // The last words are there when the terminal ends; another process may hold on to it.
        let read = || self.reader.is_finished();
        let _ = wait::until_blocking("the last words", Duration::from_secs(5), read);
        (status.code(), self.seen())
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
