//! What to commit: people, messages, puts and deletes.

use std::fmt;

use crate::object_id::{BlobId, CommitId};
use crate::repo_path::{FolderPath, RepoPath};
use crate::tree_edit::PathRefusal;

/// A person in a commit. Git's own check lets through names that break the commit's header, so they
/// are checked here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    name: String,
    email: String,
}

/// Why a name or an e-mail address cannot stand in a commit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {value:?} cannot stand in a commit: {problem}")]
pub struct BadPerson {
    what: &'static str,
    value: String,
    problem: &'static str,
}

impl Person {
    /// Checks both: no control characters, no angle brackets, no space around them; a name is not
    /// empty.
    pub fn new(name: &str, email: &str) -> Result<Self, BadPerson> {
        let check = |what, value: &str, may_be_empty: bool| {
            let problem = if value.is_empty() && !may_be_empty {
                "it is empty"
            } else if value.contains(|c: char| c.is_control() || c == '<' || c == '>') {
                "it contains a control character or an angle bracket"
            } else if value.trim() != value {
                "it starts or ends with a space"
            } else if value.len() > 1000 {
                "it is longer than 1000 bytes"
            } else {
                return Ok(value.to_owned());
            };
            Err(BadPerson {
                what,
                value: value.to_owned(),
                problem,
            })
        };
        Ok(Self {
            name: check("name", name, false)?,
            email: check("e-mail address", email, true)?,
        })
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The e-mail address.
    #[must_use]
    pub fn email(&self) -> &str {
        &self.email
    }
}

/// A moment, in seconds since 1970 and with the offset of a time zone in minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitTime {
    /// Seconds since 1970.
    pub seconds: u64,
    /// Minutes east of Greenwich.
    pub offset_minutes: i16,
}

impl CommitTime {
    /// In UTC.
    #[must_use]
    pub fn utc(seconds: u64) -> Self {
        Self {
            seconds,
            offset_minutes: 0,
        }
    }
}

/// Who did something, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// Who.
    pub person: Person,
    /// When.
    pub time: CommitTime,
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Person { name, email } = &self.person;
        let CommitTime {
            seconds,
            offset_minutes,
        } = self.time;
        let sign = if offset_minutes < 0 { '-' } else { '+' };
        let minutes = offset_minutes.unsigned_abs();
        write!(
            f,
            "{name} <{email}> {seconds} {sign}{:02}{:02}",
            minutes / 60,
            minutes % 60
        )
    }
}

/// One change to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A plain file with this content stands at the path. The content was staged
    /// ([`crate::StagedBlobs`]) or is somewhere in the branch already.
    Put {
        /// From the root of the repository.
        path: RepoPath,
        /// Its content.
        blob: BlobId,
    },
    /// No file stands at the path.
    Delete {
        /// From the root of the repository.
        path: RepoPath,
    },
}

impl Change {
    /// The path that it is about.
    #[must_use]
    pub fn path(&self) -> &RepoPath {
        match self {
            Self::Put { path, .. } | Self::Delete { path } => path,
        }
    }
}

/// One commit: who, why, and what becomes of which paths below one folder.
#[derive(Debug, Clone)]
pub struct CommitPlan {
    /// The folder that all changes must lie in.
    pub folder: FolderPath,
    /// Who made the change.
    pub author: Stamp,
    /// Who writes it down.
    pub committer: Stamp,
    /// Subject, body and trailers.
    pub message: String,
    /// Deletes are applied before puts; of two puts to one path the last one counts.
    pub changes: Vec<Change>,
}

/// A change that was left out, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedChange {
    /// Which commit of the plan it belonged to, counted from zero.
    pub commit: usize,
    /// The path.
    pub path: RepoPath,
    /// Why.
    pub why: PathRefusal,
}

/// What became of a plan.
#[derive(Debug)]
#[must_use = "changes may have been left out, and nothing is on the remote before it is pushed"]
pub struct Committed {
    /// What to push; `None` if nothing would change.
    pub prepared: Option<Prepared>,
    /// The commit of each entry of the plan; `None` where nothing would change.
    pub commits: Vec<Option<CommitId>>,
    /// Changes that were left out.
    pub refused: Vec<RefusedChange>,
}

/// Commits that exist here and not yet on the remote. Pushing them again is harmless: the tip that
/// they were built on decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    pub(crate) base: Tip,
    pub(crate) head: CommitId,
}

impl Prepared {
    /// The last of the commits: the branch's tip once they are pushed.
    #[must_use]
    pub fn head(&self) -> CommitId {
        self.head
    }

    /// What they were built on.
    #[must_use]
    pub fn base(&self) -> Tip {
        self.base
    }
}

/// What the branch was when it was last looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tip {
    /// The branch exists and stands here.
    Branch(CommitId),
    /// The branch does not exist. It will be made from the default branch, which stands here.
    NewFrom(CommitId),
    /// Neither exists: the first commit will be a root.
    Empty,
}

impl Tip {
    /// The commit that new ones are built on.
    #[must_use]
    pub fn base(self) -> Option<CommitId> {
        match self {
            Self::Branch(id) | Self::NewFrom(id) => Some(id),
            Self::Empty => None,
        }
    }

    /// Where the branch stands, if it exists.
    #[must_use]
    pub fn branch(self) -> Option<CommitId> {
        match self {
            Self::Branch(id) => Some(id),
            Self::NewFrom(_) | Self::Empty => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_that_would_break_a_commit_are_refused() {
        for (name, email) in [
            ("", "a@b"),
            ("a\nb", "a@b"),
            ("a<b", "a@b"),
            ("a", "a@b>\ncommitter x"),
            (" a", "a@b"),
            ("a", " a@b"),
            ("a\0", ""),
            (&"x".repeat(1001), ""),
        ] {
            assert!(Person::new(name, email).is_err(), "{name:?} {email:?}");
        }
        assert!(Person::new("system:serviceaccount:a:b", "").is_ok());
    }

    #[test]
    fn stamps_read_as_git_writes_them() {
        let stamp = |seconds, offset_minutes| Stamp {
            person: Person::new("A", "a@b").unwrap(),
            time: CommitTime {
                seconds,
                offset_minutes,
            },
        };
        assert_eq!(stamp(7, 0).to_string(), "A <a@b> 7 +0000");
        assert_eq!(stamp(7, -210).to_string(), "A <a@b> 7 -0330");
        assert_eq!(stamp(7, 120).to_string(), "A <a@b> 7 +0200");
    }
}
