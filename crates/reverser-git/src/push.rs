//! What became of a push: read from what git said, without guessing.

use crate::object_id::CommitId;
use crate::porcelain::{
    PushReport, Refusal, RemoteFailure, UnreachableCause, classify_failure, classify_refusal,
    failed_before_sending, parse_push_report, refusal_without_report, says_local_damage, summary,
};
use crate::process::{End, Finished};

/// How a push ended. None of these is an error of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "only `Pushed` means that the commits are on the remote"]
pub enum PushOutcome {
    /// The remote confirmed: this is the branch's tip.
    Pushed {
        /// The tip.
        tip: CommitId,
    },
    /// The branch is not where the commits were built on. Fetch, compute the difference again,
    /// commit and push.
    Stale {
        /// Where the branch stands now; `None` if it does not exist.
        tip: Option<CommitId>,
    },
    /// The server does not want this content, author or branch.
    Refused(Refusal),
    /// The remote was not changed: it could not be reached.
    Unreachable {
        /// What kind of obstacle it is.
        cause: UnreachableCause,
        /// What git or the server said.
        reason: String,
    },
    /// The remote was not changed: the credentials do not suffice.
    Unauthorised {
        /// What git or the server said.
        reason: String,
    },
    /// The connection was lost after something was sent, and the remote could not be asked. It may
    /// have the commits, or get them later. Pushing the same commits again is safe.
    Unknown {
        /// What is known.
        reason: String,
    },
}

impl From<RemoteFailure> for PushOutcome {
    fn from(failure: RemoteFailure) -> Self {
        match failure {
            RemoteFailure::Unauthorised { reason } => Self::Unauthorised { reason },
            RemoteFailure::Unreachable { cause, reason } => Self::Unreachable { cause, reason },
        }
    }
}

/// Options that the server gets with a push, such as `ci.skip`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PushOptions(Vec<String>);

/// A push option that the protocol cannot carry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("push option {0:?} is empty or contains a control character; write for instance `ci.skip`")]
pub struct BadPushOption(String);

impl PushOptions {
    /// Checks each option.
    pub fn new<S: Into<String>>(
        options: impl IntoIterator<Item = S>,
    ) -> Result<Self, BadPushOption> {
        let options: Vec<String> = options.into_iter().map(Into::into).collect();
        match options
            .iter()
            .find(|option| option.is_empty() || option.contains(char::is_control))
        {
            Some(bad) => Err(BadPushOption(bad.clone())),
            None => Ok(Self(options)),
        }
    }

    pub(crate) fn as_slice(&self) -> &[String] {
        &self.0
    }
}

/// What one `git push` proves.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pushed,
    /// The branch moved; where to is not known yet.
    Stale,
    /// The clone lacks an object that it should have, going by these words.
    LocalDamage(String),
    Refused(Refusal),
    /// Refused in a way that also a branch moving at that moment would explain.
    RefusedOrStale(Refusal),
    Failed(RemoteFailure),
    /// The remote may have it or not.
    Ambiguous(String),
}

/// Judges the outputs of `git push --porcelain` of one ref.
pub(crate) fn judge(finished: &Finished, full_ref: &str) -> Verdict {
    let stderr = &finished.stderr;
    let report = match parse_push_report(&finished.stdout, full_ref) {
        Ok(report) => report,
        Err(unknown) => return Verdict::Ambiguous(unknown.to_string()),
    };
    match report {
        // A report counts even if the connection was lost after it.
        PushReport::Updated if finished.end == End::Success => Verdict::Pushed,
        PushReport::Updated => Verdict::Ambiguous(summary(stderr)),
        PushReport::Stale => Verdict::Stale,
        PushReport::RemoteRejected(word) => judge_rejection(&word, stderr),
        PushReport::NoStatus => judge_silence(finished),
    }
}

fn judge_rejection(word: &str, stderr: &str) -> Verdict {
    use crate::porcelain::RefusalKind::{Busy, Other};
    // The server could not complete the pack from what it has, because we took it to have more.
    let incomplete = ["missing necessary objects", "shallow update not allowed"];
    if incomplete.contains(&word)
        || stderr.contains("unresolved delta")
        || says_local_damage(stderr)
    {
        return Verdict::LocalDamage(word.to_owned());
    }
    let refusal = classify_refusal(word, stderr);
    match refusal.kind {
        Busy | Other => Verdict::RefusedOrStale(refusal),
        _ => Verdict::Refused(refusal),
    }
}

fn judge_silence(finished: &Finished) -> Verdict {
    let stderr = &finished.stderr;
    match finished.end {
        End::TimedOut => return Verdict::Ambiguous("the push did not end in time".to_owned()),
        End::Cancelled => return Verdict::Ambiguous("the push was cancelled".to_owned()),
        End::Success => {
            return Verdict::Ambiguous("git reported nothing about the branch".to_owned());
        }
        End::Failure => {}
    }
    if let Some(refusal) = refusal_without_report(stderr) {
        return Verdict::Refused(refusal);
    }
    if says_local_damage(stderr) {
        return Verdict::LocalDamage(summary(stderr));
    }
    match classify_failure(stderr) {
        Some(failure) if failed_before_sending(&failure, stderr) => Verdict::Failed(failure),
        _ => Verdict::Ambiguous(summary(stderr)),
    }
}
