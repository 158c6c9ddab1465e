//! How a person ends the demo before its end: the first Ctrl-C lets it remove what it has made, the
//! second waits for nothing.

use std::process::Child;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::{Complaint, Exit};

/// What those who make things and those who listen for signals both know.
#[derive(Clone, Default)]
pub(super) struct Halt(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    /// Whether anything is there that has to be removed.
    made: bool,
    asked: bool,
    programs: Vec<Program>,
}

/// A program that ends with the demo.
#[derive(Clone)]
pub(super) struct Program(Arc<Mutex<Child>>);

impl Halt {
    /// Says that something is about to be made, unless it was asked to end before.
    pub(super) fn begin(&self) -> Result<(), Complaint> {
        let mut state = self.state();
        state.made = true;
        refuse(state.asked)
    }

    /// Goes on, unless it was asked to end.
    pub(super) fn check(&self) -> Result<(), Complaint> {
        refuse(self.state().asked)
    }

    /// Waits until it is asked to end.
    pub(super) fn asked(&self) {
        let wait = |state| self.0.1.wait_while(state, |state: &mut State| !state.asked);
        drop(wait(self.state()));
    }

    /// Asks to end. Tells whether there is anything to wait for.
    pub(super) fn ask(&self) -> bool {
        let mut state = self.state();
        state.asked = true;
        self.0.1.notify_all();
        state.made
    }

    /// A program that ends with the demo, however that ends.
    pub(super) fn keep(&self, child: Child) -> Program {
        let program = Program(Arc::new(Mutex::new(child)));
        self.state().programs.push(program.clone());
        program
    }

    /// Ends all programs.
    pub(super) fn end_programs(&self) {
        let programs = std::mem::take(&mut self.state().programs);
        programs.iter().for_each(Program::end);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is locked.
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refuse(asked: bool) -> Result<(), Complaint> {
    if asked {
        return Err(Complaint::new(Exit::Interrupted, "stopped"));
    }
    Ok(())
}

impl Program {
    /// Whether it has ended by itself.
    pub(super) fn has_ended(&self) -> bool {
        !matches!(self.child().try_wait(), Ok(None))
    }

    pub(super) fn end(&self) {
        let mut child = self.child();
        let _ = child.kill();
        let _ = child.wait();
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
