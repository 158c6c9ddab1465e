//! A real Redis on a port of its own, in memory only; with a password and TLS if wanted.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::certificates::Authority;
use crate::command;
use crate::ports::Port;
use crate::process::Process;
use crate::scratch::Scratch;
use crate::wait;

const SOON: Duration = Duration::from_mins(1);

/// How Redis is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    /// Not at all.
    None,
    /// By a password.
    Password,
    /// By a user with a password, and TLS with a certificate of its own authority.
    UserAndTls,
}

/// A Redis that ends when it is dropped.
#[derive(Debug)]
pub struct RedisServer {
    process: Process,
    port: Port,
    protection: Protection,
    scratch: Scratch,
}

impl RedisServer {
    /// What lets one in where a password is asked for.
    pub const PASSWORD: &str = "correct-horse-battery-staple";

    /// Starts one; fails the test if there is none on this machine.
    #[track_caller]
    #[must_use]
    pub fn start(protection: Protection) -> Self {
        let scratch = Scratch::create("redis").expect("a folder can be made");
        let port = Port::reserve().expect("a port is free");
        let config = config(&scratch, port.number(), protection);
        let file = write(scratch.path(), "redis.conf", &config);
        let server = Self {
            process: Process::new(&scratch, "redis", &program("server"), [file]),
            port,
            protection,
            scratch,
        };
        server.start_again();
        server
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = match self.protection {
            Protection::UserAndTls => "rediss",
            Protection::None | Protection::Password => "redis",
        };
        format!("{scheme}://127.0.0.1:{}", self.port.number())
    }

    /// The folder with `username`, `password` and `ca.crt`, as far as they are needed.
    #[must_use]
    pub fn credentials(&self) -> PathBuf {
        self.scratch.path().join("credentials")
    }

    /// What its own client prints for a command; only where it is not protected.
    #[track_caller]
    pub fn ask(&self, command: &[&str]) -> String {
        let port = self.port.number().to_string();
        let mut client = Command::new(program("cli"));
        command::run(client.args(["-p", &port]).args(command)).stdout
    }

    /// The process, to be paused, killed and started again.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Starts it after it was stopped, with nothing of what it knew.
    #[track_caller]
    pub fn start_again(&self) {
        let started = self.process.start();
        started.expect("redis-server is installed by `make setup`");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port.number()));
        let listens = || {
            let connected = TcpStream::connect(address).map(drop);
            connected.map_err(|error| format!("{error}; {}", self.process.log_tail()))
        };
        wait::until_blocking("redis listens", SOON, listens)
            .unwrap_or_else(|error| panic!("{error}"));
    }
}

fn config(scratch: &Scratch, port: u16, protection: Protection) -> String {
    let folder = scratch.path();
    let credentials = folder.join("credentials");
    fs::create_dir(&credentials).expect("a folder can be made");
    let mut config = format!(
        "bind 127.0.0.1\nsave \"\"\nappendonly no\nmaxmemory-policy noeviction\ndir {}\n",
        folder.display()
    );
    let mut set = |line: String| {
        let _infallible = writeln!(config, "{line}");
    };
    if protection != Protection::None {
        write(&credentials, "password", RedisServer::PASSWORD);
    }
    match protection {
        Protection::None => set(format!("port {port}")),
        Protection::Password => {
            set(format!(
                "port {port}\nrequirepass {}",
                RedisServer::PASSWORD
            ));
        }
        Protection::UserAndTls => {
            let authority = Authority::new("redis").expect("a certificate can be made");
            let identity = authority.issue(&["127.0.0.1"]);
            let identity = identity.expect("a certificate can be made");
            write(&credentials, "username", "reverser\n");
            let authority = write(&credentials, "ca.crt", &authority.pem());
            let certificate = write(folder, "tls.crt", &identity.certificate_pem);
            let key = write(folder, "tls.key", &identity.key_pem);
            set(format!("port 0\ntls-port {port}\ntls-auth-clients no"));
            set(format!("tls-ca-cert-file {}", authority.display()));
            set(format!("tls-cert-file {}", certificate.display()));
            set(format!("tls-key-file {}", key.display()));
            // What the operator needs, and nothing else.
            set(format!(
                "user default off\nuser reverser on >{} ~gitops-reverser:* \
                 +auth +time +xadd +xread +xtrim +pexpire",
                RedisServer::PASSWORD
            ));
        }
    }
    config
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).expect("a file can be written");
    path
}

/// The server or the client of Redis, or of Valkey, which took its place in some distributions.
fn program(part: &str) -> PathBuf {
    let folders = ["/usr/bin", "/usr/local/bin", "/usr/sbin"];
    let names = ["redis", "valkey"].map(|name| format!("{name}-{part}"));
    let all = names.iter();
    let mut all = all.flat_map(|name| folders.map(|folder| Path::new(folder).join(name)));
    let found = all.find(|path| path.exists());
    found.unwrap_or_else(|| PathBuf::from(&names[0]))
}
