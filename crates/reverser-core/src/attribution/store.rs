//! Records of admission: few, for a short time.

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
            return 0;
        }
        known.push(Stored {
            change,
            user: Arc::new(user),
            number,
            bytes,
        });
        self.len += 1;
        self.bytes += bytes;
        let mut evicted = 0;
        while self.len > self.limits.entries || self.bytes > self.limits.bytes {
            let Some((_, uid, number)) = self.order.pop_front() else {
                break;
            };
            evicted += usize::from(self.remove(&uid, number));
        }
        evicted
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

    fn remove(&mut self, uid: &Arc<str>, number: u64) -> bool {
        let Some(known) = self.of_uid.get_mut(uid) else {
            return false;
        };
        let Some(at) = known.iter().position(|stored| stored.number == number) else {
            return false;
        };
        let removed = known.remove(at);
        if known.is_empty() {
            self.of_uid.remove(uid);
        }
        self.len -= 1;
        self.bytes -= removed.bytes;
        true
    }
}
