//! OpenSSH's server, with a host key and a user key of its own. It lets in the user who runs the
//! tests and nobody else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::command;
use crate::ports::Port;
use crate::process::Process;
use crate::scratch::Scratch;
use crate::wait;

/// The passphrase of [`Sshd::locked_key`].
pub const PASSPHRASE: &str = "open sesame";

/// A running sshd.
#[derive(Debug)]
pub struct Sshd {
    process: Process,
    port: Port,
    user: String,
    scratch: Scratch,
}

impl Sshd {
    /// Starts one that speaks the newest protocol that the client asks for.
    #[must_use]
    pub fn start() -> Self {
        Self::with_settings("AcceptEnv GIT_PROTOCOL\n")
    }

    /// Starts one that, like many appliances, does not pass the client's wish on: git then speaks
    /// its oldest protocol.
    #[must_use]
    pub fn start_with_old_protocol() -> Self {
        Self::with_settings("")
    }

    fn with_settings(settings: &str) -> Self {
        let scratch = Scratch::create("sshd").expect("a folder can be made");
        let port = Port::reserve().expect("a port is free");
        let user = command::run(Command::new("id").arg("-un"))
            .stdout
            .trim()
            .to_owned();
        let folder = scratch.path();
        for (name, passphrase) in [("host", ""), ("user", ""), ("locked", PASSPHRASE)] {
            make_key(folder, name, passphrase);
        }
        let public: String = ["user", "locked"]
            .map(|name| fs::read_to_string(folder.join(format!("{name}.pub"))).expect("just made"))
            .concat();
        fs::write(folder.join("authorized_keys"), public).expect("the folder is ours");
        let config = configuration(folder, &port, settings);
        fs::write(folder.join("sshd_config"), config).expect("the folder is ours");
        // Wanted by sshd when it runs as root; otherwise it cannot be made and is not needed.
        let _ = fs::create_dir_all("/run/sshd");
        let arguments = [
            "-D".to_owned(),
            "-e".to_owned(),
            "-f".to_owned(),
            path(folder, "sshd_config"),
        ];
        let process = Process::new(&scratch, "sshd", &sshd_program(), arguments);
        let server = Self {
            process,
            port,
            user,
            scratch,
        };
        server.start_again();
        server
    }

    /// Starts it after it was stopped.
    pub fn start_again(&self) {
        let before = fs::metadata(self.process.log()).map_or(0, |log| log.len());
        self.process
            .start()
            .expect("sshd can be started; hack/setup-git-servers.sh installs it");
        wait::until_blocking("sshd to listen", Duration::from_mins(1), || {
            let log = fs::read_to_string(self.process.log()).unwrap_or_default();
            let new = log
                .get(usize::try_from(before).unwrap_or(0)..)
                .unwrap_or_default();
            if new.contains("Server listening on") {
                Ok(())
            } else {
                Err(new.to_owned())
            }
        })
        .unwrap_or_else(|error| panic!("{error}"));
    }

    /// The address of a repository, by its path on this machine.
    #[must_use]
    pub fn url(&self, repository: &Path) -> String {
        format!(
            "ssh://{}@127.0.0.1:{}{}",
            self.user,
            self.port.number(),
            repository.display()
        )
    }

    /// A private key that is let in.
    #[must_use]
    pub fn key(&self) -> String {
        self.read("user")
    }

    /// A private key that is let in and locked with [`PASSPHRASE`].
    #[must_use]
    pub fn locked_key(&self) -> String {
        self.read("locked")
    }

    /// A private key that is not let in.
    #[must_use]
    pub fn strange_key(&self) -> String {
        make_key(self.scratch.path(), "strange", "");
        self.read("strange")
    }

    /// The line that a client needs in `known_hosts`.
    #[must_use]
    pub fn known_hosts(&self) -> String {
        let public = self.read("host.pub");
        let mut fields = public.split(' ');
        let (kind, key) = (
            fields.next().unwrap_or_default(),
            fields.next().unwrap_or_default(),
        );
        format!("[127.0.0.1]:{} {kind} {key}\n", self.port.number())
    }

    /// Gives it another host key, as a rebuilt server or an impostor has.
    pub fn change_host_key(&self) {
        self.process.stop().expect("sshd can be stopped");
        make_key(self.scratch.path(), "host", "");
        self.start_again();
    }

    /// Its process, to be paused or killed.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.scratch.path().join(name)).expect("made at the start")
    }
}

fn configuration(folder: &Path, port: &Port, settings: &str) -> String {
    let environment: Vec<String> = super::repository::sealed_environment(folder)
        .into_iter()
        .filter(|(key, _)| *key != "PATH")
        .map(|(key, value)| format!("\"{key}={value}\""))
        .collect();
    format!(
        "ListenAddress 127.0.0.1\nPort {port}\nHostKey {host}\nAuthorizedKeysFile {keys}\nPidFile none\n\
         StrictModes no\nUsePAM no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\n\
         KbdInteractiveAuthentication no\nMaxStartups 100:30:200\nSetEnv {environment}\n{settings}",
        port = port.number(),
        host = path(folder, "host"),
        keys = path(folder, "authorized_keys"),
        environment = environment.join(" "),
    )
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

/// sshd wants to be called by its full path.
fn sshd_program() -> PathBuf {
    let known = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd"].map(PathBuf::from);
    known
        .into_iter()
        .find(|program| program.exists())
        .expect("sshd is installed by hack/setup-git-servers.sh")
}

fn make_key(folder: &Path, name: &str, passphrase: &str) {
    for old in [name.to_owned(), format!("{name}.pub")] {
        let _ = fs::remove_file(folder.join(old));
    }
    // Few rounds: the tests are not after the passphrase's strength.
    command::run(Command::new("ssh-keygen").current_dir(folder).args([
        "-q", "-t", "ed25519", "-a", "4", "-N", passphrase, "-C", "test", "-f", name,
    ]));
}
