//! Commands that say on failure what was run, where, and what it printed.

use std::fmt::Write as _;
use std::io::{self, Read, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use crate::wait;

/// No command of a test takes longer; one that does is hanging.
const LIMIT: Duration = Duration::from_mins(5);

/// What a command printed.
#[derive(Debug, Clone)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output; what is not UTF-8 is replaced.
    pub stdout: String,
    /// Standard error; what is not UTF-8 is replaced.
    pub stderr: String,
}

/// Why a command did not do what was wanted.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// It could not be started, or not be read from.
    #[error("cannot run {command}")]
    Run {
        /// The command line and the folder.
        command: String,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// It did not end.
    #[error("{command}\n did not end within {LIMIT:?} and was killed")]
    Hangs {
        /// The command line and the folder.
        command: String,
    },
    /// It ended otherwise than wanted.
    #[error(
        "{command}\n ended with {}{}\n--- standard output\n{}\n--- standard error\n{}",
        .output.status,
        if .output.status.success() { ", but was to fail" } else { "" },
        .output.stdout.trim_end(),
        .output.stderr.trim_end(),
    )]
    Ended {
        /// The command line and the folder.
        command: String,
        /// What it printed.
        output: Output,
    },
}

/// Runs a command that is to succeed, without input; a failure fails the test.
#[track_caller]
pub fn run(command: &mut Command) -> Output {
    match try_run(command) {
        Ok(output) => output,
        Err(error) => panic!("{error}"),
    }
}

/// Runs a command that is to succeed, with this input; a failure fails the test.
#[track_caller]
pub fn run_with_input(command: &mut Command, input: &[u8]) -> Output {
    match finish(command, Some(input)).and_then(|output| wanted(command, output, true)) {
        Ok(output) => output,
        Err(error) => panic!("{error}"),
    }
}

/// Runs a command that is to fail; a success fails the test.
#[track_caller]
pub fn run_to_fail(command: &mut Command) -> Output {
    match finish(command, None).and_then(|output| wanted(command, output, false)) {
        Ok(output) => output,
        Err(error) => panic!("{error}"),
    }
}

/// Runs a command that is to succeed, without input.
pub fn try_run(command: &mut Command) -> Result<Output, CommandError> {
    let output = finish(command, None)?;
    wanted(command, output, true)
}

fn wanted(command: &Command, output: Output, success: bool) -> Result<Output, CommandError> {
    if output.status.success() == success {
        Ok(output)
    } else {
        Err(CommandError::Ended {
            command: describe(command),
            output,
        })
    }
}

fn finish(command: &mut Command, input: Option<&[u8]>) -> Result<Output, CommandError> {
    command
        .stdin(if input.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let line = describe(command);
    let failed = |source| CommandError::Run {
        command: line.clone(),
        source,
    };
    let mut child = command.spawn().map_err(failed)?;
    let stdin = child.stdin.take();
    let stdout = child.stdout.take().expect("piped above");
    let stderr = child.stderr.take().expect("piped above");
    // All three at once, so that a full pipe never blocks another.
    thread::scope(|scope| {
        let stdout = scope.spawn(|| read(stdout));
        let stderr = scope.spawn(|| read(stderr));
        if let (Some(mut stdin), Some(input)) = (stdin, input) {
            // A command may end without having read all of it.
            scope.spawn(move || drop(stdin.write_all(input)));
        }
        let status = await_end(&mut child).map_err(failed)?;
        let (stdout, stderr) = (stdout.join(), stderr.join());
        let readable = "the reader does not panic";
        Ok(status.map(|status| Output {
            status,
            stdout: stdout.expect(readable),
            stderr: stderr.expect(readable),
        }))
    })?
    .ok_or_else(|| CommandError::Hangs {
        command: line.clone(),
    })
}

/// None when it had to be killed.
fn await_end(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    let ended = wait::until_blocking("the command to end", LIMIT, || match child.try_wait() {
        Ok(Some(status)) => Some(Ok(status)),
        Ok(None) => None,
        Err(error) => Some(Err(error)),
    });
    if let Ok(status) = ended {
        return status.map(Some);
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

fn read(mut from: impl Read) -> String {
    let mut bytes = Vec::new();
    // What was read before an error is what there is to show.
    let _ = from.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The command line, quoted so that it can be pasted, and the folder.
fn describe(command: &Command) -> String {
    let mut text = String::new();
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    for word in words.map(|word| word.to_string_lossy()) {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            let _ = write!(text, "{word} ");
        } else {
            let _ = write!(text, "'{}' ", word.replace('\'', r"'\''"));
        }
    }
    let folder = command
        .get_current_dir()
        .map(PathBuf::from)
        .or_else(|| std::env::current_dir().ok());
    let folder = folder.unwrap_or_else(|| PathBuf::from("an unknown folder"));
    let _ = write!(text, "\n in {}", folder.display());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir("/");
        command
    }

    #[test]
    fn a_failure_shows_command_folder_and_both_outputs() {
        let error = try_run(&mut shell("echo said; echo complained >&2; exit 3")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "sh -c 'echo said; echo complained >&2; exit 3' \n in /\n ended with exit status: 3\n\
             --- standard output\nsaid\n--- standard error\ncomplained"
        );
    }

    #[test]
    fn input_and_output_may_be_larger_than_a_pipe() {
        let input = vec![b'x'; 1 << 20];
        let output = run_with_input(&mut shell("cat; cat </dev/null >&2"), &input);
        assert_eq!(output.stdout.len(), input.len());
    }

    #[test]
    fn a_command_that_is_to_fail_may_not_succeed() {
        assert_eq!(run_to_fail(&mut shell("exit 4")).status.code(), Some(4));
        let panic = std::panic::catch_unwind(|| run_to_fail(&mut shell("true"))).unwrap_err();
        let text = panic.downcast_ref::<String>().unwrap();
        assert!(text.contains("but was to fail"), "{text}");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = try_run(&mut Command::new("no-such-program")).unwrap_err();
        assert!(error.to_string().contains("cannot run no-such-program"));
    }
}
