//! Whose turn a branch is, among the installations that write to it.
//!
//! The holder is the installation and not the replica, so that a new leader need not wait. It keeps the
//! lease while nobody else asks for it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::Client;
use reverser_api::conditions::destination_reason;
use reverser_core::blob_id::BlobId;
use reverser_git::RemoteUrl;
use tokio_util::sync::CancellationToken;

use super::LeaseSettings;
use super::claim::Claim;
use super::document::LeaseSlot;
use super::hold::{Hold, Standing, Wish, Writing};
use super::keeper::Keeper;
use super::presence::Neighbours;
use crate::owner_role::OwnerRole;
use crate::routing::{Refusal, Target};
use crate::telemetry::Telemetry;

/// The leases of branches, as one installation sees them.
pub struct BranchLeases {
    /// With short deadlines, and without retries.
    pub client: Client,
    /// Where they are.
    pub namespace: String,
    /// Who holds them.
    pub instance_id: String,
    /// With what they go; a lease that several installations hold goes with the last of theirs.
    pub owner: Option<OwnerRole>,
    /// How they are kept.
    pub settings: LeaseSettings,
    /// Whether this replica leads, where there are several.
    pub leader: Option<Arc<Hold>>,
    /// Where failures are told.
    pub telemetry: Telemetry,
    /// Those that are kept now.
    pub kept: Arc<KeptLeases>,
    /// The other installations that have their Leases there.
    pub neighbours: Neighbours,
}

/// The leases that are kept now, by their names. Two repositories that are the same have two writers
/// for one branch, and one lease.
#[derive(Default)]
pub struct KeptLeases(Mutex<HashMap<String, Kept>>);

/// One lease that is kept, and what each of its writers wants of it.
struct Kept {
    hold: Arc<Hold>,
    /// For people.
    place: String,
    wishes: Wishes,
    end: CancellationToken,
    ended: CancellationToken,
}

/// What several writers want of one lease.
#[derive(Default)]
struct Wishes {
    of: HashMap<u64, Wish>,
    next: u64,
}

/// The lease of one branch, as one of its writers has it.
pub struct BranchLease {
    kept: Arc<KeptLeases>,
    /// The name of the lease.
    name: String,
    /// The how manieth writer it is.
    writer: u64,
    hold: Arc<Hold>,
    leader: Option<Arc<Hold>>,
    /// For people.
    place: String,
    patience: Duration,
    ended: CancellationToken,
    telemetry: Telemetry,
}

/// What an attempt asks before it writes.
#[derive(Clone)]
pub struct Gate {
    hold: Arc<Hold>,
    leader: Option<Arc<Hold>>,
}

/// The right to write a branch, for as long as it lives.
pub struct Turn {
    _branch: Writing,
    _leader: Option<Writing>,
}

impl BranchLeases {
    /// Keeps the lease of a branch; nothing is asked for before there is something to write.
    #[must_use]
    pub fn keep(&self, target: &Target) -> BranchLease {
        let (url, branch) = (target.url.as_str(), target.branch.as_str());
        let name = lease_name(&target.url, branch);
        let mut all = self.kept.all();
        let kept = all
            .entry(name.clone())
            .or_insert_with(|| self.start_keeping(&name, url, branch));
        BranchLease {
            kept: self.kept.clone(),
            writer: kept.wishes.add(),
            hold: kept.hold.clone(),
            leader: self.leader.clone(),
            place: kept.place.clone(),
            patience: self.settings.renew * 2,
            ended: kept.ended.clone(),
            telemetry: self.telemetry.clone(),
            name,
        }
    }

    fn start_keeping(&self, name: &str, url: &str, branch: &str) -> Kept {
        let hold = Arc::new(Hold::new(Wish::Nothing));
        let about = BTreeMap::from([
            ("configbutler.ai/repo-url".to_owned(), url.to_owned()),
            ("configbutler.ai/branch".to_owned(), branch.to_owned()),
        ]);
        let slot = LeaseSlot::new(
            self.client.clone(),
            &self.namespace,
            name.to_owned(),
            about,
            self.owner.clone(),
            self.settings.deadline(),
        );
        let place = slot.place();
        let claim = Claim::new(&self.instance_id, self.settings.length, true);
        let keeper = Keeper::new(
            slot,
            claim,
            self.settings.clone(),
            hold.clone(),
            self.telemetry.clone(),
        );
        let (end, ended) = (CancellationToken::new(), CancellationToken::new());
        let (until, over) = (end.clone(), ended.clone().drop_guard());
        tokio::spawn(async move {
            keeper.run(until).await;
            drop(over);
        });
        Kept {
            hold,
            place,
            wishes: Wishes::default(),
            end,
            ended,
        }
    }
}

impl KeptLeases {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Kept>> {
        // Nothing panics while it is locked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wishes {
    /// Another writer, which wants nothing yet.
    fn add(&mut self) -> u64 {
        let writer = self.next;
        self.next += 1;
        self.of.insert(writer, Wish::Nothing);
        writer
    }

    /// What all of them want together: the most that any of them does.
    fn together(&self) -> Wish {
        self.of.values().copied().max().unwrap_or(Wish::Nothing)
    }
}

impl BranchLease {
    /// What an attempt asks before it writes.
    #[must_use]
    pub fn gate(&self) -> Gate {
        Gate {
            hold: self.hold.clone(),
            leader: self.leader.clone(),
        }
    }

    /// Says what is wanted of it.
    pub fn want(&self, wish: Wish) {
        if let Some(kept) = self.kept.all().get_mut(&self.name) {
            kept.wishes.of.insert(self.writer, wish);
            kept.hold.want(kept.wishes.together());
        }
    }

    /// How long a turn is waited for before anybody is told.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// Why it is not this installation's turn, if it is not.
    #[must_use]
    pub fn refusal(&self) -> Option<Refusal> {
        let name = &self.place;
        let (reason, message) = match &*self.hold.standing().borrow() {
            Standing::Held => return None,
            Standing::HeldBy(other) => (
                destination_reason::OWNERSHIP_CONFLICT,
                format!(
                    "the branch is written by the installation {other}, which holds the Lease \
                     {name}: waiting for our turn"
                ),
            ),
            Standing::Unknown | Standing::Free => (
                destination_reason::OWNERSHIP_CONFLICT,
                format!("the Lease {name} is given to another installation: waiting for our turn"),
            ),
            Standing::Unavailable(why) => (
                destination_reason::LEASE_UNAVAILABLE,
                format!("nothing is written without a Lease: {why}"),
            ),
        };
        Some(Refusal { reason, message })
    }

    /// Waits until its keeper has ended, which it only does when it breaks down.
    pub async fn broken(&self) {
        self.ended.cancelled().await;
    }

    /// Lets go of it, unless another writer needs it.
    pub async fn release(self) {
        let last = {
            let mut all = self.kept.all();
            let Some(kept) = all.get_mut(&self.name) else {
                return;
            };
            kept.wishes.of.remove(&self.writer);
            kept.hold.want(kept.wishes.together());
            if !kept.wishes.of.is_empty() {
                return;
            }
            all.remove(&self.name)
        };
        if let Some(kept) = last {
            kept.end.cancel();
            kept.ended.cancelled().await;
            self.telemetry.forget_lease(&self.name);
        }
    }
}

impl Gate {
    /// Waits until it is this installation's turn.
    pub async fn opens(&self) {
        self.hold.held().await;
    }

    /// The right to write, if there is one at this very moment.
    #[must_use]
    pub fn pass(&self) -> Option<Turn> {
        Some(Turn {
            _branch: self.hold.begin_writing()?,
            _leader: match &self.leader {
                Some(leader) => Some(leader.begin_writing()?),
                None => None,
            },
        })
    }
}

/// The same for everyone who writes this branch, however they spell its repository's address.
fn lease_name(url: &RemoteUrl, branch: &str) -> String {
    let url = url.identity();
    let url = url.as_str();
    let hash = BlobId::of(format!("{url}\n{branch}").as_bytes()).to_string();
    format!("gitops-reverser-branch-{}", &hash[..24])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_two_writers_have_is_wanted_as_long_as_one_of_them_wants_it() {
        let mut wishes = Wishes::default();
        let (first, second) = (wishes.add(), wishes.add());
        assert_eq!(wishes.together(), Wish::Nothing);
        wishes.of.insert(first, Wish::Write);
        wishes.of.insert(second, Wish::Keep);
        assert_eq!(wishes.together(), Wish::Write);
        wishes.of.remove(&first);
        assert_eq!(wishes.together(), Wish::Keep);
    }
}
