//! What the operator is doing, read at each scrape.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::labels::BranchLabels;

/// What the operator is doing at this moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OperatorState {
    /// How many types are watched.
    pub watched_types: usize,
    /// How many scopes, a type in all namespaces or in one, could not be listed completely.
    pub unknown_scopes: usize,
    /// How many branches are being written.
    pub active_workers: usize,
    /// Every branch that has a writer.
    pub branches: Vec<BranchState>,
    /// When the operator's loop last went round; nothing where it does not run.
    pub last_round: Option<Instant>,
}

/// The loop waits for nothing that takes long: after this time without a round it hangs.
const LONGEST_ROUND: Duration = Duration::from_mins(2);
/// An attempt is bounded by the deadlines of fetch and push, several of them: after this it hangs.
const LONGEST_ATTEMPT: Duration = Duration::from_mins(20);

impl OperatorState {
    /// What makes no progress although it should, if anything does.
    #[must_use]
    pub fn stuck(&self, now: Instant) -> Option<String> {
        let longer = |since: Instant, limit| now.saturating_duration_since(since) > limit;
        if self
            .last_round
            .is_some_and(|round| longer(round, LONGEST_ROUND))
        {
            let seconds = LONGEST_ROUND.as_secs();
            return Some(format!(
                "the operator's loop has not gone round for {seconds} s"
            ));
        }
        let stuck = self.branches.iter().find(|branch| {
            let began = branch.attempt_began;
            began.is_some_and(|began| longer(began, LONGEST_ATTEMPT))
        })?;
        let (repo, branch) = (stuck.branch.repo(), stuck.branch.branch());
        let seconds = LONGEST_ATTEMPT.as_secs();
        Some(format!(
            "an attempt to write {branch} of {repo} has not ended for {seconds} s"
        ))
    }
}

/// What is waiting for one branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchState {
    /// Which branch.
    pub branch: BranchLabels,
    /// How many files wait to be pushed.
    pub queue_depth: usize,
    /// How many files stay although their objects are gone.
    pub held_back: usize,
    /// When the remote was last known to have all of a batch; nothing before the first.
    pub last_push: Option<Instant>,
    /// When the attempt began that is under way.
    pub attempt_began: Option<Instant>,
}

/// How to find out what the operator is doing.
pub(super) struct StateReader(Mutex<Box<dyn Fn() -> OperatorState + Send + Sync>>);

impl StateReader {
    pub(super) fn replace(&self, read: impl Fn() -> OperatorState + Send + Sync + 'static) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(read);
    }

    pub(super) fn read(&self) -> OperatorState {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)()
    }
}

impl Default for StateReader {
    fn default() -> Self {
        Self(Mutex::new(Box::new(OperatorState::default)))
    }
}

impl fmt::Debug for StateReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateReader").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_is_named_and_what_is_only_slow_is_not() {
        let start = Instant::now();
        let url = reverser_git::RemoteUrl::parse(
            "https://git.example.com/a",
            &[reverser_git::Scheme::Https],
        );
        let branch = reverser_git::BranchName::parse("main").unwrap();
        let mut state = OperatorState {
            last_round: Some(start),
            branches: vec![BranchState {
                branch: BranchLabels::of(&url.unwrap(), &branch),
                queue_depth: 1,
                held_back: 0,
                last_push: None,
                attempt_began: Some(start),
            }],
            ..OperatorState::default()
        };
        assert_eq!(state.stuck(start + Duration::from_mins(1)), None);
        let stuck = state.stuck(start + Duration::from_mins(3)).unwrap();
        assert!(stuck.starts_with("the operator's loop"), "{stuck}");
        state.last_round = None;
        assert_eq!(state.stuck(start + Duration::from_mins(3)), None);
        let stuck = state.stuck(start + Duration::from_mins(21)).unwrap();
        assert!(
            stuck.starts_with("an attempt to write main of https://git.example.com/a"),
            "{stuck}"
        );
        state.branches[0].attempt_began = None;
        assert_eq!(state.stuck(start + Duration::from_hours(1)), None);
    }
}
