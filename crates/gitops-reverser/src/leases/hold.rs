//! What is held, as those ask who are about to write: a cheap local question.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::boot_time::BootTime;

/// How long to wait for a keeper that is behind.
const RUN_OUT: Duration = Duration::from_millis(250);

/// What those who write want of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wish {
    /// Nothing: whoever wants it may have it.
    Nothing,
    /// To keep it if it is held, since more may come; nobody is asked for it.
    Keep,
    /// To write.
    Write,
}

/// How it stands with a lease, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Nothing is known yet.
    Unknown,
    /// It is ours.
    Held,
    /// It is another's, or was let go.
    HeldBy(String),
    /// It is nobody's.
    Free,
    /// It can be neither read nor written, for this reason.
    Unavailable(String),
}

/// One lease, seen by its keeper and by those who write under it.
#[derive(Debug)]
pub struct Hold {
    state: Mutex<State>,
    standing: watch::Sender<Standing>,
    pub(super) news: Notify,
}

#[derive(Debug)]
struct State {
    until: Option<BootTime>,
    wish: Wish,
    writing: usize,
}

/// The right to write, for as long as it lives; the lease is not given to others meanwhile.
#[derive(Debug)]
pub struct Writing(Arc<Hold>);

impl Hold {
    /// Nothing is held.
    #[must_use]
    pub fn new(wish: Wish) -> Self {
        Self {
            state: Mutex::new(State {
                until: None,
                wish,
                writing: 0,
            }),
            standing: watch::channel(Standing::Unknown).0,
            news: Notify::new(),
        }
    }

    /// Whether it is held at this moment.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.until().is_some_and(|until| BootTime::now() < until)
    }

    /// Until when it is held, which may be past.
    #[must_use]
    pub fn until(&self) -> Option<BootTime> {
        self.state().until
    }

    /// Begins to write, if it is held.
    #[must_use]
    pub fn begin_writing(self: &Arc<Self>) -> Option<Writing> {
        let mut state = self.state();
        let held = state.until.is_some_and(|until| BootTime::now() < until);
        held.then(|| {
            state.writing += 1;
            Writing(self.clone())
        })
    }

    /// Says what is wanted; its keeper acts on it at once.
    pub fn want(&self, wish: Wish) {
        let before = std::mem::replace(&mut self.state().wish, wish);
        if wish != before && wish != Wish::Keep {
            self.news.notify_one();
        }
    }

    /// How it stands, now and later.
    #[must_use]
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    /// Waits until it is held.
    pub async fn held(&self) {
        let mut standing = self.standing();
        loop {
            // The sender is this hold itself.
            let _ = standing
                .wait_for(|standing| *standing == Standing::Held)
                .await;
            if self.is_held() {
                return;
            }
            // It has run out, and its keeper is about to find that out.
            tokio::time::sleep(RUN_OUT).await;
        }
    }

    pub(super) fn wish(&self) -> Wish {
        self.state().wish
    }

    pub(super) fn is_writing(&self) -> bool {
        self.state().writing > 0
    }

    pub(super) fn set(&self, until: Option<BootTime>, standing: Standing) {
        self.state().until = until;
        self.standing.send_if_modified(|known| {
            let news = *known != standing;
            *known = standing;
            news
        });
    }

    /// Takes the right to write away, unless somebody is writing; tells whether it did.
    pub(super) fn take_away(&self) -> bool {
        let mut state = self.state();
        let idle = state.writing == 0;
        if idle {
            state.until = None;
            drop(state);
            self.standing.send_replace(Standing::Free);
        }
        idle
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.0.state().writing -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_writes_keeps_the_lease_from_being_given_away() {
        let hold = Arc::new(Hold::new(Wish::Write));
        assert!(hold.begin_writing().is_none());
        hold.set(
            Some(BootTime::now() + Duration::from_mins(1)),
            Standing::Held,
        );
        let writing = hold.begin_writing().unwrap();
        assert!(!hold.take_away() && hold.is_held());
        drop(writing);
        assert!(hold.take_away() && !hold.is_held());
        assert!(hold.begin_writing().is_none());
    }

    #[test]
    fn what_has_run_out_is_not_held_whatever_its_keeper_last_said() {
        let hold = Arc::new(Hold::new(Wish::Write));
        hold.set(Some(BootTime::now()), Standing::Held);
        assert!(!hold.is_held() && hold.begin_writing().is_none());
    }
}
