//! The program; everything it does is in the library beside it.

use std::process::ExitCode;

use clap::Parser as _;
use gitops_reverser::command_line::CommandLine;

fn main() -> ExitCode {
    gitops_reverser::commands::run(CommandLine::parse())
}
