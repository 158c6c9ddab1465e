//! `completion`: what a shell needs to complete commands and flags.

use std::process::ExitCode;

use clap::CommandFactory as _;

use super::print;
use crate::command_line::{CommandLine, CompletionArguments};

pub(super) fn run(arguments: &CompletionArguments) -> ExitCode {
    let mut script = Vec::new();
    let mut command = CommandLine::command();
    clap_complete::generate(
        arguments.shell,
        &mut command,
        "gitops-reverser",
        &mut script,
    );
    // For bash, clap_complete names the commands of a program with a hyphen in two different ways.
    let script =
        String::from_utf8_lossy(&script).replace("gitops__subcmd__reverser", "gitops__reverser");
    match print(&script) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: cannot write to standard output: {error}");
            ExitCode::FAILURE
        }
    }
}
