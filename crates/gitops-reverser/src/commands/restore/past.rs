//! What the branch held at a commit or at a time.

use reverser_core::object_key::ObjectKey;
use reverser_core::redaction::REDACTED;
use reverser_core::repo_path::{PathIdentity, RepoPath};
use reverser_core::value::Value;
use reverser_core::yaml_read;
use reverser_git::{BlobId, CommitId, EntryKind, FolderPath, History, HistoryError, TreeSnapshot};

use crate::command_line::RestoreArguments;
use crate::terminal::exit::{Complaint, Exit};
use crate::terminal::object_name::ObjectName;
use crate::terminal::repository::{Purpose, Repository};
use crate::terminal::text;

/// A file that is to be an object again.
pub(super) struct Old {
    pub(super) path: RepoPath,
    pub(super) identity: PathIdentity,
    pub(super) name: String,
    pub(super) text: String,
    /// Why it cannot be one.
    pub(super) refused: Option<&'static str>,
}

/// The files that are meant, and the commit they are of.
pub(super) fn read_files(arguments: &RestoreArguments) -> Result<(CommitId, Vec<Old>), Complaint> {
    let repository = Repository::find(&arguments.repository, Purpose::Read)?;
    let history = repository.history()?;
    let commit = commit_at(&history, &arguments.at)?;
    let unreadable =
        |error: HistoryError| Complaint::new(Exit::RepositoryUnusable, error.to_string());
    let none = |what: &str| {
        Complaint::new(
            Exit::NoSuchObject,
            format!(
                "commit {:.10} of {} holds no {what}: `gitops-reverser log` tells when it did",
                commit.to_string(),
                repository.name()
            ),
        )
    };
    let base = repository.folder.as_str();
    let within = |path: &str| match (base, path.trim_matches('/')) {
        (base, "" | ".") => base.to_owned(),
        ("", path) => path.to_owned(),
        (base, path) => format!("{base}/{path}"),
    };
    let folder = FolderPath::or_root(&within(&arguments.what)).ok();
    let folder = folder.and_then(|folder| history.files(commit, &folder).ok());
    let mut paths: Vec<(String, BlobId)> = Vec::new();
    let mut add = |snapshot: &TreeSnapshot, only: Option<&str>| {
        for entry in snapshot
            .iter()
            .filter(|entry| entry.kind == EntryKind::File)
        {
            if let (Ok(path), Some(blob)) = (std::str::from_utf8(entry.path), entry.blob)
                && only.is_none_or(|only| only == path)
            {
                paths.push((path.to_owned(), blob));
            }
        }
    };
    match (
        folder.filter(|folder| !folder.is_empty()),
        ObjectName::parse(&arguments.what),
    ) {
        (Some(folder), _) => add(&folder, None),
        (None, Some(name)) => {
            let path = name.find(&history, &repository, arguments.namespace.as_deref())?;
            let all = history
                .files(commit, &repository.folder_path())
                .map_err(unreadable)?;
            add(&all, Some(&path));
        }
        (None, None) => {}
    }
    let mut files = Vec::new();
    for (path, blob) in paths {
        let below = path
            .strip_prefix(base)
            .map(|path| path.trim_start_matches('/'));
        // READMEs and other people's files are not objects.
        let Some(Ok(identity)) = below.map(RepoPath::parse) else {
            continue;
        };
        let text = history.content(blob).map_err(unreadable)?;
        let text = String::from_utf8_lossy(&text).into_owned();
        files.extend(old(identity, text));
    }
    if files.is_empty() {
        return Err(none(&arguments.what));
    }
    Ok((commit, files))
}

/// A file as an object; nothing if it says something else than its path.
fn old(identity: PathIdentity, text: String) -> Option<Old> {
    let (name, refused) = {
        let root = yaml_read::read(&text).ok()?;
        let root = root.as_map()?;
        let name = root.at(&["metadata", "name"]).and_then(Value::as_str)?;
        let redacted = root.at(&["metadata", "annotations", REDACTED]).is_some();
        let refused =
            redacted.then_some("its values are redacted, and would overwrite the real ones");
        (name.to_owned(), refused)
    };
    let key = ObjectKey::new(
        identity.type_key.clone(),
        identity.namespace.clone(),
        &*name,
    );
    Some(Old {
        path: RepoPath::of(&key.ok()?),
        identity,
        name,
        text,
        refused,
    })
}

/// The commit that a person means: by name, or the last one before a time.
fn commit_at(history: &History, at: &str) -> Result<CommitId, Complaint> {
    let unreadable =
        |error: HistoryError| Complaint::new(Exit::RepositoryUnusable, error.to_string());
    // The clone that is read has no HEAD of its own.
    let revision = match at.strip_prefix("HEAD") {
        Some(rest) => format!("{}{rest}", history.tip()),
        None => at.to_owned(),
    };
    if let Some(commit) = history.commit(&revision).map_err(unreadable)? {
        return Ok(commit);
    }
    let now = jiff::Timestamp::now().as_second();
    let second = second_of(at, now).ok_or_else(|| {
        let sentence = format!(
            "--at: {at:?} is neither a commit of the branch nor a time: write for instance 4f3c2a1, \
             2026-11-15T14:00:00Z, 2026-11-15 or 3h"
        );
        Complaint::new(Exit::Usage, sentence)
    })?;
    let found = history.commit_at(second).map_err(unreadable)?;
    found.ok_or_else(|| {
        let sentence = format!("--at: the branch is younger than {}", text::time(second));
        Complaint::new(Exit::NoSuchObject, sentence)
    })
}

fn second_of(text: &str, now: i64) -> Option<i64> {
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Some(time.as_second());
    }
    if let Ok(date) = text.parse::<jiff::civil::Date>() {
        let midnight = date.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
        return Some(midnight.timestamp().as_second());
    }
    let unit = text.chars().last()?;
    let length: i64 = text[..text.len() - unit.len_utf8()].parse().ok()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return None,
    };
    now.checked_sub(length.checked_mul(seconds)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_moment_a_day_or_a_while_ago() {
        assert_eq!(second_of("1970-01-01T00:01:00Z", 0), Some(60));
        assert_eq!(second_of("1970-01-02", 0), Some(86_400));
        assert_eq!(second_of("3h", 20_000), Some(20_000 - 10_800));
        assert_eq!(second_of("90m", 6_000), Some(600));
        for bad in ["", "h", "3w", "yesterday", "9999999999999999999d"] {
            assert_eq!(second_of(bad, 0), None, "{bad}");
        }
    }

    #[test]
    fn a_redacted_secret_is_not_brought_back() {
        let identity = RepoPath::parse("core/v1/secrets/shop/db.yaml").unwrap();
        let text = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\n  annotations:\n    \
                    configbutler.ai/redacted: \"true\"\n";
        assert!(old(identity, text.to_owned()).unwrap().refused.is_some());
    }
}
