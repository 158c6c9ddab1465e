//! One run of the operator between a person's own ends.

use std::sync::Arc;
use std::time::Duration;

use reverser_core::noise::NoiseFilter;
use reverser_core::selection::Exclusions;
use reverser_core::window::Limits;
use reverser_git::{CancelToken, Git, Person};
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
    cut_off: CancelToken,
    /// Until it is known how it ended.
    operator: Option<JoinHandle<Result<(), OperatorError>>>,
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
            probes: None,
            redaction,
            attribution: Attribution::default(),
            namespaces_first,
            progress: progress.clone(),
            parts,
        };
        let stop = CancellationToken::new();
        let (readiness, _) = watch::channel(Readiness::Ready);
        let telemetry = Telemetry::register(&mut metrics::registry());
        let cut_off = settings.cut_off.clone();
        let shutdown = stop.clone().cancelled_owned();
        let operator = tokio::spawn(operator::run_between(
            ends, config, settings, telemetry, readiness, shutdown,
        ));
        Self {
            statuses,
            progress,
            stop,
            cut_off,
            operator: Some(operator),
        }
    }

    /// Waits until something is news. The operator ends by itself only if it cannot go on.
    pub async fn news(&mut self) -> Result<Statuses, Complaint> {
        let ended = tokio::select! {
            Ok(()) = self.statuses.changed() => return Ok(self.statuses.borrow_and_update().clone()),
            ended = end_of(&mut self.operator) => ended,
        };
        ended?;
        Err(Complaint::failed("the operator ended unexpectedly"))
    }

    /// How everything stands now.
    #[must_use]
    pub fn look(&mut self) -> Statuses {
        self.statuses.borrow_and_update().clone()
    }

    /// Lets it write what is waiting, and end.
    pub async fn finish(&mut self) -> Result<(), Complaint> {
        self.stop.cancel();
        end_of(&mut self.operator).await
    }

    /// Ends without writing what is waiting, in the middle of a push if there is one.
    pub async fn cut_off(&mut self) {
        self.cut_off.cancel();
        let _ = tokio::time::timeout(operator::CUT_OFF, self.finish()).await;
    }
}

/// How an operator ended; well, if that was told already.
async fn end_of(
    operator: &mut Option<JoinHandle<Result<(), OperatorError>>>,
) -> Result<(), Complaint> {
    let Some(running) = operator else {
        return Ok(());
    };
    let ended = running.await;
    *operator = None;
    match ended {
        Ok(ended) => ended.map_err(Complaint::failed),
        Err(error) => Err(Complaint::failed(error)),
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
        cut_off: CancelToken::new(),
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
        owner_cluster_role: None,
        own_labels: None,
    }
}
