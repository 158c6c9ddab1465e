//! Who made a change: the watch proves that it happened, a record of admission names it.
//!
//! ## Guarantees
//! - A record names a change only if it is that very change: the same object, the same version that
//!   was replaced, the same result. That there is only one record proves nothing: it may be of an
//!   attempt that was refused, while the real one was never seen.
//! - Where the records of several users fit, nobody is named.
//! - What was ambiguous once stays so, however late a record comes.
//! - A record never outlives another of the same version, with which it would have been ambiguous.
//!
//! ## Caveats
//! A record of an attempt that was refused names the same one of somebody else, from the same version,
//! if the record of that was never heard. "The same" is, of an update, the same content by a tool of
//! the same name in the same second. A deletion and a scaling have no content that could be compared;
//! their records count only for some seconds.

mod join;
mod origin;
mod store;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Instant;

pub use self::join::{Before, How, Transition, Verdict};
use self::join::{Chain, join};
pub use self::origin::Origin;
use self::store::RecordStore;
pub use self::store::StoreLimits;
use crate::admission_record::{AdmissionRecord, AdmittedChange, Requester};

/// What deletes objects whose owner is gone.
const COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";
/// What deletes everything in a namespace that is to go.
const NAMESPACES: &str = "system:serviceaccount:kube-system:namespace-controller";
/// Both, where controllers have no accounts of their own.
const MANAGER: &str = "system:kube-controller-manager";

/// Whether somebody deletes only because somebody else did.
fn is_controller(user: &Requester) -> bool {
    [COLLECTOR, NAMESPACES, MANAGER].contains(&user.name())
}

/// Records, and the changes that may still find theirs.
///
/// The record of a change may come before the watch shows it, or after.
pub struct Attributor {
    limits: StoreLimits,
    records: RecordStore,
    /// Changes by the uid of their object.
    open: HashMap<Arc<str>, Vec<Open>>,
    /// When they were opened, the first one first.
    order: VecDeque<(Instant, Arc<str>, u64)>,
    opened: u64,
    /// The person behind the deletion of an object that the watch has shown, by its uid; nothing if
    /// that is not certain.
    behind: Bounded<Option<Arc<Requester>>>,
    /// The uids of namespaces that somebody asked to delete, by their names.
    namespaces: Bounded<Arc<str>>,
    /// Whether records are to be expected at all.
    listening: bool,
}

struct Open {
    /// The how manieth it was.
    number: u64,
    transition: Transition,
    seen: Instant,
    origin: Weak<Origin>,
}

impl Attributor {
    /// Knows of no record, and expects none.
    #[must_use]
    pub fn new(limits: StoreLimits) -> Self {
        Self {
            limits,
            records: RecordStore::new(limits),
            open: HashMap::new(),
            order: VecDeque::new(),
            opened: 0,
            behind: Bounded::new(limits.entries),
            namespaces: Bounded::new(limits.entries),
            listening: false,
        }
    }

    /// Whether a webhook is registered, so that records are to be expected.
    pub fn listen(&mut self, listening: bool) {
        self.listening = listening;
    }

    /// Whether records are to be expected, so that a change is worth waiting for its own.
    #[must_use]
    pub fn is_listening(&self) -> bool {
        self.listening
    }

    /// Not every attempt is heard of any more. Forgets those that have no content by which one that
    /// came true could be told from one that was refused.
    pub fn forget_without_content(&mut self) {
        self.records.forget_without_content();
    }

    /// Takes a record, and names the changes that have waited for it. Gives how many records had to
    /// go for want of room.
    pub fn record(&mut self, record: AdmissionRecord, now: Instant) -> usize {
        self.listening = true;
        self.forget_old(now);
        let key = &record.type_key;
        if matches!(record.change, AdmittedChange::Delete { .. })
            && key.group().is_empty()
            && key.resource() == "namespaces"
        {
            self.namespaces
                .insert(&record.name, record.uid.as_str().into());
        }
        let uid: Arc<str> = record.uid.as_str().into();
        let evicted = self.records.insert(record, now);
        if let Some(mut open) = self.open.remove(&uid) {
            open.retain(|open| {
                let Some(origin) = open.origin.upgrade() else {
                    return false;
                };
                self.learn(&uid, &open.transition, open.seen, &origin);
                true
            });
            if !open.is_empty() {
                self.open.insert(uid, open);
            }
        }
        evicted
    }

    /// Whose change this is, as far as it is known by now; more may become known while it is kept.
    /// `manager` is the name that the client gave itself.
    #[must_use]
    pub fn attribute(
        &mut self,
        uid: &str,
        transition: Transition,
        manager: Option<String>,
        now: Instant,
    ) -> Arc<Origin> {
        self.forget_old(now);
        let origin = match &transition {
            Transition::Listed {
                before: Before::Unknown,
                new,
            } => Origin::of_chain(manager, Chain::leading_to(*new, self.records.of(uid))),
            _ => Origin::unseen(manager),
        };
        let origin = Arc::new(origin);
        let uid: Arc<str> = uid.into();
        self.learn(&uid, &transition, now, &origin);
        if self.listening && !origin.begins_with_the_branch() {
            let number = self.opened;
            self.opened += 1;
            let open = self.open.entry(uid.clone()).or_default();
            open.push(Open {
                number,
                transition,
                seen: now,
                origin: Arc::downgrade(&origin),
            });
            self.order.push_back((now, uid, number));
        }
        origin
    }

    /// Whether anybody is known to have tried anything with an object.
    #[must_use]
    pub fn knows(&self, uid: &str) -> bool {
        self.records.of(uid).next().is_some()
    }

    /// How many records are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether no record is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.len() == 0
    }

    fn learn(&mut self, uid: &Arc<str>, transition: &Transition, seen: Instant, origin: &Origin) {
        let verdict = join(transition, seen, self.records.of(uid));
        let mut behalf = None;
        if let Transition::Deleting {
            owners, namespace, ..
        } = transition
        {
            let behind = match &verdict {
                Verdict::Named(user, _) if is_controller(user) => {
                    behalf = self.behalf_of(user, owners, namespace.as_deref());
                    Some(behalf.clone())
                }
                Verdict::Named(user, _) => Some(Some(user.clone())),
                Verdict::Ambiguous => Some(None),
                Verdict::Unseen => None,
            };
            if let Some(behind) = behind {
                self.behind.insert(uid, behind);
            }
        }
        origin.learn(verdict, behalf);
    }

    /// Who is behind a deletion that a controller made: the one who deleted the owner or the
    /// namespace, if that is one and the same person all along.
    fn behalf_of(
        &self,
        controller: &Requester,
        owners: &[Box<str>],
        namespace: Option<&str>,
    ) -> Option<Arc<Requester>> {
        let of_namespace = || {
            let uid = self.namespaces.get(namespace?)?;
            self.deleter(uid)
        };
        let of_owner = || owners.iter().find_map(|owner| self.deleter(owner));
        match controller.name() {
            COLLECTOR => of_owner(),
            NAMESPACES => of_namespace(),
            _ => of_owner().or_else(of_namespace),
        }
    }

    /// Who deleted an object: whoever the watch has shown to have done it, or else the only one who is
    /// known to have tried.
    fn deleter(&self, uid: &str) -> Option<Arc<Requester>> {
        if let Some(behind) = self.behind.get(uid) {
            return behind.clone();
        }
        let deletions = self
            .records
            .of(uid)
            .filter(|stored| matches!(stored.change, AdmittedChange::Delete { .. }));
        let mut users = deletions.map(|stored| &stored.user);
        let first = users.next().filter(|user| !is_controller(user))?;
        users
            .all(|user| user.name() == first.name())
            .then(|| first.clone())
    }

    fn forget_old(&mut self, now: Instant) {
        self.records.forget_old(now);
        let limits = self.limits;
        let is_over = |order: &VecDeque<(Instant, Arc<str>, u64)>| {
            let (since, _, _) = order.front()?;
            let expired = now.saturating_duration_since(*since) > limits.ttl;
            (expired || order.len() > limits.entries).then_some(())
        };
        while is_over(&self.order).is_some()
            && let Some((_, uid, number)) = self.order.pop_front()
        {
            if let Some(open) = self.open.get_mut(&uid) {
                open.retain(|open| open.number != number);
                if open.is_empty() {
                    self.open.remove(&uid);
                }
            }
        }
    }
}

/// A map that forgets what came first when it has too much.
struct Bounded<T> {
    most: usize,
    map: HashMap<Box<str>, T>,
    order: VecDeque<Box<str>>,
}

impl<T> Bounded<T> {
    fn new(most: usize) -> Self {
        Self {
            most,
            map: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    fn insert(&mut self, key: &str, value: T) {
        if self.map.insert(key.into(), value).is_none() {
            self.order.push_back(key.into());
        }
        if self.order.len() > self.most
            && let Some(oldest) = self.order.pop_front()
        {
            self.map.remove(&oldest);
        }
    }

    fn get(&self, key: &str) -> Option<&T> {
        self.map.get(key)
    }
}
