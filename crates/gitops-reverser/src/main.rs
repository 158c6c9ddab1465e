//! The program; everything it does is in the library beside it.

use std::process::ExitCode;

use gitops_reverser::command_line::CommandLine;

fn main() -> ExitCode {
    match CommandLine::read(std::env::args_os()) {
        Ok(command_line) => gitops_reverser::commands::run(command_line),
        Err(exit) => exit,
    }
}
