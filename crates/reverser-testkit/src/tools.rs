//! Programs that users have and the control plane has not: helm, kubeconform.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;

/// A program that `make setup` builds. That it is missing fails the test, with what to do.
#[track_caller]
#[must_use]
pub fn find(name: &str) -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hack/control-plane/build.sh");
    let folder = command::run(Command::new(script).arg("--print-tools-dir")).stdout;
    let program = Path::new(folder.trim_end()).join(name);
    assert!(
        program.is_file(),
        "{} is missing; run make setup",
        program.display()
    );
    program
}

/// A command that sees nothing of the configuration of whoever runs the tests; `home` is all that it
/// may write to.
#[track_caller]
#[must_use]
pub fn sealed(name: &str, home: &Path) -> Command {
    let mut command = Command::new(find(name));
    command.env_clear().env("HOME", home);
    command
}
