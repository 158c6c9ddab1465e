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
    due: Instant,
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
                due: now + self.first,
            });
            if wait.due <= now {
                wait.after = wait.after.saturating_mul(2).min(self.longest);
                wait.due = now + wait.after;
                due.push(type_key);
            }
        }
        due
    }

    /// Something has happened where such objects are: it may have been the repair.
    pub(super) fn hurry(&mut self, type_key: &TypeKey, now: Instant) {
        if let Some(wait) = self.waiting.get_mut(type_key) {
            wait.after = self.first;
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
    fn the_wait_doubles_up_to_the_longest_and_begins_anew_with_news() {
        let start = Instant::now();
        let mut relisting = Relisting::new(5 * MINUTE);
        let due = seconds(&mut relisting, start, 0..1_400);
        assert_eq!(due, [60, 180, 420, 720, 1_020, 1_320]);
        let key = TypeKey::new("", "v1", "configmaps").unwrap();
        relisting.hurry(&key, start + Duration::from_secs(1_400));
        let due = seconds(&mut relisting, start, 1_400..1_700);
        assert_eq!(due, [1_460, 1_580]);
        assert!(
            relisting
                .due(BTreeSet::new(), start + 60 * MINUTE)
                .is_empty()
        );
        let due = seconds(&mut relisting, start, 4_000..4_100);
        assert_eq!(due, [4_060], "it is another object that cannot be read");
    }
}
