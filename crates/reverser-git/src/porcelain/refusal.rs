//! Why a server that could be reached did not take a push.

use super::failure::summary;

/// A push that the server turned down, with its own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What the server objects to, as far as it says.
    pub kind: RefusalKind,
    /// The server's sentence.
    pub reason: String,
}

/// What the server objects to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// A file or the whole push is too large.
    TooLarge,
    /// The author or the committer is not one that the server accepts.
    Author,
    /// The branch may not be written by these credentials.
    ProtectedBranch,
    /// Secret scanning found something.
    Secret,
    /// The server checks objects more strictly than Git itself.
    Malformed,
    /// The server does not take push options.
    PushOptions,
    /// The server could not lock the branch; trying again may help.
    Busy,
    /// A hook said no, in words that are not known.
    Hook,
    /// Anything else.
    Other,
}

/// In lower case; the first match counts.
const PATTERNS: &[(&str, RefusalKind)] = &[
    ("does not support push options", RefusalKind::PushOptions),
    ("exceeds maximum allowed size", RefusalKind::TooLarge),
    ("file size limit", RefusalKind::TooLarge),
    ("is larger than", RefusalKind::TooLarge),
    ("larger than the allowed", RefusalKind::TooLarge),
    ("exceeds github's file size", RefusalKind::TooLarge),
    ("exceeds the maximum", RefusalKind::TooLarge),
    ("http 413", RefusalKind::TooLarge),
    ("email privacy", RefusalKind::Author),
    ("author's email", RefusalKind::Author),
    ("committer's email", RefusalKind::Author),
    ("committer email", RefusalKind::Author),
    ("author email", RefusalKind::Author),
    ("commit author", RefusalKind::Author),
    ("committer name", RefusalKind::Author),
    ("author name", RefusalKind::Author),
    ("cannot push commits for", RefusalKind::Author),
    ("only push your own commits", RefusalKind::Author),
    ("is not a member of team", RefusalKind::Author),
    ("push protection", RefusalKind::Secret),
    ("push cannot contain secrets", RefusalKind::Secret),
    ("secret detection", RefusalKind::Secret),
    ("protected branch", RefusalKind::ProtectedBranch),
    (
        "must be made through a pull request",
        RefusalKind::ProtectedBranch,
    ),
    ("not allowed to push code", RefusalKind::ProtectedBranch),
    ("not permitted to push to", RefusalKind::ProtectedBranch),
    ("branch is protected", RefusalKind::ProtectedBranch),
    ("fsck error", RefusalKind::Malformed),
    ("cannot lock ref", RefusalKind::Busy),
    ("failed to update ref", RefusalKind::Busy),
    ("hook declined", RefusalKind::Hook),
];

/// Reads the word of the porcelain report (empty if there was none) and standard error.
pub(crate) fn classify_refusal(word: &str, stderr: &str) -> Refusal {
    let text = format!("{word}\n{stderr}").to_lowercase();
    let kind = PATTERNS
        .iter()
        .find(|(pattern, _)| text.contains(pattern))
        .map(|(_, kind)| *kind);
    let said: Vec<_> = stderr
        .lines()
        .filter(|line| line.starts_with("remote:"))
        .collect();
    let reason = match (said.is_empty(), word.is_empty()) {
        (false, _) => summary(&said.join("\n")),
        (true, false) => word.to_owned(),
        (true, true) => summary(stderr),
    };
    Refusal {
        kind: kind.unwrap_or(RefusalKind::Other),
        reason,
    }
}

/// Refusals that come without a report about the ref: the server or a proxy in front of it ended
/// the conversation.
pub(crate) fn refusal_without_report(stderr: &str) -> Option<Refusal> {
    [
        "does not support push options",
        "HTTP 413",
        "pack exceeds maximum allowed size",
    ]
    .iter()
    .any(|text| stderr.contains(text))
    .then(|| classify_refusal("", stderr))
}
