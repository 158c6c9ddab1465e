//! A replica that does not lead: it knows everything that it needs to begin, and writes nothing.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;

use super::discovering::Served;
use super::parts::Parts;
use super::{OperatorError, OperatorSettings};
use crate::http::Readiness;
use crate::leases::LeaseSettings;
use crate::leases::branch::BranchLeases;
use crate::leases::leader::{Candidate, Leadership};
use crate::leases::pod_label::OwnPod;
use crate::leases::presence::{self, Neighbours};
use crate::owner_role::OwnerRole;
use crate::routing::Configuration;
use crate::telemetry::Telemetry;
use crate::telemetry::facts::{Leading, LeadingAlone, StandingBy};

/// So long a leader that ends tries to tell the others.
pub(super) const RELEASE: Duration = Duration::from_secs(3);

/// How replicas agree on a leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replicas {
    /// How their lease is kept.
    pub leases: LeaseSettings,
}

/// How installations take turns at a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchTurns {
    /// How the leases of branches are kept.
    pub leases: LeaseSettings,
    /// Where they are.
    pub namespace: String,
    /// After this time the folder of an installation that is not there any more is taken over;
    /// nothing means never.
    pub take_over_after: Option<Duration>,
}

/// What comes after standing by.
pub(super) enum Turn {
    /// This replica leads.
    Lead,
    /// It was told to end.
    End,
}

/// The election, seen from one replica; an installation that has only one knows no election.
pub(super) struct Election {
    /// With short deadlines, and without retries.
    client: Client,
    leadership: Option<Leadership>,
    pod: Option<OwnPod>,
    telemetry: Telemetry,
}

impl Election {
    /// Stands for election.
    pub(super) fn stand(
        settings: &OperatorSettings,
        client: Client,
        telemetry: &Telemetry,
        parts: &mut Parts,
    ) -> Self {
        let Some(replicas) = &settings.replicas else {
            return Self {
                client,
                leadership: None,
                pod: None,
                telemetry: telemetry.clone(),
            };
        };
        let candidate = Candidate::new(
            client.clone(),
            &settings.namespace,
            &settings.instance_id,
            owner_role(settings, &client),
            replicas.leases.clone(),
            telemetry.clone(),
        );
        let leadership = candidate.leadership();
        let pod = OwnPod::find(client.clone());
        let (own, own_telemetry) = (pod.clone(), telemetry.clone());
        parts.spawn_ending("the election", async move {
            if let Some(pod) = own {
                pod.begin(&own_telemetry).await;
            }
            candidate.run().await.map(OperatorError::LeadershipLost)
        });
        Self {
            client,
            leadership: Some(leadership),
            pod,
            telemetry: telemetry.clone(),
        }
    }

    /// Waits until this replica leads, or is told to end, or cannot go on.
    pub(super) async fn turn(
        &self,
        parts: &mut Parts,
        mut shutdown: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Turn, OperatorError> {
        let Some(leadership) = &self.leadership else {
            self.telemetry.emit(LeadingAlone);
            return Ok(Turn::Lead);
        };
        self.telemetry.emit(StandingBy);
        tokio::select! {
            () = leadership.gained() => {}
            () = shutdown.as_mut() => return Ok(Turn::End),
            error = parts.ended() => return Err(error),
        }
        self.telemetry.emit(Leading);
        if let Some(pod) = self.pod.clone() {
            parts.spawn(
                "the label of the leader's pod",
                pod.lead(self.telemetry.clone()),
            );
        }
        Ok(Turn::Lead)
    }

    /// The leases of branches, under which this replica writes only while it leads.
    pub(super) fn branch_leases(&self, settings: &OperatorSettings) -> Option<BranchLeases> {
        let client = self.client.clone();
        let BranchTurns {
            leases,
            namespace,
            take_over_after,
        } = settings.turns.clone()?;
        let leader = self.leadership.as_ref();
        Some(BranchLeases {
            owner: owner_role(settings, &client),
            neighbours: Neighbours::new(
                client.clone(),
                namespace.clone(),
                leases.clone(),
                take_over_after,
            ),
            client,
            namespace,
            instance_id: settings.instance_id.clone(),
            settings: leases,
            leader: leader.map(|leadership| leadership.hold().clone()),
            telemetry: self.telemetry.clone(),
            kept: Arc::default(),
        })
    }

    /// Shows the other installations that this one is there.
    pub(super) fn show_presence(&self, settings: &OperatorSettings, parts: &mut Parts) {
        let client = self.client.clone();
        if let Some(turns) = settings.turns.clone() {
            let BranchTurns {
                leases, namespace, ..
            } = turns;
            // At home nothing is left behind. Where others look for it, it tells them that this one is
            // gone.
            let at_home = namespace == settings.namespace;
            let showing = presence::Showing {
                owner: owner_role(settings, &client).filter(|_| at_home),
                client,
                namespace,
                own: settings.identity(String::new()),
                settings: leases,
                telemetry: self.telemetry.clone(),
            };
            parts.spawn("the presence of the installation", showing.run());
        }
    }

    /// Lets another replica lead; nothing may be written after that.
    pub(super) async fn give_back(&self) {
        if let Some(leadership) = &self.leadership {
            let _ = tokio::time::timeout(RELEASE, leadership.give_back()).await;
        }
    }
}

/// With what leases go.
fn owner_role(settings: &OperatorSettings, client: &Client) -> Option<OwnerRole> {
    let name = settings.owner_cluster_role.clone()?;
    Some(OwnerRole::new(client.clone(), name))
}

/// Says that the operator is ready once everything is known that it needs to begin, which a replica
/// that stands by knows as well.
pub(super) async fn say_when_ready(
    mut configuration: watch::Receiver<Option<Arc<Configuration>>>,
    mut served: watch::Receiver<Option<Served>>,
    readiness: watch::Sender<Readiness>,
) {
    // Whoever tells them ends the process if it ends.
    let _ = configuration.wait_for(Option::is_some).await;
    let _ = served.wait_for(Option::is_some).await;
    readiness.send_replace(Readiness::Ready);
    std::future::pending::<()>().await;
}
