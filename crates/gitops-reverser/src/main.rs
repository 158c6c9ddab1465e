//! GitOps Reverser: keeps a folder of a Git branch equal to what lives in a Kubernetes cluster.

mod command_line;
mod commands;

use std::process::ExitCode;

use clap::Parser as _;

use crate::command_line::{Command, CommandLine};

fn main() -> ExitCode {
    let CommandLine { command } = CommandLine::parse();
    match command {
        Command::Clean(arguments) => commands::clean::run(&arguments),
        Command::Crds => commands::crds::run(),
    }
}
