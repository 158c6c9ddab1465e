//! Who stands in a commit as its author.
//!
//! A server may refuse an author, for instance one whose address it does not know. Then the operator
//! is the author, and the user stands in the last lines of the message.

use std::collections::BTreeSet;
use std::sync::Arc;

use reverser_api::git_repo_config::AuthorMode;
use reverser_core::attribution::How;
use reverser_core::author::{Author, AuthorMap};
use reverser_core::blob_id::BlobId;
use reverser_core::commit_message::{Attributed, Attribution};
use reverser_core::plan::PruneMode;
use reverser_core::transition_log::{Credit, Ground};
use reverser_git::{Person, RefusalKind};

use super::attempt::{Attempt, Job, Part, Tried};
use super::refusals::searching_authors;
use crate::routing::Refusal;
use crate::telemetry::facts::AuthorRefused;
use crate::telemetry::labels::DestinationLabels;

/// So many pushes are made to find out which authors a server does not take; the others of that batch
/// are not tried.
const MOST_PUSHES: usize = 24;
/// So many refused authors are remembered by name; with more, no user is tried any more.
const MOST_AUTHORS: usize = 1000;

/// Users whom a server does not take as authors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RefusedAuthors {
    names: BTreeSet<String>,
    sentence: Option<String>,
}

impl RefusedAuthors {
    /// What the server said last.
    pub(super) fn sentence(&self) -> Option<&str> {
        self.sentence.as_deref()
    }

    fn contains(&self, user: &str) -> bool {
        self.names.contains(user) || self.names.len() >= MOST_AUTHORS
    }

    fn insert(&mut self, user: &str, sentence: &str) {
        if self.names.len() < MOST_AUTHORS {
            self.names.insert(user.to_owned());
        }
        self.sentence = Some(sentence.to_owned());
    }
}

impl Job {
    /// What can be said about single changes.
    pub(super) fn ground(&self) -> Ground<'_> {
        Ground {
            equal_in_form: &self.equal_in_form,
            available: &self.contents,
            deletes_between: self.policy.mode != PruneMode::Never && self.policy.cap.is_none(),
        }
    }

    /// The user who is to be the author, as far as users may be.
    fn author<'c>(&self, credit: &'c Credit) -> Option<&'c str> {
        let named = match credit {
            Credit::User { user, .. } => Some(user.name()),
            Credit::Unknown { .. } | Credit::Reconcile => None,
        };
        named.filter(|_| self.commit.author_mode == AuthorMode::User)
    }

    /// Who stands in the commit as its author.
    pub(super) fn author_of(&self, credit: &Credit, authors: &AuthorMap) -> Person {
        let Credit::User { user, .. } = credit else {
            return self.committer.clone();
        };
        if self
            .author(credit)
            .is_none_or(|user| self.refused_authors.contains(user))
        {
            return self.committer.clone();
        }
        let Author { name, email } =
            Author::of(user, self.commit.author_domain.as_deref(), authors);
        Person::new(&name, &email).unwrap_or_else(|_| self.committer.clone())
    }

    /// What the last lines of the message say.
    pub(super) fn attributed<'c>(&self, credit: &'c Credit) -> Attributed<'c> {
        if self.commit.author_mode == AuthorMode::None && *credit != Credit::Reconcile {
            return Attributed::nobody(Attribution::Unknown);
        }
        match credit {
            Credit::User { user, how, behalf } => Attributed {
                how: match how {
                    _ if self
                        .author(credit)
                        .is_some_and(|user| self.refused_authors.contains(user)) =>
                    {
                        Attribution::Fallback
                    }
                    How::Exact => Attribution::Exact,
                    How::Coalesced => Attribution::Coalesced,
                },
                user: Some(user.name()),
                behalf: behalf.as_ref().map(|user| user.name()),
                manager: None,
            },
            Credit::Unknown { manager } => Attributed {
                manager: manager.as_deref(),
                ..Attributed::nobody(Attribution::Unknown)
            },
            Credit::Reconcile => Attributed::nobody(Attribution::Reconcile),
        }
    }
}

impl Attempt {
    /// Pushes commit by commit, and finds out which authors the server does not take. Earlier attempts
    /// may have made some pushes for that already.
    pub(super) fn push_without_authors(
        &mut self,
        parts: &[Part],
        refusal: &reverser_git::Refusal,
        pushes_before: usize,
    ) -> Result<Tried, Refusal> {
        for (at, part) in parts.iter().enumerate() {
            let pushes = pushes_before + self.pushes;
            if pushes >= MOST_PUSHES {
                for part in &parts[at..] {
                    self.refuse_author(part, &refusal.reason);
                }
                return self.push_or_narrow(parts[at..].to_vec());
            }
            let tried = match self.push(std::slice::from_ref(part))? {
                Tried::Refused(refusal)
                    if refusal.kind == RefusalKind::Author
                        && self.refuse_author(part, &refusal.reason) =>
                {
                    self.push_or_narrow(vec![part.clone()])?
                }
                // Those that follow are built on it.
                Tried::Refused(refusal) => return self.narrow(parts[at..].to_vec(), &refusal),
                tried => tried,
            };
            if matches!(tried, Tried::Written) {
                continue;
            }
            let found = &mut self.jobs[part.job].found;
            if found.is_empty() {
                found.authors = Some((refusal.clone(), pushes));
            }
            if matches!(tried, Tried::Later) {
                self.pause(&parts[at..], Some(&searching_authors(&refusal.reason)));
            }
            return Ok(tried);
        }
        Ok(Tried::Written)
    }

    fn push_or_narrow(&mut self, parts: Vec<Part>) -> Result<Tried, Refusal> {
        match self.push(&parts)? {
            Tried::Refused(refusal) => self.narrow(parts, &refusal),
            tried => {
                if matches!(tried, Tried::Later) {
                    self.pause(&parts, None);
                }
                Ok(tried)
            }
        }
    }

    /// Tries a change that is refused once more with the operator as its author: some servers say
    /// nothing that could be understood.
    pub(super) fn push_without_author(&mut self, part: &Part) -> Result<Tried, Refusal> {
        let before = self.jobs[part.job].refused_authors.clone();
        self.refuse_author(part, "the server takes the change only without its author");
        let tried = self.push(std::slice::from_ref(part));
        if !matches!(tried, Ok(Tried::Written)) {
            self.jobs[part.job].refused_authors = before;
        }
        tried
    }

    /// Whether a user stands in the commit of these changes as its author.
    pub(super) fn has_author(&self, part: &Part) -> bool {
        let job = &self.jobs[part.job];
        let author = job.author(&part.share.credit);
        author.is_some_and(|user| !job.refused_authors.contains(user))
    }

    /// Remembers that an author is refused; tells whether that is news.
    pub(super) fn refuse_author(&mut self, part: &Part, sentence: &str) -> bool {
        let job = &mut self.jobs[part.job];
        let Some(user) = job.author(&part.share.credit) else {
            return false;
        };
        if job.refused_authors.contains(user) {
            return false;
        }
        let user = user.to_owned();
        Arc::make_mut(&mut job.refused_authors).insert(&user, sentence);
        self.common.telemetry.emit(AuthorRefused {
            branch: &self.branch,
            destination: &DestinationLabels::new(&job.id.namespace, &job.id.name),
            reason: sentence,
        });
        true
    }
}

/// Whether a content can still be written.
impl reverser_core::transition_log::Available for super::contents::Contents {
    fn has(&self, blob: BlobId) -> bool {
        self.holds(blob)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_authors_are_few_or_all() {
        let mut refused = RefusedAuthors::default();
        assert!(!refused.contains("alice") && refused.sentence().is_none());
        refused.insert("alice", "no");
        assert!(refused.contains("alice") && !refused.contains("bob"));
        for index in 0..MOST_AUTHORS {
            refused.insert(&index.to_string(), "never");
        }
        assert!(refused.contains("bob"));
        assert_eq!(refused.names.len(), MOST_AUTHORS);
        assert_eq!(refused.sentence(), Some("never"));
    }
}
