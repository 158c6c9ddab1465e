//! `git push --porcelain`.

use super::UnknownAnswer;

/// What became of the one ref that was pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PushReport {
    /// The remote has it (also if it had it already).
    Updated,
    /// The stated tip is not the branch's tip; nothing was sent.
    Stale,
    /// The server said no, with this word.
    RemoteRejected(String),
    /// The connection ended before the server said anything about the ref.
    NoStatus,
}

/// Reads standard output. `full_ref` is the ref that was pushed; a report about any other is not
/// understood.
pub(crate) fn parse_push_report(
    stdout: &[u8],
    full_ref: &str,
) -> Result<PushReport, UnknownAnswer> {
    let text = String::from_utf8_lossy(stdout);
    let mut report = PushReport::NoStatus;
    for line in text.lines() {
        if line == "Done" || line.starts_with("To ") {
            continue;
        }
        let unknown = || UnknownAnswer(line.to_owned());
        let mut fields = line.splitn(3, '\t');
        let (Some(flag), Some(refs), Some(status)) = (fields.next(), fields.next(), fields.next())
        else {
            return Err(unknown());
        };
        if refs.split_once(':').is_none_or(|(_, to)| to != full_ref) {
            return Err(unknown());
        }
        report = match flag {
            " " | "*" | "=" => PushReport::Updated,
            "!" => rejection(status).ok_or_else(unknown)?,
            // `+` and `-` would be a forced update or a deletion: we ask for neither.
            _ => return Err(unknown()),
        };
    }
    Ok(report)
}

fn rejection(status: &str) -> Option<PushReport> {
    let (word, reason) = status.strip_prefix('[')?.split_once(']')?;
    let reason = reason.trim().trim_start_matches('(').trim_end_matches(')');
    match word {
        "rejected" => Some(PushReport::Stale),
        "remote rejected" => Some(PushReport::RemoteRejected(reason.to_owned())),
        "remote failure" => Some(PushReport::NoStatus),
        _ => None,
    }
}
