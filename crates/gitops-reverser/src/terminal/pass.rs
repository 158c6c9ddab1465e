//! One run of the operator between a person's own ends.

use std::sync::Arc;
use std::time::Duration;

use reverser_core::noise::NoiseFilter;
use reverser_core::selection::Exclusions;
use reverser_core::window::Limits;
use reverser_git::{Git, Person};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::exit::Complaint;
use super::repository::SCHEMES;
use crate::attribution::Attribution;
use crate::http::Readiness;
use crate::operator::{
    self, Ends, KeySource, OperatorError, OperatorSettings, Parts, Progress, StartWriter,
};
use crate::routing::{Configuration, RoutingOptions};
use crate::settings::{AllowedRepoUrls, AttributionSettings};
use crate::status::Statuses;
use crate::telemetry::{Telemetry, metrics};
use crate::watch::WatchSettings;

/// A server that is restarted behind its load balancer is back after so many tries, within four seconds.
const LIST_TRIES: u32 = 4;

/// What a pass is made of.
pub struct Plan {
    /// How the cluster is reached.
    pub config: kube::Config,
    /// What the operator is told once.
    pub settings: OperatorSettings,
    /// What is mirrored.
    pub configuration: watch::Receiver<Option<Arc<Configuration>>>,
    /// What follows that.
    pub parts: Parts,
    /// Who takes what each branch should hold.
    pub writers: StartWriter,
    /// By what Secrets are redacted.
    pub redaction: KeySource,
    /// Whether types are listed namespace by namespace.
    pub namespaces_first: bool,
    /// How far it is.
    pub progress: Arc<Progress>,
}

/// A pass that runs.
pub struct Pass {
    statuses: watch::Receiver<Statuses>,
    /// How far the lists and pushes are.
    pub progress: Arc<Progress>,
    stop: CancellationToken,
    operator: JoinHandle<Result<(), OperatorError>>,
}

impl Pass {
    /// Starts.
    #[must_use]
    pub fn start(plan: Plan) -> Self {
        let Plan {
            config,
            settings,
            configuration,
            parts,
            writers,
            redaction,
            namespaces_first,
            progress,
        } = plan;
        let (statuses_tx, statuses) = watch::channel(Statuses::default());
        let ends = Ends {
            configuration,
            statuses: statuses_tx,
            writers,
            redaction,
            attribution: Attribution::default(),
            namespaces_first,
            progress: progress.clone(),
            parts,
        };
        let stop = CancellationToken::new();
        let (readiness, _) = watch::channel(Readiness::Ready);
        let telemetry = Telemetry::register(&mut metrics::registry());
        let shutdown = stop.clone().cancelled_owned();
        let operator = tokio::spawn(operator::run_between(
            ends, config, settings, telemetry, readiness, shutdown,
        ));
        Self {
            statuses,
            progress,
            stop,
            operator,
        }
    }

    /// Waits until something is news. The operator ends by itself only if it cannot go on.
    pub async fn news(&mut self) -> Result<Statuses, Complaint> {
        let ended = tokio::select! {
            Ok(()) = self.statuses.changed() => return Ok(self.statuses.borrow_and_update().clone()),
            ended = &mut self.operator => ended,
        };
        Err(match ended {
            Ok(Ok(())) => Complaint::failed("the operator ended unexpectedly"),
            Ok(Err(error)) => Complaint::failed(error),
            Err(error) => Complaint::failed(error),
        })
    }

    /// How everything stands now.
    #[must_use]
    pub fn look(&mut self) -> Statuses {
        self.statuses.borrow_and_update().clone()
    }

    /// Lets it write what is waiting, and end.
    pub async fn finish(self) -> Result<(), Complaint> {
        self.stop.cancel();
        if self.operator.is_finished() {
            return Ok(());
        }
        match self.operator.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Complaint::failed(error)),
            Err(error) => Err(Complaint::failed(error)),
        }
    }
}

/// What an operator that runs for one person is told.
#[must_use]
pub fn settings(
    git: Git,
    work_dir: std::path::PathBuf,
    exclude: &[String],
    committer: Person,
    quiet: Duration,
) -> OperatorSettings {
    OperatorSettings {
        routing: RoutingOptions {
            schemes: SCHEMES.to_vec(),
            allowed_urls: AllowedRepoUrls::default(),
            secrets_mode: reverser_api::git_destination::SecretsMode::Redact,
            exclusions: Exclusions::new(true, exclude),
            watch_all: false,
            max_types: 1_000,
        },
        noise: NoiseFilter::without([]).expect("no rule is named that might not exist"),
        watch: WatchSettings {
            list_tries: LIST_TRIES,
            ..WatchSettings::large_pages()
        },
        discovery_refresh: Duration::from_mins(5),
        enabled: true,
        git,
        work_dir,
        limits: Limits {
            max_files: 200,
            max_bytes: 1 << 20,
            max_wait: Duration::from_secs(20),
            quiet,
        },
        poll: Duration::from_mins(1),
        workers_max_global: 4,
        workers_max_per_repo: 4,
        deletes_cap: None,
        attribution: AttributionSettings::default(),
        committer,
        instance_id: "mirror".to_owned(),
        namespace: "local".to_owned(),
        replicas: None,
        turns: None,
        admission: None,
        own_labels: None,
    }
}
