//! A branch with its past, for people who ask what became of an object and when.
//!
//! Unlike a [`crate::Mirror`], which knows only the newest commit, this has all of them; it is never
//! written to.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::branch_name::BranchName;
use crate::cancel::CancelToken;
use crate::clone_cache::lock_folder;
use crate::credentials::Credentials;
use crate::mirror::FetchError;
use crate::object_id::{BlobId, CommitId};
use crate::objects::ObjectStore;
use crate::porcelain::summary;
use crate::process::{End, Git, Invocation, Limits};
use crate::remote::{Remote, Timeouts};
use crate::remote_url::RemoteUrl;
use crate::repo_path::FolderPath;
use crate::tree_snapshot::{SnapshotFailure, TreeSnapshot, read_snapshot};

const DEADLINE: Duration = Duration::from_mins(5);
/// A history that says more than this about one object is not for a terminal.
const MOST_OUTPUT: usize = 64 * 1024 * 1024;
/// Between the fields of a commit; no author, subject or trailer holds it.
const FIELD: char = '\u{1f}';
/// Before each commit.
const RECORD: char = '\u{1e}';

/// All commits of one branch.
#[derive(Debug)]
pub struct History {
    git: Git,
    git_dir: PathBuf,
    tip: CommitId,
}

/// Why a history cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The repository cannot be fetched.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The branch does not exist.
    #[error("branch {0} does not exist in the repository")]
    NoBranch(String),
    /// The program said no.
    #[error("git cannot read the history: {0}")]
    Git(String),
    /// An object cannot be read.
    #[error("the repository cannot be read: {0}")]
    Read(String),
    /// The disk.
    #[error("the repository cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// One commit that touched a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedCommit {
    /// Its name.
    pub id: String,
    /// The author's name.
    pub author: String,
    /// The author's address.
    pub email: String,
    /// When it was made, in seconds since 1970.
    pub time: i64,
    /// The first line of its message.
    pub subject: String,
    /// Its trailers, as `(key, value)`.
    pub trailers: Vec<(String, String)>,
    /// What it changed, as `git diff` shows it, if that was asked for.
    pub patch: String,
}

impl LoggedCommit {
    /// The value of a trailer.
    #[must_use]
    pub fn trailer(&self, key: &str) -> Option<&str> {
        let found = self.trailers.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_str())
    }
}

/// One line of a file, and the commit that it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlamedLine {
    /// The commit.
    pub commit: String,
    /// Its author.
    pub author: String,
    /// When, in seconds since 1970.
    pub time: i64,
    /// The line.
    pub text: String,
}

impl History {
    /// Reads a repository of this machine where it is.
    ///
    /// # Errors
    /// [`HistoryError`]
    pub fn of_local(git: Git, git_dir: &Path, branch: &BranchName) -> Result<Self, HistoryError> {
        Self::at(git, git_dir.to_owned(), branch)
    }

    /// Fetches a branch with all of its past into `folder`, which keeps it for the next time.
    ///
    /// # Errors
    /// [`HistoryError`]
    pub fn fetch(
        git: Git,
        url: &RemoteUrl,
        branch: &BranchName,
        credentials: &Credentials,
        folder: &Path,
    ) -> Result<Self, HistoryError> {
        let Some(_lock) = lock_folder(folder)? else {
            let held = format!("{} is in use by another process", folder.display());
            return Err(HistoryError::Git(held));
        };
        let folder = folder.canonicalize()?;
        let git_dir = folder.join("history.git");
        if !git_dir.join("HEAD").exists() {
            for inner in ["objects/info", "objects/pack", "refs/heads"] {
                fs::create_dir_all(git_dir.join(inner))?;
            }
            let config = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n";
            fs::write(git_dir.join("config"), config)?;
            fs::write(git_dir.join("HEAD"), "ref: refs/heads/none\n")?;
        }
        let cancel = CancelToken::new();
        let remote = Remote {
            git: &git,
            folder: &folder,
            url,
            branch,
            credentials,
            timeouts: Timeouts::default(),
            cancel: &cancel,
        };
        if !remote.fetch_history(&git_dir).map_err(FetchError::from)? {
            return Err(HistoryError::NoBranch(branch.as_str().to_owned()));
        }
        Self::at(git, git_dir, branch)
    }

    fn at(git: Git, git_dir: PathBuf, branch: &BranchName) -> Result<Self, HistoryError> {
        let nowhere = CommitId::from_bytes([0; 20]);
        let mut history = Self {
            git,
            git_dir,
            tip: nowhere,
        };
        let tip = history.commit(&branch.full_ref())?;
        history.tip = tip.ok_or_else(|| HistoryError::NoBranch(branch.as_str().to_owned()))?;
        Ok(history)
    }

    /// The newest commit.
    #[must_use]
    pub fn tip(&self) -> CommitId {
        self.tip
    }

    /// The commit that a person calls so: a name or the beginning of one, a tag, `main~3`.
    ///
    /// # Errors
    /// [`HistoryError`]
    pub fn commit(&self, revision: &str) -> Result<Option<CommitId>, HistoryError> {
        if revision.is_empty() || revision.starts_with('-') {
            return Ok(None);
        }
        let args = ["rev-parse", "--verify", "--quiet", "--end-of-options"];
        let ask = Invocation::new(&self.git_dir, args).arg(format!("{revision}^{{commit}}"));
        let (end, stdout, _) = self.run(ask)?;
        let text = String::from_utf8_lossy(&stdout);
        Ok((end == End::Success)
            .then(|| text.trim().parse().ok())
            .flatten())
    }

    /// The newest commit of the branch that is not younger than this second.
    ///
    /// # Errors
    /// [`HistoryError`]
    pub fn commit_at(&self, second: i64) -> Result<Option<CommitId>, HistoryError> {
        let args = ["rev-list", "--max-count=1"];
        let ask = Invocation::new(&self.git_dir, args)
            .arg(format!("--min-age={second}"))
            .arg(self.tip.to_string());
        let text = self.said(ask)?;
        Ok(text.trim().parse().ok())
    }

    /// The files below a folder of a commit.
    ///
    /// # Errors
    /// [`HistoryError`]
    pub fn files(
        &self,
        commit: CommitId,
        folder: &FolderPath,
    ) -> Result<TreeSnapshot, HistoryError> {
        let store = self.store()?;
        let read = store
            .tree_of(commit)
            .map_err(SnapshotFailure::Read)
            .and_then(|root| read_snapshot(&store, root, Some(folder)));
        read.map_err(|failure| HistoryError::Read(failure.to_string()))
    }

    /// The content of a file.
    ///
    /// # Errors
    /// [`HistoryError`]
    pub fn content(&self, blob: BlobId) -> Result<Vec<u8>, HistoryError> {
        let content = self.store()?.blob(blob);
        content
            .map_err(|error| HistoryError::Read(error.to_string()))?
            .ok_or_else(|| HistoryError::Read(format!("object {blob} is missing")))
    }

    /// Every path that ever fitted one of these patterns of Git (`:(glob)**/web.yaml`).
    ///
    /// # Errors
    /// [`HistoryError`]
    pub fn paths(&self, patterns: &[String]) -> Result<Vec<String>, HistoryError> {
        let args = ["log", "-z", "--format=", "--name-only", "--no-renames"];
        let ask = Invocation::new(&self.git_dir, args)
            .arg(self.tip.to_string())
            .arg("--");
        let text = self.said(patterns.iter().fold(ask, Invocation::arg))?;
        let mut paths: Vec<String> = text
            .split('\0')
            .map(|path| path.trim_start_matches('\n'))
            .filter(|path| !path.is_empty())
            .map(str::to_owned)
            .collect();
        paths.sort();
        paths.dedup();
        Ok(paths)
    }

    /// What `git` itself says of the branch: `log` or `show`, with options that no user wrote.
    ///
    /// # Errors
    /// [`HistoryError`]
    pub fn show(&self, command: &[&'static str], of: CommitId) -> Result<String, HistoryError> {
        self.said(Invocation::new(&self.git_dir, command.iter().copied()).arg(of.to_string()))
    }

    /// The commits that touched a path, newest first; all of them where no path is given.
    ///
    /// # Errors
    /// [`HistoryError`]
    pub fn log(&self, path: &str, with_patch: bool) -> Result<Vec<LoggedCommit>, HistoryError> {
        let format = format!(
            "--format={RECORD}%H{FIELD}%an{FIELD}%ae{FIELD}%at{FIELD}%s{FIELD}\
             %(trailers:only,unfold){FIELD}"
        );
        let mut ask = Invocation::new(&self.git_dir, ["log", "--no-renames"]).arg(format);
        if with_patch {
            ask = ask.arg("--patch");
        }
        let mut ask = ask.arg(self.tip.to_string()).arg("--");
        if !path.is_empty() {
            ask = ask.arg(literal(path));
        }
        let text = self.said(ask)?;
        Ok(text
            .split(RECORD)
            .skip(1)
            .filter_map(parse_commit)
            .collect())
    }

    /// The lines of a file at the tip, each with the commit that it comes from.
    ///
    /// # Errors
    /// [`HistoryError`]
    pub fn blame(&self, path: &str) -> Result<Vec<BlamedLine>, HistoryError> {
        let ask = Invocation::new(&self.git_dir, ["blame", "--line-porcelain"])
            .arg(self.tip.to_string())
            .arg("--")
            .arg(path);
        Ok(parse_blame(&self.said(ask)?))
    }

    fn store(&self) -> io::Result<ObjectStore> {
        ObjectStore::open(&self.git_dir.join("objects"))
    }

    fn said(&self, invocation: Invocation<'_>) -> Result<String, HistoryError> {
        let (end, stdout, stderr) = self.run(invocation)?;
        if end != End::Success {
            return Err(HistoryError::Git(summary(&stderr)));
        }
        if stdout.len() >= MOST_OUTPUT {
            return Err(HistoryError::Git("it has too much to say".to_owned()));
        }
        Ok(String::from_utf8_lossy(&stdout).into_owned())
    }

    fn run(&self, invocation: Invocation<'_>) -> io::Result<(End, Vec<u8>, String)> {
        let limits = Limits {
            deadline: DEADLINE,
            cancel: &CancelToken::new(),
        };
        let invocation = invocation.git_dir(&self.git_dir).keep_output(MOST_OUTPUT);
        let finished = self.git.run(invocation, &limits)?;
        Ok((finished.end, finished.stdout, finished.stderr))
    }
}

/// A path as it is: names may hold what Git takes for a pattern.
fn literal(path: &str) -> String {
    format!(":(literal){path}")
}

fn parse_commit(record: &str) -> Option<LoggedCommit> {
    let mut fields = record.splitn(7, FIELD).map(str::to_owned);
    let (id, author, email) = (fields.next()?, fields.next()?, fields.next()?);
    let time = fields.next()?.parse().ok()?;
    let subject = fields.next()?;
    let trailers = fields.next()?;
    let patch = fields.next()?.trim_matches('\n').to_owned();
    let trailers = trailers.lines().filter_map(|line| {
        let (key, value) = line.split_once(": ")?;
        Some((key.to_owned(), value.to_owned()))
    });
    Some(LoggedCommit {
        id,
        author,
        email,
        time,
        subject,
        trailers: trailers.collect(),
        patch,
    })
}

fn parse_blame(text: &str) -> Vec<BlamedLine> {
    let mut lines = Vec::new();
    let (mut commit, mut author, mut time) = (String::new(), String::new(), 0);
    let mut at_header = true;
    for line in text.lines() {
        if let Some(content) = line.strip_prefix('\t') {
            lines.push(BlamedLine {
                commit: commit.clone(),
                author: author.clone(),
                time,
                text: content.to_owned(),
            });
            at_header = true;
        } else if at_header {
            let name = line.split(' ').next().unwrap_or_default();
            name.clone_into(&mut commit);
            at_header = false;
        } else if let Some(name) = line.strip_prefix("author ") {
            name.clone_into(&mut author);
        } else if let Some(second) = line.strip_prefix("author-time ") {
            time = second.parse().unwrap_or_default();
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_read_with_its_trailers_and_its_patch() {
        let record = format!(
            "12ab{FIELD}Alice{FIELD}alice@example.com{FIELD}1700000000{FIELD}Create x{FIELD}\
             X-ConfigButler-User: alice\nX-ConfigButler-Attribution: exact\n{FIELD}\n\ndiff --git\n"
        );
        let commit = parse_commit(&record).unwrap();
        assert_eq!((&*commit.id, commit.time), ("12ab", 1_700_000_000));
        assert_eq!(commit.trailer("X-ConfigButler-Attribution"), Some("exact"));
        assert_eq!(commit.patch, "diff --git");
        assert_eq!(parse_commit("only"), None);
    }

    #[test]
    fn every_line_has_its_own_commit() {
        let text = "aa 1 1 2\nauthor Alice\nauthor-time 5\nfilename f\n\tone\n\
                    bb 2 2\nauthor Bob\nauthor-time 6\nfilename f\n\t\n";
        let lines = parse_blame(text);
        let seen: Vec<_> = lines
            .iter()
            .map(|line| (&*line.commit, &*line.author, line.time, &*line.text))
            .collect();
        assert_eq!(seen, [("aa", "Alice", 5, "one"), ("bb", "Bob", 6, "")]);
    }
}
