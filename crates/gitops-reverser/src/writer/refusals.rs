//! From what went wrong to what status says about it.

use reverser_api::conditions::{destination_reason, reason, remote_reason};
use reverser_git::{
    CloneError, FetchError, PushOutcome, RefusalKind, RemoteFailure, UnreachableCause,
};

use crate::api_read::describe;
use crate::routing::Refusal;

/// Something is wrong on this machine: the disk, the clone, the program.
pub(super) fn local(error: &dyn std::error::Error) -> Refusal {
    Refusal {
        reason: reason::PROGRESSING,
        message: describe(error),
    }
}

/// What stands in the branch keeps one destination from being written, and no other.
pub(super) fn of_one_folder(error: &CloneError) -> Option<Refusal> {
    matches!(error, CloneError::NotAFolder { .. }).then(|| Refusal {
        reason: destination_reason::PUSH_REFUSED,
        message: format!("spec.baseFolder: {error}"),
    })
}

pub(super) fn fetch(error: &FetchError) -> Refusal {
    match error {
        FetchError::Remote(RemoteFailure::Unauthorised { reason }) => unauthorised(reason),
        FetchError::Remote(RemoteFailure::Unreachable { cause, reason }) => {
            unreachable(*cause, reason)
        }
        error => local(error),
    }
}

/// The same of a question for which no clone is needed: what cannot be explained is the remote's.
pub(super) fn reach(error: &FetchError) -> Refusal {
    match error {
        FetchError::Clone(reason) => Refusal {
            reason: remote_reason::UNREACHABLE,
            message: reason.clone(),
        },
        error => fetch(error),
    }
}

/// Whether it says that the remote could not be used.
pub(super) fn is_of_remote(refusal: &Refusal) -> bool {
    [
        remote_reason::CREDENTIALS_REFUSED,
        remote_reason::HOST_NOT_TRUSTED,
        remote_reason::UNREACHABLE,
    ]
    .contains(&refusal.reason)
}

fn unauthorised(reason: &str) -> Refusal {
    Refusal {
        reason: remote_reason::CREDENTIALS_REFUSED,
        message: reason.to_owned(),
    }
}

fn unreachable(cause: UnreachableCause, message: &str) -> Refusal {
    let reason = match cause {
        UnreachableCause::Tls | UnreachableCause::HostKey => remote_reason::HOST_NOT_TRUSTED,
        _ => remote_reason::UNREACHABLE,
    };
    Refusal {
        reason,
        message: message.to_owned(),
    }
}

/// So many attempts in a row found the branch moved before they could push.
pub(super) fn moves(attempts: u32) -> Refusal {
    Refusal {
        reason: reason::PROGRESSING,
        message: format!(
            "the branch moved under {attempts} pushes in a row: somebody else writes it all the time, or \
             the server moves it by itself. The changes wait and are tried again"
        ),
    }
}

/// The server said no, with this sentence.
pub(super) fn by_server(sentence: &str) -> Refusal {
    Refusal {
        reason: destination_reason::PUSH_REFUSED,
        message: sentence.to_owned(),
    }
}

/// The same, while it is not known yet which of so many files the server means.
pub(super) fn searching(sentence: &str, files: usize) -> Refusal {
    let sentence = sentence.trim_end_matches('.');
    by_server(&format!(
        "{sentence}. Which of {files} files that is about is found out by smaller pushes, at the pace \
         that spec.push.maxPerMinute of the repository allows"
    ))
}

/// The same, while it is not known yet which authors the server means.
pub(super) fn searching_authors(sentence: &str) -> Refusal {
    let sentence = sentence.trim_end_matches('.');
    by_server(&format!(
        "{sentence}. Which authors that is about is found out by single pushes, at the pace that \
         spec.push.maxPerMinute of the repository allows"
    ))
}

/// A push that did not come to an end that the attempt can act on.
pub(super) fn push(outcome: PushOutcome) -> Refusal {
    match outcome {
        PushOutcome::Unreachable { cause, reason } => unreachable(cause, &reason),
        PushOutcome::Unauthorised { reason } => unauthorised(&reason),
        PushOutcome::Refused(refusal) => by_server(&refusal.reason),
        PushOutcome::Unknown { reason } => Refusal {
            reason: remote_reason::UNREACHABLE,
            message: reason,
        },
        PushOutcome::Pushed { .. } | PushOutcome::Stale { .. } => Refusal {
            reason: remote_reason::UNREACHABLE,
            message: "the branch moved".to_owned(),
        },
    }
}

/// Whether a smaller push may pass where a larger one was refused.
pub(super) fn depends_on_content(kind: RefusalKind) -> bool {
    match kind {
        RefusalKind::TooLarge
        | RefusalKind::Secret
        | RefusalKind::Malformed
        | RefusalKind::Hook
        | RefusalKind::Other => true,
        RefusalKind::Author
        | RefusalKind::ProtectedBranch
        | RefusalKind::PushOptions
        | RefusalKind::Busy => false,
    }
}

/// Whether the server speaks of the content by itself, so that no other push has to show that it
/// takes any.
pub(super) fn names_content(kind: RefusalKind) -> bool {
    matches!(
        kind,
        RefusalKind::TooLarge | RefusalKind::Secret | RefusalKind::Malformed
    )
}
