//! Types with objects that cannot be read are listed again, less and less often: somebody may have
//! repaired them, and until then each list costs as much as the first one.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use reverser_core::object_key::TypeKey;

/// The first time.
const FIRST: Duration = Duration::from_mins(1);

pub(super) struct Relisting {
    first: Duration,
    longest: Duration,
    waiting: HashMap<TypeKey, Wait>,
}

struct Wait {
    after: Duration,
    /// When its time comes by itself.
    regular: Instant,
    /// When its time comes: earlier, where something has happened.
    due: Instant,
    /// Whether it was hurried since it was listed by itself.
    hurried: bool,
}

impl Relisting {
    /// Waits so long at most.
    pub(super) fn new(longest: Duration) -> Self {
        Self {
            first: FIRST.min(longest),
            longest,
            waiting: HashMap::new(),
        }
    }

    /// Of the types with objects that cannot be read, those whose time has come.
    pub(super) fn due(&mut self, partly_read: BTreeSet<TypeKey>, now: Instant) -> Vec<TypeKey> {
        self.waiting.retain(|key, _| partly_read.contains(key));
        let mut due = Vec::new();
        for type_key in partly_read {
            let wait = self.waiting.entry(type_key.clone()).or_insert(Wait {
                after: self.first,
                regular: now + self.first,
                due: now + self.first,
                hurried: false,
            });
            if wait.due > now {
                continue;
            }
            if wait.regular <= now {
                wait.after = wait.after.saturating_mul(2).min(self.longest);
                wait.regular = now + wait.after;
                wait.hurried = false;
            }
            wait.due = wait.regular;
            due.push(type_key);
        }
        due
    }

    /// Something has happened where such objects are: it may have been the repair. Where something
    /// happens all the time, that is one more list for each wait, and no more.
    pub(super) fn hurry(&mut self, type_key: &TypeKey, now: Instant) {
        if let Some(wait) = self.waiting.get_mut(type_key)
            && !std::mem::replace(&mut wait.hurried, true)
        {
            wait.due = wait.due.min(now + self.first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    /// Asks each second for so long; tells in which seconds the type was due.
    fn seconds(relisting: &mut Relisting, from: Instant, range: std::ops::Range<u64>) -> Vec<u64> {
        let bad = BTreeSet::from([TypeKey::new("", "v1", "configmaps").unwrap()]);
        range
            .filter(|second| {
                let now = from + Duration::from_secs(*second);
                !relisting.due(bad.clone(), now).is_empty()
            })
            .collect()
    }

    #[test]
    fn the_wait_doubles_up_to_the_longest_and_is_cut_short_by_news() {
        let start = Instant::now();
        let mut relisting = Relisting::new(5 * MINUTE);
        let due = seconds(&mut relisting, start, 0..1_400);
        assert_eq!(due, [60, 180, 420, 720, 1_020, 1_320]);
        let key = TypeKey::new("", "v1", "configmaps").unwrap();
        relisting.hurry(&key, start + Duration::from_secs(1_400));
        let due = seconds(&mut relisting, start, 1_400..1_700);
        assert_eq!(due, [1_460, 1_620]);
        assert!(
            relisting
                .due(BTreeSet::new(), start + 60 * MINUTE)
                .is_empty()
        );
        let due = seconds(&mut relisting, start, 4_000..4_100);
        assert_eq!(due, [4_060], "it is another object that cannot be read");
    }

    #[test]
    fn where_something_happens_all_the_time_lists_are_twice_as_many_and_no_more() {
        let start = Instant::now();
        let mut relisting = Relisting::new(5 * MINUTE);
        let key = TypeKey::new("", "v1", "configmaps").unwrap();
        let due = (0..1_400).filter(|second| {
            let now = start + Duration::from_secs(*second);
            relisting.hurry(&key, now);
            let bad = BTreeSet::from([key.clone()]);
            !relisting.due(bad, now).is_empty()
        });
        let due: Vec<u64> = due.collect();
        assert_eq!(
            due,
            [
                60, 121, 180, 241, 420, 481, 720, 781, 1_020, 1_081, 1_320, 1_381
            ]
        );
    }
}
