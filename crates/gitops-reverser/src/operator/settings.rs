//! What the operator is told once.

use std::time::Duration;

use reverser_core::noise::NoiseFilter;
use reverser_core::window::Limits;
use reverser_git::{CancelToken, Git, Person};

use super::{BranchTurns, OperatorError, Replicas};
use crate::admission::AdmissionSettings;
use crate::routing::RoutingOptions;
use crate::settings::{AttributionSettings, DeletesCap, Settings};
use crate::watch::WatchSettings;

/// What the operator is told once.
#[derive(Clone, Debug)]
pub struct OperatorSettings {
    /// What rules may mean.
    pub routing: RoutingOptions,
    /// What is left out.
    pub noise: NoiseFilter,
    /// How types are watched.
    pub watch: WatchSettings,
    /// How often the cluster is asked what it serves.
    pub discovery_refresh: Duration,
    /// Whether anything is watched and written; otherwise specs are only checked.
    pub enabled: bool,
    /// The program that talks to Git servers.
    pub git: Git,
    /// Stops that program wherever it runs, for the rest of the process.
    pub cut_off: CancelToken,
    /// Where clones are kept.
    pub work_dir: std::path::PathBuf,
    /// When a batch ends.
    pub limits: Limits,
    /// How often a quiet remote is asked for its tip.
    pub poll: Duration,
    /// How many branches are written at once.
    pub workers_max_global: usize,
    /// How many branches of one repository are written at once.
    pub workers_max_per_repo: usize,
    /// How many files go in one cycle, at most.
    pub deletes_cap: Option<usize>,
    /// Who made changes.
    pub attribution: AttributionSettings,
    /// Who writes commits.
    pub committer: Person,
    /// The same for all replicas of an installation.
    pub instance_id: String,
    /// Where the operator runs.
    pub namespace: String,
    /// The ClusterRole with which everything goes that is made in the cluster.
    pub owner_cluster_role: Option<String>,
    /// How the API server asks who did it; nothing where it does not.
    pub admission: Option<AdmissionSettings>,
    /// How replicas agree on a leader; nothing where this is the only one.
    pub replicas: Option<Replicas>,
    /// How installations take turns at a branch; nothing where this is the only one.
    pub turns: Option<BranchTurns>,
    /// Follows only those of our own objects that have such labels; nothing means all of them.
    pub own_labels: Option<String>,
}

impl OperatorSettings {
    /// What the flags say, and where the client is at home.
    pub fn new(settings: &Settings, config: &kube::Config) -> Result<Self, OperatorError> {
        let Settings {
            discovery,
            work,
            batch,
            destination,
            committer,
            attribution,
            instance_id,
            owner_cluster_role,
            webhook,
            ownership,
            ..
        } = settings;
        Ok(Self {
            routing: RoutingOptions::of(discovery, destination),
            noise: discovery.noise.clone(),
            watch: WatchSettings {
                concurrent_lists: discovery.max_concurrent_lists,
                ..WatchSettings::large_pages()
            },
            discovery_refresh: discovery.refresh,
            enabled: settings.enable_watch_ingestion,
            git: Git::find()?,
            cut_off: CancelToken::new(),
            work_dir: work.folder.clone(),
            limits: Limits {
                max_files: batch.max_files,
                max_bytes: batch.max_bytes,
                max_wait: batch.max_wait,
                quiet: batch.quiet,
            },
            poll: batch.poll,
            workers_max_global: work.workers_max_global,
            workers_max_per_repo: work.workers_max_per_repo,
            deletes_cap: match destination.deletes_cap {
                DeletesCap::None => None,
                DeletesCap::AtMost(most) => Some(most),
            },
            attribution: attribution.clone(),
            committer: committer.clone(),
            instance_id: instance_id.clone(),
            namespace: config.default_namespace.clone(),
            owner_cluster_role: owner_cluster_role.clone(),
            admission: webhook.address.map(|_| {
                let owner = owner_cluster_role.clone();
                AdmissionSettings::new(webhook, &config.default_namespace, owner)
            }),
            replicas: ownership.leader_elect.then(|| Replicas {
                leases: ownership.leases.clone(),
            }),
            turns: Some(BranchTurns {
                leases: ownership.leases.clone(),
                namespace: ownership
                    .leases_namespace
                    .clone()
                    .unwrap_or_else(|| config.default_namespace.clone()),
                take_over_after: ownership.take_over_after,
            }),
            own_labels: None,
        })
    }
}
