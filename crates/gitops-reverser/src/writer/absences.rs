//! Files that go because lists lack their objects.
//!
//! What a running operator finds missing in a list was not seen to go. One list may lack little, and
//! the lists of all types together everything: a cluster that was replaced or went back in time shows
//! itself type by type. So what lists lack waits until those that come with them have come, and what
//! went lately still counts when the guard judges what goes now.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// So long after the last list that lacked something, others are expected: those that were cut off
/// together are made again together.
const SETTLES: Duration = Duration::from_secs(5);
/// So long they are waited for while some cannot be made: their backoff ends at half a minute.
const SETTLES_AT_LAST: Duration = Duration::from_secs(40);
/// So long what went is remembered. A watch lives for five minutes at most, so that within twice that
/// time every type was asked for again.
const LATELY: Duration = Duration::from_mins(10);
/// What went within so short a time is one entry.
const ENTRY: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct Absences {
    /// When lists first and last lacked something that waits.
    news: Option<(Instant, Instant)>,
    /// How many files went, and when.
    gone: VecDeque<(Instant, usize)>,
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

    /// So many files went.
    pub(super) fn went(&mut self, files: usize, now: Instant) {
        match self.gone.back_mut() {
            _ if files == 0 => {}
            Some((at, known)) if now < *at + ENTRY => *known += files,
            _ => self.gone.push_back((now, files)),
        }
    }

    /// A person has seen what went, and wants it so.
    pub(super) fn forget_gone(&mut self) {
        self.gone.clear();
    }

    /// How many went lately.
    pub(super) fn gone(&mut self, now: Instant) -> usize {
        while self.gone.front().is_some_and(|(at, _)| now >= *at + LATELY) {
            self.gone.pop_front();
        }
        self.gone.iter().map(|(_, files)| files).sum()
    }
}

#[cfg(test)]
mod tests {
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
    fn what_went_counts_for_ten_minutes_or_until_a_person_has_seen_it() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut absences = Absences::default();
        for second in 0..300 {
            absences.went(1, after(second));
        }
        assert!(absences.gone.len() <= 30);
        assert_eq!(absences.gone(after(300)), 300);
        assert!((1..300).contains(&absences.gone(after(700))));
        assert_eq!(absences.gone(after(900)), 0);
        absences.went(7, after(1000));
        absences.forget_gone();
        assert_eq!(absences.gone(after(1000)), 0);
    }
}
