//! Runs one test of this binary again, in a process of its own that may be killed.

use std::env;
use std::process::Command;

const VARIABLE: &str = "REVERSER_TESTKIT_ROLE";

/// The command that plays this role.
pub(crate) fn play(role: &str, test: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("a test runs from a file"));
    command
        .args(["--exact", test, "--nocapture"])
        .env(VARIABLE, role);
    command
}

/// Whether this process was started to play this role.
pub(crate) fn plays(role: &str) -> bool {
    env::var_os(VARIABLE).is_some_and(|played| played == role)
}
