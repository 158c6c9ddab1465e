//! Whose turn a branch is, among the installations that write to it.
//!
//! The holder is the installation and not the replica, so that a new leader need not wait. It keeps the
//! lease while nobody else asks for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use reverser_api::conditions::destination_reason;
use reverser_core::blob_id::BlobId;
use reverser_git::RemoteUrl;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::LeaseSettings;
use super::claim::Claim;
use super::document::LeaseSlot;
use super::hold::{Hold, Standing, Wish, Writing};
use super::keeper::Keeper;
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
    /// How they are kept.
    pub settings: LeaseSettings,
    /// Whether this replica leads, where there are several.
    pub leader: Option<Arc<Hold>>,
    /// Where failures are told.
    pub telemetry: Telemetry,
}

/// The lease of one branch, with its writer.
pub struct BranchLease {
    hold: Arc<Hold>,
    leader: Option<Arc<Hold>>,
    /// For people.
    name: String,
    patience: Duration,
    end: CancellationToken,
    keeper: JoinHandle<()>,
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
        let hold = Arc::new(Hold::new(Wish::Nothing));
        let (url, branch) = (target.url.as_str(), target.branch.as_str());
        let about = BTreeMap::from([
            ("configbutler.ai/repo-url".to_owned(), url.to_owned()),
            ("configbutler.ai/branch".to_owned(), branch.to_owned()),
        ]);
        let slot = LeaseSlot::new(
            self.client.clone(),
            &self.namespace,
            lease_name(&target.url, branch),
            about,
            self.settings.deadline(),
        );
        let name = slot.place();
        let claim = Claim::new(&self.instance_id, self.settings.length, true);
        let keeper = Keeper::new(
            slot,
            claim,
            self.settings.clone(),
            hold.clone(),
            self.telemetry.clone(),
        );
        let end = CancellationToken::new();
        BranchLease {
            hold,
            leader: self.leader.clone(),
            name,
            patience: self.settings.renew * 2,
            keeper: tokio::spawn(keeper.run(end.clone())),
            end,
        }
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
        self.hold.want(wish);
    }

    /// How long a turn is waited for before anybody is told.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// Why it is not this installation's turn, if it is not.
    #[must_use]
    pub fn refusal(&self) -> Option<Refusal> {
        let name = &self.name;
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
    pub async fn broken(&mut self) {
        let _ = (&mut self.keeper).await;
    }

    /// Lets go of it.
    pub async fn release(self) {
        self.end.cancel();
        let _ = self.keeper.await;
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
