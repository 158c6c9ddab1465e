//! What `git` says, read by pure functions. Each is tested on bytes recorded from real git, also
//! on those that it must not take for its own.

mod failure;
mod push_report;
mod refusal;

use std::fmt;

use crate::object_id::CommitId;

pub use failure::{RemoteFailure, UnreachableCause};
pub(crate) use failure::{classify_failure, failed_before_sending, summary};
pub(crate) use push_report::{PushReport, parse_push_report};
pub use refusal::{Refusal, RefusalKind};
pub(crate) use refusal::{classify_refusal, refusal_without_report};

/// A version of git, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GitVersion {
    /// 2 since 2014.
    pub major: u32,
    /// Raised every few months.
    pub minor: u32,
}

impl fmt::Display for GitVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Reads the answer to `git version`.
pub(crate) fn parse_version(answer: &str) -> Option<GitVersion> {
    let mut numbers = answer.strip_prefix("git version ")?.split(['.', ' ', '-']);
    Some(GitVersion {
        major: numbers.next()?.parse().ok()?,
        minor: numbers.next()?.parse().ok()?,
    })
}

/// An answer that is not in the form that git documents.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("git's answer is not understood: {0:?}")]
pub(crate) struct UnknownAnswer(pub(crate) String);

/// Reads the answer to `git ls-remote origin <ref>`: where the ref stands, if it exists.
pub(crate) fn parse_ls_remote(
    stdout: &[u8],
    full_ref: &str,
) -> Result<Option<CommitId>, UnknownAnswer> {
    let text = String::from_utf8_lossy(stdout);
    let mut found = None;
    for line in text.lines() {
        let unknown = || UnknownAnswer(line.to_owned());
        let (id, name) = line.split_once('\t').ok_or_else(unknown)?;
        let id = id.parse().map_err(|_| unknown())?;
        // The pattern also matches `refs/x/refs/heads/main`.
        if name == full_ref {
            found = Some(id);
        }
    }
    Ok(found)
}

/// Whether `git fetch` failed only because the ref does not exist.
pub(crate) fn says_no_such_ref(stderr: &str) -> bool {
    stderr
        .lines()
        .any(|line| line.starts_with("fatal: couldn't find remote ref "))
}

/// Whether the server will not give single objects away by name.
pub(crate) fn says_no_single_objects(stderr: &str) -> bool {
    [
        "not our ref",
        "Server does not allow request for unadvertised object",
    ]
    .iter()
    .any(|text| stderr.contains(text))
}

/// Whether `git push` stumbled over our own clone: an object that the commits need is missing or
/// damaged here. The remote has not been changed.
pub(crate) fn says_local_damage(stderr: &str) -> bool {
    let local = stderr.lines().filter(|line| !line.starts_with("remote:"));
    local.into_iter().any(|line| {
        // Not "pack-objects died": it does so as well when the remote hangs up.
        [
            "not a git repository",
            "bad shallow line",
            "src refspec ",
            "unable to read ",
            "missing blob",
            "missing tree",
            "bad object ",
            "bad tree object",
            " is corrupt",
            "unable to parse object",
            "object file ",
            "inflate: data stream error",
            "does not match index",
        ]
        .iter()
        .any(|text| line.contains(text))
    })
}

/// The URL that a server redirects to, from the trace of `GIT_TRACE_CURL`, without what git itself
/// appended.
pub(crate) fn parse_redirect(trace: &str) -> Option<String> {
    let location = trace.lines().find_map(|line| {
        let (_, header) = line.split_once("<= Recv header: ")?;
        let (name, value) = header.split_once(':')?;
        name.eq_ignore_ascii_case("location")
            .then(|| value.trim().to_owned())
    })?;
    let url = location.split('?').next()?.trim_end_matches("/info/refs");
    // Whatever else a server writes there is nobody's repository URL.
    let plain = (url.starts_with("https://") || url.starts_with("http://"))
        && url.bytes().all(|byte| byte.is_ascii_graphic())
        && !url.contains('@');
    plain.then(|| url.to_owned())
}

#[cfg(test)]
mod tests;
