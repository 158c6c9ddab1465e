//! Pushing, and settling what a lost connection leaves open.

use crate::commit_plan::{Prepared, Tip};
use crate::crash_point::crash_point;
use crate::object_id::CommitId;
use crate::push::{PushOptions, PushOutcome, Verdict, judge};
use crate::remote::RemoteProblem;

use super::{CloneError, Mirror};

impl Mirror {
    /// Pushes prepared commits, and settles by asking the remote where the connection was lost.
    ///
    /// # Errors
    /// [`CloneError`] only if git could not be run; how the push ended is a value.
    pub fn push(
        &mut self,
        prepared: &Prepared,
        options: &PushOptions,
    ) -> Result<PushOutcome, CloneError> {
        let mut reason = None;
        // The second time after a loss: the remote still shows the old tip, and that decides.
        for _ in 0..2 {
            match self.push_once(prepared, options)? {
                Verdict::Pushed => return Ok(self.pushed(prepared.head)),
                Verdict::Refused(refusal) => return Ok(PushOutcome::Refused(refusal)),
                Verdict::Failed(failure) => return Ok(failure.into()),
                Verdict::LocalDamage(words) => {
                    // Whichever object it is, the clone is made anew and contents are staged again.
                    self.damaged = true;
                    self.staged.clear()?;
                    // Where a fresh one does not help, it is the server that lacks something.
                    if std::mem::replace(&mut self.damaged_before, true) {
                        return Ok(PushOutcome::Unknown {
                            reason: format!("the server says of a fresh clone's push: {words}"),
                        });
                    }
                    return Ok(PushOutcome::Stale {
                        tip: prepared.base.branch(),
                    });
                }
                Verdict::Stale => return Ok(self.moved(prepared)),
                Verdict::RefusedOrStale(refusal) => {
                    return match self.moved(prepared) {
                        PushOutcome::Stale { tip } if tip == prepared.base.branch() => {
                            Ok(PushOutcome::Refused(refusal))
                        }
                        moved => Ok(moved),
                    };
                }
                Verdict::Ambiguous(why) => {
                    crash_point("push: ambiguous");
                    let reason = reason.get_or_insert(why);
                    match self.remote().ask_tip() {
                        Ok(tip) if tip == Some(prepared.head) => {
                            return Ok(self.pushed(prepared.head));
                        }
                        Ok(tip) if tip == prepared.base.branch() => {}
                        Ok(tip) => return Ok(PushOutcome::Stale { tip }),
                        Err(_) => {
                            return Ok(PushOutcome::Unknown {
                                reason: reason.clone(),
                            });
                        }
                    }
                }
            }
        }
        // The remote answers, and yet a push ends without a report, twice: it may be the clone.
        self.damaged = true;
        Ok(PushOutcome::Unknown {
            reason: reason.unwrap_or_default(),
        })
    }

    fn push_once(
        &mut self,
        prepared: &Prepared,
        options: &PushOptions,
    ) -> Result<Verdict, CloneError> {
        let clone = self.clone.as_ref().ok_or(CloneError::NotFetched)?;
        clone.remove_leftovers()?;
        crash_point("push: about to start");
        let remote = self.remote();
        let finished = remote.push(
            clone.path(),
            prepared,
            options,
            self.options.on_push.as_ref(),
        )?;
        crash_point("push: returned");
        let verdict = judge(&finished, &self.branch.full_ref());
        Ok(match verdict {
            // Only this knows how to find the address that a redirect names.
            Verdict::Failed(_) => match remote.explain(&finished) {
                RemoteProblem::Failed(failure) => Verdict::Failed(failure),
                _ => verdict,
            },
            verdict => verdict,
        })
    }

    /// The remote confirmed `head`.
    fn pushed(&mut self, head: CommitId) -> PushOutcome {
        // It only saves the next fetch some work; what the remote confirmed is done in any case.
        let noted = self.clone.as_ref().map(|clone| clone.set_tip(head));
        self.damaged |= noted.is_some_and(|noted| noted.is_err());
        crash_point("push: confirmed");
        self.damaged_before = false;
        self.tip = Some(Tip::Branch(head));
        PushOutcome::Pushed { tip: head }
    }

    /// The branch is not where it was expected: says where it is.
    fn moved(&mut self, prepared: &Prepared) -> PushOutcome {
        match self.remote().ask_tip() {
            Ok(tip) if tip == Some(prepared.head) => self.pushed(prepared.head),
            Ok(tip) => PushOutcome::Stale { tip },
            // Not "not pushed": git's HTTP library sends a request again by itself when it gets no
            // answer, and the refusal may be that of the second one.
            Err(_) => PushOutcome::Unknown {
                reason: "the branch moved, and the remote does not say where".to_owned(),
            },
        }
    }
}
