//! Where a change comes from, as far as it is known by now.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::join::{Chain, Verdict};
use crate::admission_record::Requester;
use crate::blob_id::BlobId;

/// Where one change comes from. Everybody who writes that change has the same one, and sees what
/// becomes known later.
#[derive(Debug)]
pub struct Origin {
    manager: Option<String>,
    /// The change is the difference between what the branch holds and what a list showed.
    chain: Option<Chain>,
    known: Mutex<Known>,
    counted: AtomicBool,
}

#[derive(Debug)]
struct Known {
    verdict: Verdict,
    behalf: Option<Arc<Requester>>,
}

impl Origin {
    /// A change that nobody is known to have made.
    #[must_use]
    pub fn unseen(manager: Option<String>) -> Self {
        Self {
            manager,
            chain: None,
            known: Mutex::new(Known {
                verdict: Verdict::Unseen,
                behalf: None,
            }),
            counted: AtomicBool::new(false),
        }
    }

    pub(super) fn of_chain(manager: Option<String>, chain: Chain) -> Self {
        Self {
            chain: Some(chain),
            ..Self::unseen(manager)
        }
    }

    /// Whether nothing but what the branch holds tells what there was before this change.
    #[must_use]
    pub fn begins_with_the_branch(&self) -> bool {
        self.chain.is_some()
    }

    /// The name that the client gave itself.
    #[must_use]
    pub fn manager(&self) -> Option<&str> {
        self.manager.as_deref()
    }

    /// Whether something is known, so that there is nothing to wait for.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.begins_with_the_branch() || self.known().verdict != Verdict::Unseen
    }

    /// Whose change it is, and on whose behalf a controller made it. `there` is what the branch holds
    /// in its place.
    #[must_use]
    pub fn verdict(&self, there: Option<BlobId>) -> (Verdict, Option<Arc<Requester>>) {
        if let Some(chain) = &self.chain {
            return (chain.from(there), None);
        }
        let known = self.known();
        (known.verdict.clone(), known.behalf.clone())
    }

    /// True the first time: one change may be written to many places, and counts once.
    #[must_use]
    pub fn counts(&self) -> bool {
        !self.counted.swap(true, Ordering::Relaxed)
    }

    pub(super) fn learn(&self, verdict: Verdict, behalf: Option<Arc<Requester>>) {
        let mut known = self.known();
        let next = match (&known.verdict, verdict) {
            (old, Verdict::Unseen) => old.clone(),
            (Verdict::Unseen, new) => new,
            (Verdict::Named(old, _), Verdict::Named(new, how)) if old.name() == new.name() => {
                Verdict::Named(new, how)
            }
            _ => Verdict::Ambiguous,
        };
        *known = Known {
            verdict: next,
            behalf: behalf.or_else(|| known.behalf.take()),
        };
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        // Nothing that is done with it can fail in between.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
