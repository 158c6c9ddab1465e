//! The YAML readers of other languages, each asked for many documents in one process.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::repository;

/// Go's reader, as kubectl, Helm, Flux and Argo CD use it.
pub(crate) fn go() -> Command {
    let folder = prepare(
        "hack/control-plane/build.sh",
        &["--print-tools-dir", "yamlcheck"],
    );
    Command::new(Path::new(&folder).join("yamlcheck"))
}

/// PyYAML: the pure one, or the one on libyaml.
pub(crate) fn python(loader: &str) -> Command {
    let mut command = Command::new("python3");
    command
        .env("PYTHONPATH", prepare("hack/setup-python.sh", &[]))
        .arg(repository().join("crates/reverser-core/tests/core/read_yaml.py"))
        .arg(loader);
    command
}

/// Runs a script that installs what is missing and prints where it is.
fn prepare(script: &str, arguments: &[&str]) -> String {
    let output = Command::new(repository().join(script))
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{script}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// What a reader makes of each document: JSON, or `!error: …`.
pub(crate) fn ask(mut reader: Command, documents: &[String]) -> Vec<String> {
    let mut child = reader
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the reader starts");
    let mut input = child.stdin.take().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let answers: Vec<String> = std::thread::scope(|scope| {
        // Written beside the reading, because pipes hold little.
        scope.spawn(move || {
            for document in documents {
                write!(input, "{}\n{document}", document.len()).unwrap();
            }
        });
        output.lines().map(Result::unwrap).collect()
    });
    assert!(child.wait().unwrap().success(), "{reader:?} failed");
    assert_eq!(
        answers.len(),
        documents.len(),
        "{reader:?} answers each document"
    );
    answers
}
