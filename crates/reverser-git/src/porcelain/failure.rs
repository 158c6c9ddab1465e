//! Why a remote could not be used, as far as git's messages tell.

/// Why nothing could be fetched or pushed. The reason is the server's or git's own sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteFailure {
    /// The credentials are missing, wrong, or do not suffice.
    #[error("the repository refuses the credentials: {reason}")]
    Unauthorised {
        /// What git or the server said.
        reason: String,
    },
    /// The repository could not be reached or used.
    #[error("the repository cannot be reached: {reason}")]
    Unreachable {
        /// What kind of obstacle it is.
        cause: UnreachableCause,
        /// What git or the server said.
        reason: String,
    },
}

/// What stands between us and the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnreachableCause {
    /// No connection came about.
    NotConnected,
    /// A connection ended early, or the server failed.
    Interrupted,
    /// Nothing happened within the deadline.
    TimedOut,
    /// The server's certificate, or our client certificate, is not accepted.
    Tls,
    /// The server's SSH host key is not the one in `known_hosts`.
    HostKey,
    /// The server sends us to another address; the reason names it.
    Redirect,
    /// There is no such repository, or these credentials may not see it.
    NotFound,
    /// The repository needs something that is not supported, such as SHA-256 object names.
    Unsupported,
}

/// Whether a push that failed this way has certainly changed nothing on the remote.
pub(crate) fn failed_before_sending(failure: &RemoteFailure, stderr: &str) -> bool {
    use UnreachableCause::{Interrupted, TimedOut};
    // Git says this while it looks at the refs, before it sends anything.
    stderr.contains("fatal: unable to access '")
        || !matches!(
            failure,
            RemoteFailure::Unreachable {
                cause: Interrupted | TimedOut,
                ..
            }
        )
}

enum Kind {
    Unauthorised,
    Unreachable(UnreachableCause),
}

/// The first match counts, so the more specific lines stand first.
const PATTERNS: &[(&str, Kind)] = &[
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        Kind::Unreachable(UnreachableCause::HostKey),
    ),
    (
        "Host key verification failed",
        Kind::Unreachable(UnreachableCause::HostKey),
    ),
    ("could not read Username", Kind::Unauthorised),
    ("could not read Password", Kind::Unauthorised),
    ("Authentication failed for", Kind::Unauthorised),
    ("returned error: 401", Kind::Unauthorised),
    ("returned error: 403", Kind::Unauthorised),
    ("HTTP 401", Kind::Unauthorised),
    ("HTTP 403", Kind::Unauthorised),
    ("Permission denied (", Kind::Unauthorised),
    ("ERROR: Permission to ", Kind::Unauthorised),
    ("has been marked as read only", Kind::Unauthorised),
    (
        "You are not allowed to push code to this project",
        Kind::Unauthorised,
    ),
    ("DENIED by fallthru", Kind::Unauthorised),
    ("service not enabled", Kind::Unauthorised),
    ("Too many authentication failures", Kind::Unauthorised),
    (
        "returned error: 301",
        Kind::Unreachable(UnreachableCause::Redirect),
    ),
    (
        "returned error: 302",
        Kind::Unreachable(UnreachableCause::Redirect),
    ),
    (
        "returned error: 303",
        Kind::Unreachable(UnreachableCause::Redirect),
    ),
    (
        "returned error: 307",
        Kind::Unreachable(UnreachableCause::Redirect),
    ),
    (
        "returned error: 308",
        Kind::Unreachable(UnreachableCause::Redirect),
    ),
    (
        "returned error: 404",
        Kind::Unreachable(UnreachableCause::NotFound),
    ),
    (
        "Repository not found",
        Kind::Unreachable(UnreachableCause::NotFound),
    ),
    (
        "does not appear to be a git repository",
        Kind::Unreachable(UnreachableCause::NotFound),
    ),
    (
        "could not be found or you don't have permission",
        Kind::Unreachable(UnreachableCause::NotFound),
    ),
    (
        "access denied or repository not exported",
        Kind::Unreachable(UnreachableCause::NotFound),
    ),
    ("' not found", Kind::Unreachable(UnreachableCause::NotFound)),
    (
        "mismatched algorithms",
        Kind::Unreachable(UnreachableCause::Unsupported),
    ),
    (
        "the receiving end does not support --atomic",
        Kind::Unreachable(UnreachableCause::Unsupported),
    ),
    (
        "SSL certificate problem",
        Kind::Unreachable(UnreachableCause::Tls),
    ),
    (
        "certificate verification failed",
        Kind::Unreachable(UnreachableCause::Tls),
    ),
    (
        "no alternative certificate subject name",
        Kind::Unreachable(UnreachableCause::Tls),
    ),
    (
        "does not match target host name",
        Kind::Unreachable(UnreachableCause::Tls),
    ),
    (
        "certificate has expired",
        Kind::Unreachable(UnreachableCause::Tls),
    ),
    (
        "alert certificate required",
        Kind::Unreachable(UnreachableCause::Tls),
    ),
    (
        "Certificate is required",
        Kind::Unreachable(UnreachableCause::Tls),
    ),
    (
        "gnutls_handshake() failed",
        Kind::Unreachable(UnreachableCause::Tls),
    ),
    (
        "error setting certificate",
        Kind::Unreachable(UnreachableCause::Tls),
    ),
    (
        "error reading X.509",
        Kind::Unreachable(UnreachableCause::Tls),
    ),
    (
        "SSL_ERROR_SYSCALL",
        Kind::Unreachable(UnreachableCause::Interrupted),
    ),
    (
        "Could not resolve",
        Kind::Unreachable(UnreachableCause::NotConnected),
    ),
    (
        "Temporary failure in name resolution",
        Kind::Unreachable(UnreachableCause::NotConnected),
    ),
    (
        "Failed to connect",
        Kind::Unreachable(UnreachableCause::NotConnected),
    ),
    (
        "Couldn't connect",
        Kind::Unreachable(UnreachableCause::NotConnected),
    ),
    (
        "unable to connect to",
        Kind::Unreachable(UnreachableCause::NotConnected),
    ),
    (
        "Unable to look up",
        Kind::Unreachable(UnreachableCause::NotConnected),
    ),
    (
        "ssh: connect to host",
        Kind::Unreachable(UnreachableCause::NotConnected),
    ),
    (
        "Operation too slow",
        Kind::Unreachable(UnreachableCause::TimedOut),
    ),
    (
        "returned error: ",
        Kind::Unreachable(UnreachableCause::Interrupted),
    ),
    (
        "RPC failed",
        Kind::Unreachable(UnreachableCause::Interrupted),
    ),
    (
        "Connection closed by",
        Kind::Unreachable(UnreachableCause::Interrupted),
    ),
    (
        "Connection reset",
        Kind::Unreachable(UnreachableCause::Interrupted),
    ),
    (
        "Empty reply from server",
        Kind::Unreachable(UnreachableCause::Interrupted),
    ),
    (
        "Recv failure",
        Kind::Unreachable(UnreachableCause::Interrupted),
    ),
    (
        "Send failure",
        Kind::Unreachable(UnreachableCause::Interrupted),
    ),
    (
        "TLS connection was non-properly terminated",
        Kind::Unreachable(UnreachableCause::Interrupted),
    ),
    (
        "early EOF",
        Kind::Unreachable(UnreachableCause::Interrupted),
    ),
    (
        "invalid index-pack output",
        Kind::Unreachable(UnreachableCause::Interrupted),
    ),
    (
        "transfer closed",
        Kind::Unreachable(UnreachableCause::Interrupted),
    ),
    (
        "the remote end hung up",
        Kind::Unreachable(UnreachableCause::Interrupted),
    ),
    (
        "unexpected disconnect",
        Kind::Unreachable(UnreachableCause::Interrupted),
    ),
    (
        "expected flush after ref listing",
        Kind::Unreachable(UnreachableCause::Interrupted),
    ),
    (
        "unable to access '",
        Kind::Unreachable(UnreachableCause::Interrupted),
    ),
    (
        "Could not read from remote repository",
        Kind::Unreachable(UnreachableCause::Interrupted),
    ),
];

/// Reads standard error of a command that talked to the remote; `None` if nothing in it is about
/// the remote.
pub(crate) fn classify_failure(stderr: &str) -> Option<RemoteFailure> {
    let (_, kind) = PATTERNS
        .iter()
        .find(|(pattern, _)| stderr.contains(pattern))?;
    let reason = summary(stderr);
    Some(match kind {
        Kind::Unauthorised => RemoteFailure::Unauthorised { reason },
        Kind::Unreachable(cause) => RemoteFailure::Unreachable {
            cause: *cause,
            reason,
        },
    })
}

/// Lines that git always adds and that help nobody.
const BOILERPLATE: &[&str] = &[
    "Please make sure you have the correct access rights",
    "and the repository exists.",
    "error: failed to push some refs to",
    "fatal: the remote end hung up unexpectedly",
    "@@@@@@@@",
];

/// Longer texts do not fit into a status.
const MAX: usize = 1000;

/// A failure that is the same each time is told once: how long it took is no news.
fn without_time(line: &str) -> String {
    let time = line.split_once(" after ").and_then(|(before, rest)| {
        let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let after = unit
            .strip_prefix(" ms")
            .or_else(|| unit.strip_prefix(" milliseconds"))?;
        (unit.len() < rest.len()).then(|| format!("{before}{after}"))
    });
    time.unwrap_or_else(|| line.to_owned())
}

/// What was said, on one line and of bearable length, for status and logs.
pub(crate) fn summary(stderr: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in stderr.lines() {
        // `remote:` lines are padded, and a terminal's control sequences have no place in a status.
        let line: String = line.chars().filter(|c| !c.is_control()).collect();
        let line = line
            .strip_prefix("remote:")
            .unwrap_or(&line)
            .trim()
            .to_owned();
        let line = without_time(&line);
        if !line.is_empty() && !BOILERPLATE.iter().any(|text| line.starts_with(text)) {
            lines.push(line);
        }
    }
    lines.dedup();
    let mut text = lines.join("; ");
    if text.is_empty() {
        text.push_str("no reason was given");
    }
    if text.len() > MAX {
        let end = (0..=MAX)
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}
