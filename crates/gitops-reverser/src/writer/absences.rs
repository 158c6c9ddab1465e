//! Files that go because lists lack their objects.
//!
//! What a running operator finds missing in a list was not seen to go. One list may lack little, and
//! the lists of all types together everything: a cluster that was replaced or went back in time shows
//! itself type by type. So what lists lack waits until those that come with them have come, and what
//! went lately still counts when the guard judges what goes now.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use reverser_core::repo_path::RepoPath;

/// So long after the last list that lacked something, others are expected: those that were cut off
/// together are made again together.
const SETTLES: Duration = Duration::from_secs(5);
/// So long they are waited for while some cannot be made: their backoff ends at half a minute.
const SETTLES_AT_LAST: Duration = Duration::from_secs(40);
/// So long what went is remembered. A watch lives for five minutes at most, so that within twice that
/// time every type was asked for again.
const LATELY: Duration = Duration::from_mins(10);

#[derive(Debug, Default)]
pub(super) struct Absences {
    /// When lists first and last lacked something that waits.
    news: Option<(Instant, Instant)>,
    /// Which files went, and when.
    gone: HashMap<RepoPath, Instant>,
}

impl Absences {
    /// A list lacks an object that was known.
    pub(super) fn note(&mut self, now: Instant) {
        let (_, last) = self.news.get_or_insert((now, now));
        *last = now;
    }

    /// Until when such files stay; nothing if none waits.
    pub(super) fn settle_at(&self, all_is_known: bool) -> Option<Instant> {
        let (first, last) = self.news?;
        let at_last = first + SETTLES_AT_LAST;
        Some(if all_is_known {
            at_last.min(last + SETTLES)
        } else {
            at_last
        })
    }

    /// Whether such files stay for now.
    pub(super) fn holds(&mut self, all_is_known: bool, now: Instant) -> bool {
        let holds = self.settle_at(all_is_known).is_some_and(|at| now < at);
        if !holds {
            self.news = None;
        }
        holds
    }

    /// These files went.
    pub(super) fn went(&mut self, files: Vec<RepoPath>, now: Instant) {
        self.gone.extend(files.into_iter().map(|path| (path, now)));
    }

    /// A person has seen what went, and wants it so.
    pub(super) fn forget_gone(&mut self) {
        self.gone.clear();
    }

    /// How many went lately and did not come again.
    pub(super) fn gone(&mut self, now: Instant, is_wanted: impl Fn(&RepoPath) -> bool) -> usize {
        self.gone
            .retain(|path, at| now < *at + LATELY && !is_wanted(path));
        self.gone.len()
    }
}

#[cfg(test)]
mod tests {
    use reverser_core::object_key::{ObjectKey, TypeKey};

    use super::*;

    #[test]
    fn lists_that_come_one_after_the_other_are_waited_for_but_not_for_ever() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut absences = Absences::default();
        assert!(!absences.holds(true, start), "nothing is missing");
        absences.note(start);
        absences.note(after(4));
        assert!(absences.holds(true, after(8)));
        assert!(absences.holds(false, after(39)), "some cannot be made");
        assert!(!absences.holds(false, after(40)));
        assert_eq!(absences.settle_at(true), None, "it has come to its end");
        for seconds in 100..140 {
            absences.note(after(seconds));
        }
        assert!(absences.holds(true, after(139)));
        assert!(!absences.holds(true, after(140)), "there is no end of them");
    }

    #[test]
    fn what_went_counts_for_ten_minutes_or_until_it_comes_again_or_a_person_has_seen_it() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let path = |number: u64| {
            let maps = TypeKey::new("", "v1", "configmaps").unwrap();
            RepoPath::of(&ObjectKey::new(maps, None, format!("o{number}")).unwrap())
        };
        let nobody = |_: &RepoPath| false;
        let mut absences = Absences::default();
        for second in 0..300 {
            absences.went(vec![path(second), path(0)], after(second));
        }
        assert_eq!(
            absences.gone(after(300), nobody),
            300,
            "one of them went often"
        );
        assert_eq!(absences.gone(after(700), nobody), 200);
        assert_eq!(absences.gone(after(700), |other| *other == path(250)), 199);
        assert_eq!(absences.gone(after(900), nobody), 0);
        absences.went(vec![path(7)], after(1000));
        absences.forget_gone();
        assert_eq!(absences.gone(after(1000), nobody), 0);
    }
}
