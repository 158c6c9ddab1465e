//! What each command does, one file each.

mod clean;
mod controller;
mod crds;

use std::io::{self, Write as _};
use std::process::ExitCode;

use crate::command_line::{Command, CommandLine};

/// Does what the command line says.
#[must_use]
pub fn run(CommandLine { command }: CommandLine) -> ExitCode {
    match command {
        Command::Controller(arguments) => controller::run(*arguments),
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
