//! `controller`: runs the operator until it is told to end.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use tokio::net::TcpListener;
use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::subscriber::SetGlobalDefaultError;

use super::EndSignals;
use crate::admission;
use crate::attribution::Attribution;
use crate::attribution::shared_records::{self, Sharing};
use crate::command_line::ControllerArguments;
use crate::http::{self, BindError, Readiness};
use crate::operator::{self, OperatorError, OperatorSettings};
use crate::settings::Settings;
use crate::telemetry::facts::{LogLevelChanged, Serving, Started, Stopping};
use crate::telemetry::logging::LogControl;
use crate::telemetry::traces::{self, Traces, TracesError};
use crate::telemetry::{Telemetry, logging, metrics};

/// As clap has it for flags that it does not know.
const BAD_FLAGS: u8 = 2;

pub(super) fn run(arguments: ControllerArguments) -> ExitCode {
    let settings = match Settings::from_arguments(arguments) {
        Ok(settings) => settings,
        Err(refusal) => {
            eprintln!("error: {refusal}");
            return ExitCode::from(BAD_FLAGS);
        }
    };
    match run_with(settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            match error {
                ControllerError::Traces(_) => ExitCode::from(BAD_FLAGS),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

/// Why the controller cannot go on.
#[derive(Debug, thiserror::Error)]
enum ControllerError {
    #[error("cannot write a log: {0}")]
    Log(#[from] SetGlobalDefaultError),
    #[error(transparent)]
    Traces(#[from] TracesError),
    #[error("cannot start threads: {0}")]
    Threads(#[source] io::Error),
    #[error("cannot listen for signals: {0}")]
    Signals(#[source] io::Error),
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error("cannot serve metrics, probes and the webhook: {0}")]
    Serve(#[source] io::Error),
    #[error("a part of the program ended in a panic: {0}")]
    Panic(#[from] JoinError),
    #[error("{path}: {source}; write a kubeconfig that exists, or leave --kubeconfig out")]
    Kubeconfig {
        path: PathBuf,
        source: KubeconfigError,
    },
    #[error("no cluster is known: {0}; set --kubeconfig or KUBECONFIG, or run in a pod")]
    NoCluster(#[source] InferConfigError),
    #[error(transparent)]
    Operator(#[from] OperatorError),
    #[error("asked twice to end: ending at once, without pushing what waits")]
    Impatient,
}

fn run_with(settings: Settings) -> Result<(), ControllerError> {
    let telemetry = &settings.telemetry;
    let runtime = runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(ControllerError::Threads)?;
    let traces = traces::begin(telemetry.collector.as_deref(), runtime.handle())?;
    let spans = traces.as_ref().map(Traces::layer);
    let log = logging::install(telemetry.log_format, telemetry.log_filter.clone(), spans)?;
    logging::log_panics();
    // The API server waits for the webhook, so nothing that the operator does may be before it.
    let answering = runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("admission")
        .enable_all()
        .build()
        .map_err(ControllerError::Threads)?;
    let result = runtime.block_on(serve_and_operate(settings, log, answering.handle()));
    // The last spans need the runtime.
    if let Some(traces) = traces {
        traces.send_what_waits();
    }
    // What has not ended by now is not waited for.
    answering.shutdown_background();
    runtime.shutdown_background();
    result
}

async fn serve_and_operate(
    settings: Settings,
    log: LogControl,
    answering: &runtime::Handle,
) -> Result<(), ControllerError> {
    let mut signals = EndSignals::listen().map_err(ControllerError::Signals)?;
    let mut log_signals = LogSignals::listen().map_err(ControllerError::Signals)?;
    let mut registry = metrics::registry();
    let telemetry = Telemetry::register(&mut registry);
    let starting = Readiness::NotReady("starting".to_owned());
    let (say_ready, readiness) = watch::channel(starting);
    let stop_servers = CancellationToken::new();
    let stop_operator = CancellationToken::new();

    let mut servers = JoinSet::new();
    if let Some(address) = settings.telemetry.metrics_address {
        let listener = http::bind("metrics-bind-address", address).await?;
        say_serving(&telemetry, "/metrics", &listener)?;
        let registry = Arc::new(registry);
        servers.spawn(http::serve_metrics(
            listener,
            registry,
            stop_servers.clone(),
        ));
    }
    if let Some(address) = settings.telemetry.probe_address {
        let listener = http::bind("health-probe-bind-address", address).await?;
        say_serving(&telemetry, "/healthz /readyz", &listener)?;
        servers.spawn(http::serve_probes(
            listener,
            readiness,
            telemetry.clone(),
            stop_servers.clone(),
        ));
    }

    telemetry.emit(Started {
        instance_id: &settings.instance_id,
        version: env!("CARGO_PKG_VERSION"),
    });
    let config = kube_config(settings.kubeconfig.as_deref()).await?;
    let webhook_address = settings.webhook.address;
    let settings = OperatorSettings::new(&settings, &config)?;
    let attribution = Attribution::new(settings.attribution.limits(), telemetry.clone());
    if let (Some(address), Some(admission)) = (webhook_address, settings.admission.clone()) {
        let bind = answering.spawn(http::bind("webhook-bind-address", address));
        let listener = bind.await??;
        say_serving(&telemetry, admission::PATH, &listener)?;
        let (config, telemetry, stop) = (config.clone(), telemetry.clone(), stop_servers.clone());
        let client = crate::api_read::following(&config).map_err(OperatorError::Client)?;
        let records = match sharing(&settings, &client) {
            Some(sharing) => {
                let local = attribution.clone();
                let (records, share) = shared_records::share(sharing, local, telemetry.clone());
                // Beside the webhook, which waits for it.
                let sharing = answering.spawn(share);
                servers.spawn(async { sharing.await.map_err(io::Error::other) });
                Arc::new(records) as admission::Records
            }
            None => Arc::new(attribution.clone()),
        };
        let serving = answering.spawn(async move {
            admission::serve(listener, client, admission, records, telemetry, stop).await
        });
        servers.spawn(async { serving.await.map_err(io::Error::other)? });
    }
    let cut_off = settings.cut_off.clone();
    let operator = operator::run(
        config,
        settings,
        attribution,
        telemetry.clone(),
        say_ready,
        stop_operator.clone().cancelled_owned(),
    );
    tokio::pin!(operator);
    let mut asked = false;
    loop {
        tokio::select! {
            result = &mut operator => {
                result?;
                break;
            }
            signal = signals.next() => {
                if asked {
                    cut_off.cancel();
                    let _ = tokio::time::timeout(operator::CUT_OFF, &mut operator).await;
                    return Err(ControllerError::Impatient);
                }
                asked = true;
                telemetry.emit(Stopping { signal });
                stop_operator.cancel();
            }
            filter = log_signals.next(&log) => telemetry.emit(LogLevelChanged { filter: &filter }),
            Some(ended) = servers.join_next() => ended?.map_err(ControllerError::Serve)?,
        }
    }
    // Last, so that metrics and probes show how the operator ends.
    stop_servers.cancel();
    while let Some(ended) = servers.join_next().await {
        ended?.map_err(ControllerError::Serve)?;
    }
    Ok(())
}

/// How replicas share what they learn, if they do. Only the installation has the key, which is kept
/// where that of redacted Secrets is.
fn sharing(settings: &OperatorSettings, client: &kube::Client) -> Option<Sharing> {
    Some(Sharing {
        address: settings.attribution.store.clone()?,
        instance_id: settings.instance_id.clone(),
        key: operator::installation_key(client.clone(), &settings.namespace),
        ttl: settings.attribution.ttl,
        max_entries: settings.attribution.max_entries,
    })
}

/// The flag decides; without it the places where every client looks, and then the pod's own.
async fn kube_config(path: Option<&Path>) -> Result<kube::Config, ControllerError> {
    let Some(path) = path else {
        return kube::Config::infer()
            .await
            .map_err(ControllerError::NoCluster);
    };
    let failed = |source| ControllerError::Kubeconfig {
        path: path.to_owned(),
        source,
    };
    let kubeconfig = Kubeconfig::read_from(path).map_err(failed)?;
    let options = KubeConfigOptions::default();
    kube::Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(failed)
}

fn say_serving(
    telemetry: &Telemetry,
    paths: &str,
    listener: &TcpListener,
) -> Result<(), ControllerError> {
    let address = listener.local_addr().map_err(ControllerError::Serve)?;
    telemetry.emit(Serving { paths, address });
    Ok(())
}

/// The signals by which a person asks for more of the log, and for as much as before.
struct LogSignals {
    more: Signal,
    as_wanted: Signal,
}

impl LogSignals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            more: signal(SignalKind::user_defined1())?,
            as_wanted: signal(SignalKind::user_defined2())?,
        })
    }

    /// Gives what is logged from now on.
    async fn next(&mut self, log: &LogControl) -> String {
        tokio::select! {
            _ = self.more.recv() => log.more(),
            _ = self.as_wanted.recv() => log.as_wanted(),
        }
    }
}
