//! What is told of a destination.

use reverser_api::conditions::{destination_reason, scope_reason};

use super::DestinationState;
use crate::routing::Refusal;
use crate::writer::{RemoteAnswer, Report};

/// So many refused objects are named in status.
const NAMED_SET_ASIDE: usize = 20;
/// So many scopes of which not everything is known: the API server takes no message without end.
const NAMED_UNKNOWN: usize = 20;

impl DestinationState {
    /// How many files the remote has not confirmed, those that are being written included.
    pub(in crate::writer) fn waiting_files(&self) -> usize {
        if self.compared {
            self.waiting.max(self.unconfirmed.count())
        } else if self.destination.suspend {
            // Nobody has looked at the branch, and nobody is to.
            0
        } else {
            self.wanted.len()
        }
    }

    /// Whether the server refuses something, and what it is is not known yet.
    fn is_searching(&self) -> bool {
        let refused = self.failure.as_ref();
        let refused =
            refused.is_some_and(|refusal| refusal.reason == destination_reason::PUSH_REFUSED);
        refused && self.found.is_under_way()
    }

    /// How it stands, if that is news.
    pub(in crate::writer) fn changed_report(
        &mut self,
        remote: Option<&RemoteAnswer>,
    ) -> Option<Report> {
        let unknown = (!self.unknown.is_empty()).then(|| Refusal {
            reason: scope_reason::SCOPE_UNKNOWN,
            message: unknown_sentence(&self.unknown),
        });
        let suspended = self.destination.suspend.then(|| Refusal {
            reason: destination_reason::SUSPENDED,
            message: "spec.suspend is true: nothing is written".to_owned(),
        });
        let named = self.set_aside.iter().take(NAMED_SET_ASIDE);
        let report = Report {
            objects: self.wanted.len(),
            waiting: self.waiting_files(),
            last_commit: self.last_commit,
            last_push: self.last_push,
            in_sync: self.is_in_sync(),
            round: self.round,
            unknown: self.unknown.clone(),
            failure: suspended.or_else(|| self.failure.clone()).or(unknown),
            searching: self.is_searching(),
            stopped: self.stopped.clone(),
            held_back: self.held_back,
            foreign_owner: self.foreign_owner.clone(),
            unselected: self.unselected.clone(),
            set_aside: named
                .map(|(path, aside)| (self.destination.folder.join(path), aside.message.clone()))
                .collect(),
            set_aside_objects: self.set_aside.len(),
            author_refused: self.refused_authors.sentence().map(str::to_owned),
            remote: remote.cloned(),
        };
        if self.reported.as_ref() == Some(&report) {
            return None;
        }
        self.reported = Some(report.clone());
        Some(report)
    }
}

fn unknown_sentence(unknown: &[String]) -> String {
    let named = &unknown[..unknown.len().min(NAMED_UNKNOWN)];
    let named = named.join("; ");
    let more = match unknown.len().saturating_sub(NAMED_UNKNOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("not everything is known, files stay: {named}{more}")
}
