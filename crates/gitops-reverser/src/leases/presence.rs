//! Whether other installations are there: each renews a Lease of its own, and others look at it.
//!
//! ## Guarantees
//! - One that renews its Lease is never taken for gone, whatever any clock says: its silence is counted
//!   here, from look to look, for the length of the Lease at least.
//! - One whose Lease is not found or cannot be read is not taken for gone either.
//!
//! The time in a Lease says only for how long one that is silent is waited for.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use reverser_core::blob_id::BlobId;
use reverser_core::commit_message::Installation;
use tokio_util::sync::CancellationToken;

use super::LeaseSettings;
use super::boot_time::BootTime;
use super::claim::Claim;
use super::document::{LeaseSlot, document_of};
use super::hold::{Hold, Wish};
use super::keeper::Keeper;
use crate::owner_role::OwnerRole;
use crate::telemetry::Telemetry;

/// How it stands with another installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Nothing shows that it is gone.
    Maybe,
    /// It does not renew its Lease, since this time; from the other one on it is gone.
    Silent(Timestamp, Option<Timestamp>),
    /// It has not renewed its Lease for so long that it is not waited for any more.
    Gone,
}

/// Shows that an installation is there.
pub struct Showing {
    /// With short deadlines, and without retries.
    pub client: Client,
    /// Where others look for it.
    pub namespace: String,
    /// Who shows itself; the cluster does not matter.
    pub own: Installation,
    /// With what the Lease goes.
    pub owner: Option<OwnerRole>,
    /// How the Lease is kept.
    pub settings: LeaseSettings,
    /// Where failures are told.
    pub telemetry: Telemetry,
}

impl Showing {
    /// For ever.
    pub async fn run(self) {
        let Self {
            client,
            namespace,
            own,
            owner,
            settings,
            telemetry,
        } = self;
        let about = BTreeMap::from([
            (
                "configbutler.ai/instance-id".to_owned(),
                own.instance_id.clone(),
            ),
            (
                "configbutler.ai/controller-namespace".to_owned(),
                own.controller_namespace.clone(),
            ),
        ]);
        let name = lease_name(&own);
        let slot = LeaseSlot::new(client, &namespace, name, about, owner, settings.deadline());
        // The same for all replicas, so that a new leader need not wait.
        let identity = format!("{}/{}", own.controller_namespace, own.instance_id);
        let claim = Claim::new(identity, settings.length, false);
        let hold = Arc::new(Hold::new(Wish::Write));
        let keeper = Keeper::new(slot, claim, settings, hold, telemetry);
        // It is not let go at the end: when it was last renewed is all that counts.
        keeper.run(CancellationToken::new()).await;
    }
}

/// The other installations that have their Leases in a namespace.
pub struct Neighbours {
    client: Client,
    namespace: String,
    settings: LeaseSettings,
    /// How long one that is silent is waited for; nothing means for ever.
    after: Option<Duration>,
    sightings: Mutex<HashMap<String, Sighting>>,
}

/// What was seen of one, and when it was looked at.
struct Sighting {
    looked: BootTime,
    renewal: Option<(Timestamp, BootTime)>,
    presence: Presence,
}

/// What a Lease shows.
#[derive(Debug, Clone, Copy)]
struct Shown {
    renewed: Timestamp,
    length: Duration,
}

impl Neighbours {
    /// Those whose Leases are in this namespace, kept as ours are.
    #[must_use]
    pub fn new(
        client: Client,
        namespace: String,
        settings: LeaseSettings,
        after: Option<Duration>,
    ) -> Self {
        Self {
            client,
            namespace,
            settings,
            after,
            sightings: Mutex::default(),
        }
    }

    /// Looks at the Lease of another installation of this cluster, not more often than it is renewed.
    pub async fn look(&self, other: &Installation) -> Presence {
        let name = lease_name(other);
        let now = BootTime::now();
        if let Some(last) = self.sightings().get(&name)
            && now.since(last.looked) < self.settings.renew
        {
            return last.presence;
        }
        let slot = LeaseSlot::new(
            self.client.clone(),
            &self.namespace,
            name.clone(),
            BTreeMap::new(),
            None,
            self.settings.deadline(),
        );
        // What cannot be read shows nothing, and nobody is taken for gone for that.
        let lease = slot.read().await.ok().flatten();
        let shown = lease.and_then(|lease| shown(&lease, self.settings.length));
        let now = BootTime::now();
        let mut sightings = self.sightings();
        let before = sightings.remove(&name).and_then(|seen| seen.renewal);
        let (renewal, presence) = judge(before, shown, self.after, now, Timestamp::now());
        let sighting = Sighting {
            looked: now,
            renewal,
            presence,
        };
        sightings.insert(name, sighting);
        presence
    }

    fn sightings(&self) -> MutexGuard<'_, HashMap<String, Sighting>> {
        // Nothing panics while it is locked.
        self.sightings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is known after a look: the renewal with the time at which it was first seen, and what follows.
fn judge(
    before: Option<(Timestamp, BootTime)>,
    shown: Option<Shown>,
    after: Option<Duration>,
    now: BootTime,
    wall: Timestamp,
) -> (Option<(Timestamp, BootTime)>, Presence) {
    let Some(Shown { renewed, length }) = shown else {
        return (None, Presence::Maybe);
    };
    let first = match before {
        Some((seen, first)) if seen == renewed => first,
        _ => now,
    };
    let until = after.and_then(|after| {
        let after = SignedDuration::try_from(after).ok()?;
        renewed.checked_add(after).ok()
    });
    let presence = if now.since(first) < length {
        Presence::Maybe
    } else if until.is_some_and(|until| until <= wall) {
        Presence::Gone
    } else {
        Presence::Silent(renewed, until)
    };
    (Some((renewed, first)), presence)
}

/// Nothing for a Lease that does not say when it was renewed.
fn shown(lease: &Lease, length: Duration) -> Option<Shown> {
    let renewed = lease.spec.as_ref()?.renew_time.as_ref()?.0;
    let own_length = document_of(lease).length.unwrap_or_default();
    Some(Shown {
        renewed,
        length: own_length.max(length),
    })
}

/// Another one for each installation of a cluster.
fn lease_name(installation: &Installation) -> String {
    let Installation {
        cluster_uid: _,
        controller_namespace,
        controller_name,
        instance_id,
    } = installation;
    let names = format!("{controller_namespace}\n{controller_name}\n{instance_id}");
    let hash = BlobId::of(names.as_bytes()).to_string();
    format!("gitops-reverser-installation-{}", &hash[..24])
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_secs(24);
    const DAY: Duration = Duration::from_hours(24);

    fn wall(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn clock(seconds: u64) -> BootTime {
        BootTime::after_start(Duration::from_secs(seconds))
    }

    /// Looks every eight seconds; tells what was seen last.
    fn watch(
        seconds: std::ops::Range<u64>,
        after: Option<Duration>,
        renewed: impl Fn(u64) -> Option<Timestamp>,
        wall: impl Fn(u64) -> Timestamp,
    ) -> Presence {
        let (mut known, mut presence) = (None, Presence::Maybe);
        for second in seconds.step_by(8) {
            let shown = renewed(second).map(|renewed| Shown {
                renewed,
                length: LENGTH,
            });
            (known, presence) = judge(known, shown, after, clock(second), wall(second));
        }
        presence
    }

    #[test]
    fn one_that_renews_its_lease_is_there_whatever_clocks_say() {
        let renews = |second: u64| Some(wall(i64::try_from(second / 8).unwrap()));
        for jump in [-4_000_000, 0, 4_000_000] {
            assert_eq!(
                watch(0..10_000, Some(DAY), renews, |_| wall(jump)),
                Presence::Maybe
            );
        }
    }

    #[test]
    fn one_that_is_silent_is_gone_after_the_time_that_is_given() {
        let dead = |_| Some(wall(0));
        let honest = |second: u64| wall(i64::try_from(second).unwrap());
        let day = DAY.as_secs();
        let silent = Presence::Silent(wall(0), Some(wall(86_400)));
        assert_eq!(watch(0..1000, Some(DAY), dead, honest), silent);
        assert_eq!(watch(0..day, Some(DAY), dead, honest), silent);
        assert_eq!(watch(0..day + 30, Some(DAY), dead, honest), Presence::Gone);
        let never = Presence::Silent(wall(0), None);
        assert_eq!(watch(0..3 * day, None, dead, honest), never);
    }

    /// A replica that has just begun to look, a week later, or with a clock that is a week ahead.
    #[test]
    fn nobody_is_gone_at_the_first_look() {
        let dead = |_| Some(wall(0));
        let later = |_| wall(1_000_000);
        assert_eq!(watch(0..24, Some(DAY), dead, later), Presence::Maybe);
        assert_eq!(watch(0..40, Some(DAY), dead, later), Presence::Gone);
    }

    #[test]
    fn one_that_cannot_be_seen_is_not_gone() {
        let later = |_| wall(1_000_000);
        assert_eq!(
            watch(0..10_000, Some(DAY), |_| None, later),
            Presence::Maybe
        );
        // A look that fails begins the silence anew.
        let flickers = |second: u64| second.is_multiple_of(16).then(|| wall(0));
        assert_eq!(
            watch(0..10_000, Some(DAY), flickers, later),
            Presence::Maybe
        );
    }

    #[test]
    fn installations_have_leases_of_their_own_in_whatever_cluster() {
        let of = |cluster: &str, namespace: &str, instance: &str| {
            lease_name(&Installation {
                cluster_uid: cluster.to_owned(),
                controller_namespace: namespace.to_owned(),
                controller_name: "gitops-reverser".to_owned(),
                instance_id: instance.to_owned(),
            })
        };
        assert_eq!(of("", "a", "b"), of("uid", "a", "b"));
        let all = [of("", "a", "b"), of("", "b", "a"), of("", "a", "c")];
        assert!(
            all.iter()
                .all(|name| all.iter().filter(|one| *one == name).count() == 1)
        );
    }
}
