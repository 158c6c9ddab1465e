//! One file for each command.

pub(crate) mod clean;
pub(crate) mod crds;

use std::io::{self, Write as _};

/// Writes to standard output. Whoever stops reading has seen enough: that is no error.
fn print(text: &str) -> io::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}
