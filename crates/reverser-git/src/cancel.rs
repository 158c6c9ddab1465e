//! Stopping an operation from another thread.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Stops the `git` programs of every operation that was given a clone of this token.
///
/// Once cancelled it stays so; an operation that starts later ends at once.
#[derive(Clone, Default)]
pub struct CancelToken(Arc<Mutex<State>>);

type Waker = Box<dyn Fn() + Send>;

#[derive(Default)]
struct State {
    cancelled: bool,
    next_key: u64,
    wakers: Vec<(u64, Waker)>,
}

impl CancelToken {
    /// A token that is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops what is under way, and whatever starts later.
    pub fn cancel(&self) {
        let mut state = self.state();
        state.cancelled = true;
        for (_, wake) in state.wakers.drain(..) {
            wake();
        }
    }

    /// Whether [`Self::cancel`] was called.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.state().cancelled
    }

    /// Calls `wake` once when the token is cancelled (at once if it is already), until the guard
    /// is dropped. It is called with the token locked and must only pass the news on.
    pub(crate) fn on_cancel(&self, wake: impl Fn() + Send + 'static) -> Subscription<'_> {
        let mut state = self.state();
        let key = state.next_key;
        state.next_key += 1;
        if state.cancelled {
            wake();
        } else {
            state.wakers.push((key, Box::new(wake)));
        }
        Subscription { token: self, key }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in a critical section leaves the state half-changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken")
            .field("cancelled", &self.is_cancelled())
            .finish()
    }
}

pub(crate) struct Subscription<'a> {
    token: &'a CancelToken,
    key: u64,
}

impl Drop for Subscription<'_> {
    fn drop(&mut self) {
        self.token
            .state()
            .wakers
            .retain(|(key, _)| *key != self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn subscribers_hear_of_it_once_and_late_ones_at_once() {
        let token = CancelToken::new();
        let (sender, receiver) = mpsc::channel();
        let early = sender.clone();
        let _early = token.on_cancel(move || early.send("early").unwrap());
        let gone = sender.clone();
        drop(token.on_cancel(move || gone.send("gone").unwrap()));
        token.clone().cancel();
        let _late = token.on_cancel(move || sender.send("late").unwrap());
        token.cancel();
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), ["early", "late"]);
    }
}
