//! A control plane for whoever starts this: says on one line of JSON how to reach it, and ends when
//! its standard input does.

#![allow(clippy::print_stdout, reason = "that is how it answers")]

use std::io::Read as _;
use std::process::ExitCode;

use reverser_testkit::control_plane::ControlPlane;

fn main() -> ExitCode {
    let plane = match ControlPlane::builder().start() {
        Ok(plane) => plane,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    println!("{}", plane.description());
    let mut nothing = Vec::new();
    // However the other end goes away, nobody needs the plane any more.
    let _ = std::io::stdin().read_to_end(&mut nothing);
    drop(plane);
    ExitCode::SUCCESS
}
