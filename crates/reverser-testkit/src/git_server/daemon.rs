//! `git daemon`: the git protocol as it is, without authentication.

use std::path::Path;
use std::time::Duration;

use crate::ports::Port;
use crate::process::Process;
use crate::scratch::Scratch;
use crate::wait;

/// A running `git daemon` that lets everybody fetch and push.
#[derive(Debug)]
pub struct GitDaemon {
    process: Process,
    port: Port,
    // Removed last: it holds the log.
    _scratch: Scratch,
}

impl GitDaemon {
    /// Serves the repositories below `root`.
    #[must_use]
    pub fn start(root: &Path) -> Self {
        let scratch = Scratch::create("git-daemon").expect("a folder can be made");
        let port = Port::reserve().expect("a port is free");
        let arguments = [
            "daemon".to_owned(),
            "--verbose".to_owned(),
            "--reuseaddr".to_owned(),
            "--listen=127.0.0.1".to_owned(),
            format!("--port={}", port.number()),
            "--export-all".to_owned(),
            "--enable=receive-pack".to_owned(),
            format!("--base-path={}", root.display()),
            root.display().to_string(),
        ];
        let mut process = Process::new(&scratch, "git-daemon", Path::new("git"), arguments);
        for (key, value) in super::repository::sealed_environment(scratch.path()) {
            process = process.env(key, value);
        }
        process.start().expect("git can be started");
        wait::until_blocking("git daemon to be ready", Duration::from_mins(1), || {
            let log = process.log_tail();
            if log.contains("Ready to rumble") {
                Ok(())
            } else {
                Err(log)
            }
        })
        .unwrap_or_else(|error| panic!("{error}"));
        Self {
            process,
            port,
            _scratch: scratch,
        }
    }

    /// The address of a repository below the root.
    #[must_use]
    pub fn url(&self, name: &str) -> String {
        format!("git://127.0.0.1:{}/{name}", self.port.number())
    }

    /// Its process, to be paused or killed.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }
}
