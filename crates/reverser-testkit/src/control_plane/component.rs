use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use http::Request;

use super::blocking;
use crate::ports::Port;
use crate::process::{Process, ProcessError};
use crate::wait::{self, TimedOut};

/// Three seconds is usual; a machine that runs several planes at once takes longer.
const READY: Duration = Duration::from_mins(3);
/// A server that does not answer a look is looked at again.
const ONE_LOOK: Duration = Duration::from_secs(2);

/// What cannot be done with a program of the plane.
#[derive(Debug, thiserror::Error)]
pub enum ComponentError {
    /// It cannot be started or signalled.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// It ended instead of getting ready.
    #[error("{name} ended ({status}); the end of {}:\n{tail}", .log.display())]
    Ended {
        /// Its name.
        name: String,
        /// How it ended.
        status: ExitStatus,
        /// Where all of it is.
        log: PathBuf,
        /// Its last words.
        tail: String,
    },
    /// It runs, but does not get ready.
    #[error("{source}; the end of {}:\n{tail}", .log.display())]
    NotReady {
        /// Where all of it is.
        log: PathBuf,
        /// Its last words.
        tail: String,
        /// What was seen instead.
        source: TimedOut,
    },
    /// It cannot be asked whether it is ready.
    #[error("no client for {name}")]
    Client {
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
}

impl ComponentError {
    /// Where to read more, if it got as far as writing anything.
    #[must_use]
    pub fn log(&self) -> Option<&Path> {
        match self {
            Self::Ended { log, .. } | Self::NotReady { log, .. } => Some(log),
            Self::Process(_) | Self::Client { .. } => None,
        }
    }

    /// Somebody else has its port.
    pub(super) fn is_port_taken(&self) -> bool {
        matches!(self, Self::Ended { tail, .. } if tail.contains("address already in use"))
    }
}

/// One program of the plane, with a way to tell whether it is ready.
#[derive(Debug)]
pub struct Component {
    process: Process,
    health: kube::Config,
    health_path: &'static str,
    /// Held, not read: the ports stay ours while it restarts.
    _ports: Vec<Port>,
}

impl Component {
    pub(super) fn new(
        process: Process,
        mut health: kube::Config,
        health_path: &'static str,
        ports: Vec<Port>,
    ) -> Self {
        health.default_retry = false;
        Self {
            process,
            health,
            health_path,
            _ports: ports,
        }
    }

    /// Its name, which is also that of its log.
    #[must_use]
    pub fn name(&self) -> &str {
        self.process.name()
    }

    /// Its process id, if it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.process.pid()
    }

    /// The file that has both of its outputs, of all its runs.
    #[must_use]
    pub fn log(&self) -> &Path {
        self.process.log()
    }

    /// Starts it on the same port with the same data, and awaits that it is ready.
    pub fn start(&self) -> Result<(), ComponentError> {
        self.launch()?;
        self.await_ready()
    }

    /// Starts it and does not wait.
    pub(super) fn launch(&self) -> Result<(), ComponentError> {
        Ok(self.process.start()?)
    }

    /// Awaits that it is ready.
    pub fn await_ready(&self) -> Result<(), ComponentError> {
        let client_error = |source| ComponentError::Client {
            name: self.name().to_owned(),
            source: Box::new(source),
        };
        let what = format!("{} to be ready", self.name());
        let ready = blocking::run(async || {
            let client = kube::Client::try_from(self.health.clone()).map_err(client_error)?;
            let ready = wait::until(what, READY, async || match self.process.ended() {
                Ok(Some(status)) => Ok(Err(self.ended(status))),
                Err(error) => Ok(Err(error.into())),
                Ok(None) => self.look(&client).await.map(Ok),
            });
            ready.await.map_err(|source| ComponentError::NotReady {
                log: self.log().to_owned(),
                tail: self.process.log_tail(),
                source,
            })
        });
        ready?
    }

    async fn look(&self, client: &kube::Client) -> Result<(), String> {
        let request = Request::get(self.health_path).body(Vec::new());
        let request = request.expect("the path is a constant");
        match tokio::time::timeout(ONE_LOOK, client.request_text(request)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(super::describe(&error)),
            Err(_) => Err("no answer".to_owned()),
        }
    }

    fn ended(&self, status: ExitStatus) -> ComponentError {
        ComponentError::Ended {
            name: self.name().to_owned(),
            status,
            log: self.log().to_owned(),
            tail: self.process.log_tail(),
        }
    }

    /// Ends it in the orderly way; after ten seconds of that, at once.
    pub fn stop(&self) -> Result<(), ComponentError> {
        Ok(self.process.stop()?)
    }

    /// Ends it at once, as a crash does.
    pub fn kill(&self) -> Result<(), ComponentError> {
        Ok(self.process.kill()?)
    }

    /// Ends it at once, starts it again and awaits that it is ready.
    ///
    /// An orderly end waits for the clients to go, which those of a test do not, and comes to the
    /// same ten seconds later.
    pub fn restart(&self) -> Result<(), ComponentError> {
        self.kill()?;
        self.start()
    }

    /// Lets it do nothing; its connections stay open and silent.
    pub fn pause(&self) -> Result<(), ComponentError> {
        Ok(self.process.pause()?)
    }

    /// Lets it go on after [`Component::pause`].
    pub fn resume(&self) -> Result<(), ComponentError> {
        Ok(self.process.resume()?)
    }
}
