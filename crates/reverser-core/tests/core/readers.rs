//! The YAML readers of other languages, each asked for many documents in one process.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use crate::repository;

/// Go's reader, as kubectl, Helm, Flux and Argo CD use it.
pub(crate) fn go() -> Command {
    let build = repository().join("hack/control-plane/build.sh");
    let output = Command::new(&build)
        .arg("--print-tools-dir")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let folder = String::from_utf8(output.stdout).unwrap();
    let program = std::path::Path::new(folder.trim()).join("yamlcheck");
    assert!(
        program.exists(),
        "yamlcheck is not built: run `make control-plane`"
    );
    Command::new(program)
}

/// PyYAML: the pure one, or the one on libyaml.
pub(crate) fn python(loader: &str) -> Command {
    let python = std::env::var("REVERSER_PYTHON").unwrap_or_else(|_| "python3".into());
    let mut command = Command::new(python);
    command
        .arg(repository().join("crates/reverser-core/tests/core/read_yaml.py"))
        .arg(loader);
    command
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
