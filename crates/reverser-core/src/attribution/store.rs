//! Records of admission: few, for a short time.
//!
//! Records of one version of an object go together. Of two that ask for the same, one may have come
//! true and the other not; with only one of them left, it would look as if there had never been a
//! doubt.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::admission_record::{AdmissionRecord, AdmittedChange, Requester};

/// How much is kept, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// How long a record is kept.
    pub ttl: Duration,
    /// How many records are kept.
    pub entries: usize,
    /// How many bytes all of them may have.
    pub bytes: usize,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self {
            ttl: Duration::from_mins(1),
            entries: 10_000,
            bytes: 16 << 20,
        }
    }
}

/// What the join asks of a record.
pub(super) struct Stored {
    pub(super) change: AdmittedChange,
    pub(super) user: Arc<Requester>,
    /// When it came, the last time.
    pub(super) since: Instant,
    /// The how manieth it was.
    number: u64,
    bytes: usize,
}

/// The records, by the uid of their object.
pub(super) struct RecordStore {
    limits: StoreLimits,
    of_uid: HashMap<Arc<str>, Vec<Stored>>,
    /// The oldest first; those that came again stand here twice, with the number that they had.
    order: VecDeque<(Instant, Arc<str>, u64)>,
    next: u64,
    len: usize,
    bytes: usize,
}

impl RecordStore {
    pub(super) fn new(limits: StoreLimits) -> Self {
        Self {
            limits,
            of_uid: HashMap::new(),
            order: VecDeque::new(),
            next: 0,
            len: 0,
            bytes: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn of(&self, uid: &str) -> impl Iterator<Item = &Stored> {
        self.of_uid.get(uid).into_iter().flatten()
    }

    /// Takes a record; gives how many others had to go before their time.
    pub(super) fn insert(&mut self, record: AdmissionRecord, now: Instant) -> usize {
        let bytes = record.bytes();
        let AdmissionRecord {
            uid, change, user, ..
        } = record;
        let uid: Arc<str> = uid.into();
        let number = self.next;
        self.next += 1;
        self.order.push_back((now, uid.clone(), number));
        let known = self.of_uid.entry(uid).or_default();
        // A client that tries again says the same again.
        let same = known
            .iter_mut()
            .find(|stored| stored.change == change && *stored.user == user);
        if let Some(same) = same {
            same.number = number;
            same.since = now;
        } else {
            known.push(Stored {
                change,
                user: Arc::new(user),
                since: now,
                number,
                bytes,
            });
            self.len += 1;
            self.bytes += bytes;
        }
        let mut evicted = 0;
        // What is said again and again has many places in the order, of which only the last counts.
        while self.len > self.limits.entries
            || self.bytes > self.limits.bytes
            || self.order.len() > self.limits.entries.saturating_mul(2)
        {
            let Some((_, uid, number)) = self.order.pop_front() else {
                break;
            };
            evicted += self.remove(&uid, number);
        }
        evicted
    }

    /// Forgets deletions and scalings, which have no content.
    pub(super) fn forget_without_content(&mut self) {
        let (mut len, mut bytes) = (0, 0);
        self.of_uid.retain(|_, known| {
            known.retain(|stored| stored.change.has_content());
            len += known.len();
            bytes += known.iter().map(|stored| stored.bytes).sum::<usize>();
            !known.is_empty()
        });
        (self.len, self.bytes) = (len, bytes);
    }

    pub(super) fn forget_old(&mut self, now: Instant) {
        while let Some((since, uid, number)) = self.order.front() {
            if now.saturating_duration_since(*since) <= self.limits.ttl {
                break;
            }
            let (uid, number) = (uid.clone(), *number);
            self.order.pop_front();
            self.remove(&uid, number);
        }
    }

    /// Removes a record and those of the same version; gives how many these were.
    fn remove(&mut self, uid: &Arc<str>, number: u64) -> usize {
        let Some(known) = self.of_uid.get_mut(uid) else {
            return 0;
        };
        let Some(at) = known.iter().position(|stored| stored.number == number) else {
            return 0;
        };
        let version = known[at].change.version().map(str::to_owned);
        let before = known.len();
        let mut bytes = 0;
        known.retain(|stored| {
            let goes = stored.change.version() == version.as_deref();
            bytes += if goes { stored.bytes } else { 0 };
            !goes
        });
        let removed = before - known.len();
        if known.is_empty() {
            self.of_uid.remove(uid);
        }
        self.len -= removed;
        self.bytes -= bytes;
        removed
    }
}
