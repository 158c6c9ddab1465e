//! Questions that a person answers with yes or no.

use std::io::{self, BufRead as _, IsTerminal as _};

use super::exit::{Complaint, Exit};

/// Asks on the terminal. `instead` says what to write where nobody is there, and `otherwise` what did
/// not happen.
pub fn agree(question: &str, instead: &str, otherwise: &str) -> Result<(), Complaint> {
    if !io::stdin().is_terminal() {
        let sentence = format!("nobody is there to be asked: {instead}");
        return Err(Complaint::new(Exit::Usage, sentence));
    }
    // Standard error keeps nothing back.
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.map_err(Complaint::failed)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        Ok(())
    } else {
        Err(Complaint::failed(otherwise))
    }
}
