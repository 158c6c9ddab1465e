//! What each command does, one file each.

mod clean;
mod completion;
mod controller;
mod crds;
mod demo;
mod log;
mod mirror;
mod restore;
mod status;
mod verify;

use std::io::{self, Write as _};
use std::process::ExitCode;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::command_line::{Command, CommandLine};
use crate::terminal::exit::{Complaint, Exit};

/// Does what the command line says.
#[must_use]
pub fn run(CommandLine { command }: CommandLine) -> ExitCode {
    match command {
        Command::Controller(arguments) => controller::run(*arguments),
        Command::Mirror(arguments) => mirror::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::Log(arguments) => log::log(&arguments),
        Command::Blame(arguments) => log::blame(&arguments),
        Command::Restore(arguments) => restore::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Completion(arguments) => completion::run(&arguments),
        Command::Clean(arguments) => clean::run(&arguments),
        Command::Crds => crds::run(),
    }
}

/// Writes to standard output. Whoever stops reading has seen enough: that is no error.
fn print(text: &str) -> io::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// The signals by which a pod, a service manager or a person ends a program.
struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl EndSignals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Does something that can be left at any time, unless a person has waited enough.
    async fn unless<T>(
        &mut self,
        task: impl Future<Output = Result<T, Complaint>>,
    ) -> Result<T, Complaint> {
        tokio::select! {
            result = task => result,
            _ = self.next() => Err(Complaint::new(Exit::Interrupted, "stopped; nothing was changed")),
        }
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Runs a command that waits for servers. What has not ended with it is not waited for.
fn block_on<T>(command: impl Future<Output = Result<T, Complaint>>) -> Result<T, Complaint> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Complaint::failed(format!("cannot start threads: {error}")))?;
    let result = runtime.block_on(command);
    runtime.shutdown_background();
    result
}
