//! One leader among the replicas of an installation.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use reverser_core::blob_id::BlobId;
use tokio_util::sync::CancellationToken;

use super::LeaseSettings;
use super::boot_time::BootTime;
use super::claim::Claim;
use super::document::LeaseSlot;
use super::hold::{Hold, Standing, Wish};
use super::keeper::Keeper;
use crate::owner_role::OwnerRole;
use crate::telemetry::Telemetry;

/// How often it is asked whether leadership still holds, where no other event tells.
const WATCHDOG: Duration = Duration::from_millis(500);

/// A replica that stands for election.
pub struct Candidate {
    hold: Arc<Hold>,
    keeper: Keeper,
    end: CancellationToken,
    ended: CancellationToken,
}

/// The right to lead, asked for by those who write, and how to give it back.
#[derive(Debug, Clone)]
pub struct Leadership {
    hold: Arc<Hold>,
    end: CancellationToken,
    ended: CancellationToken,
}

impl Candidate {
    /// Stands for election in the namespace of the operator.
    #[must_use]
    pub fn new(
        client: Client,
        namespace: &str,
        instance_id: &str,
        owner: Option<OwnerRole>,
        settings: LeaseSettings,
        telemetry: Telemetry,
    ) -> Self {
        let hold = Arc::new(Hold::new(Wish::Write));
        let about = BTreeMap::from([(
            "configbutler.ai/instance-id".to_owned(),
            instance_id.to_owned(),
        )]);
        let name = lease_name(instance_id);
        let slot = LeaseSlot::new(client, namespace, name, about, owner, settings.deadline());
        let claim = Claim::new(identity(), settings.length, false);
        Self {
            keeper: Keeper::new(slot, claim, settings, hold.clone(), telemetry),
            hold,
            end: CancellationToken::new(),
            ended: CancellationToken::new(),
        }
    }

    /// What it may become.
    #[must_use]
    pub fn leadership(&self) -> Leadership {
        Leadership {
            hold: self.hold.clone(),
            end: self.end.clone(),
            ended: self.ended.clone(),
        }
    }

    /// Stands for election, and then leads, until that is lost, which this tells, or given back.
    pub async fn run(self) -> Option<String> {
        let Self {
            hold,
            keeper,
            end,
            ended,
        } = self;
        let _ended = ended.drop_guard();
        tokio::select! {
            () = keeper.run(end.clone()) => None,
            why = lost(&hold, &end) => Some(why),
        }
    }
}

impl Leadership {
    /// Waits until this replica leads.
    pub async fn gained(&self) {
        self.hold.held().await;
    }

    /// What is asked before each write.
    #[must_use]
    pub fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// Lets another replica lead, and waits until the API server knows.
    pub async fn give_back(&self) {
        self.end.cancel();
        self.ended.cancelled().await;
    }
}

/// Why leadership was lost, once it was.
async fn lost(hold: &Hold, end: &CancellationToken) -> String {
    hold.held().await;
    let mut standing = hold.standing();
    loop {
        if let Some(until) = hold.until()
            && BootTime::now() < until
        {
            let left = until.since(BootTime::now());
            tokio::select! {
                () = tokio::time::sleep(left.min(WATCHDOG)) => {}
                _ = standing.changed() => {}
            }
            continue;
        }
        // What is given back is not lost.
        if end.is_cancelled() {
            std::future::pending::<()>().await;
        }
        return match &*standing.borrow() {
            Standing::HeldBy(other) => format!("{other} leads now"),
            Standing::Unavailable(why) => format!("it could not be renewed in time: {why}"),
            Standing::Unknown | Standing::Held | Standing::Free => {
                "it could not be renewed in time".to_owned()
            }
        };
    }
}

/// No two processes have the same: after a restart a replica is another one.
fn identity() -> String {
    let pod = std::env::var("POD_NAME").ok();
    let host = pod.or_else(|| std::fs::read_to_string("/etc/hostname").ok());
    let host = host.unwrap_or_default();
    let random = fastrand::u64(..);
    format!("{}_{random:016x}", host.trim())
}

/// A name that Kubernetes accepts, another one for each installation.
fn lease_name(instance_id: &str) -> String {
    let plain = instance_id.to_ascii_lowercase().replace(['_', '.'], "-");
    if plain == instance_id {
        return format!("gitops-reverser-leader-{plain}");
    }
    let hash = BlobId::of(instance_id.as_bytes()).to_string();
    format!("gitops-reverser-leader-{plain}-{}", &hash[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_installation_has_its_own_lease_with_a_valid_name() {
        assert_eq!(lease_name("prod"), "gitops-reverser-leader-prod");
        let names = ["a-b", "a_b", "A-b", "a.b"].map(lease_name);
        for name in &names {
            let good =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            assert!(name.bytes().all(good), "{name}");
            assert_eq!(names.iter().filter(|other| *other == name).count(), 1);
        }
    }
}
