//! When a batch of changes is written.
//!
//! A quiet destination is written soon after its last change, so that one change is in Git at once
//! and a folder applied by `kubectl` is one commit. Under constant change a batch is limited in files,
//! bytes and time.

use std::time::{Duration, Instant};

/// What ends a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// So many files.
    pub max_files: usize,
    /// So many bytes.
    pub max_bytes: usize,
    /// So long after its first change.
    pub max_wait: Duration,
    /// So long after its last change.
    pub quiet: Duration,
}

/// Changes that wait to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    waiting: Option<Waiting>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiting {
    first: Instant,
    last: Instant,
    files: usize,
    bytes: usize,
    /// Since when it has enough.
    full: Option<Instant>,
}

impl Window {
    /// One more change, of so many bytes.
    pub fn add(&mut self, bytes: usize, now: Instant) {
        let waiting = self.waiting.get_or_insert(Waiting {
            first: now,
            last: now,
            files: 0,
            bytes: 0,
            full: None,
        });
        waiting.last = now;
        waiting.files += 1;
        waiting.bytes += bytes;
    }

    /// Notes that the batch has enough by now, if it has: what comes later does not put off its end.
    pub fn note_full(&mut self, limits: &Limits, now: Instant) {
        if let Some(waiting) = &mut self.waiting
            && (waiting.files >= limits.max_files || waiting.bytes >= limits.max_bytes)
        {
            waiting.full.get_or_insert(now);
        }
    }

    /// When the batch ends; nothing while there is none.
    #[must_use]
    pub fn due(&self, limits: &Limits) -> Option<Instant> {
        let Waiting {
            first,
            last,
            files,
            bytes,
            full,
        } = self.waiting?;
        if files >= limits.max_files || bytes >= limits.max_bytes {
            return Some(full.unwrap_or(last));
        }
        Some((last + limits.quiet).min(first + limits.max_wait))
    }

    /// How many changes wait.
    #[must_use]
    pub fn files(&self) -> usize {
        self.waiting.map_or(0, |waiting| waiting.files)
    }

    /// The batch is being written; what comes now belongs to the next.
    #[must_use = "these changes are lost if nobody writes them"]
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// The batch could not be written: its changes wait on with the newer ones.
    pub fn put_back(&mut self, batch: Self) {
        self.waiting = match (batch.waiting, self.waiting) {
            (Some(old), Some(new)) => Some(Waiting {
                first: old.first,
                last: new.last,
                files: old.files + new.files,
                bytes: old.bytes + new.bytes,
                full: old.full.or(new.full),
            }),
            (old, new) => old.or(new),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        max_files: 200,
        max_bytes: 1 << 20,
        max_wait: Duration::from_secs(20),
        quiet: Duration::from_millis(300),
    };

    fn milliseconds(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn nothing_is_due_while_nothing_waits() {
        assert_eq!(Window::default().due(&LIMITS), None);
    }

    #[test]
    fn a_lone_change_is_written_after_the_quiet_time() {
        let (start, mut window) = (Instant::now(), Window::default());
        window.add(10, start);
        assert_eq!(window.due(&LIMITS), Some(start + milliseconds(300)));
        window.add(10, start + milliseconds(200));
        assert_eq!(window.due(&LIMITS), Some(start + milliseconds(500)));
    }

    #[test]
    fn what_comes_after_it_has_enough_does_not_put_off_a_batch() {
        let (start, mut window) = (Instant::now(), Window::default());
        for index in 0..300 {
            let now = start + milliseconds(index);
            window.add(1, now);
            window.note_full(&LIMITS, now);
        }
        assert_eq!(window.due(&LIMITS), Some(start + milliseconds(199)));
    }

    #[test]
    fn constant_change_is_written_by_age_files_and_bytes() {
        let (start, mut window) = (Instant::now(), Window::default());
        for index in 0..199 {
            window.add(1, start + milliseconds(index * 100));
        }
        let last = start + milliseconds(19_800);
        assert_eq!(window.due(&LIMITS), Some(start + milliseconds(20_000)));
        window.add(1, last);
        assert_eq!(window.due(&LIMITS), Some(last));
        let mut large = Window::default();
        large.add(1 << 20, start);
        assert_eq!(large.due(&LIMITS), Some(start));
    }

    #[test]
    fn a_batch_that_failed_waits_on_with_its_age() {
        let (start, mut window) = (Instant::now(), Window::default());
        window.add(1, start);
        let batch = window.take();
        assert_eq!(window.files(), 0);
        window.add(1, start + milliseconds(19_900));
        window.put_back(batch);
        assert_eq!(window.files(), 2);
        assert_eq!(window.due(&LIMITS), Some(start + milliseconds(20_000)));
    }
}
