//! A webhook on a port of its own, and what it was told.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gitops_reverser::admission::{
    self, AdmissionSettings, CertificateSource, Endpoint, Lifetimes, Records,
};
use gitops_reverser::attribution::Attribution;
use gitops_reverser::telemetry::{Telemetry, metrics};
use prometheus_client::registry::Registry;
use reverser_core::admission_record::{AdmissionRecord, AdmittedChange};
use reverser_testkit::control_plane::{ControlPlane, User};
use reverser_testkit::ports::Port;
use reverser_testkit::wait;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::operator::installation::Installation;

/// A busy machine, and an API server that learns of a webhook when it gets round to it.
pub(crate) const SOON: Duration = Duration::from_mins(2);

pub(crate) struct Webhook {
    pub(crate) settings: AdmissionSettings,
    /// Who hears of it too.
    pub(crate) attribution: Attribution,
    _registry: Registry,
    /// Where it listens.
    pub(crate) host: IpAddr,
    port: Port,
    config: kube::Config,
    telemetry: Telemetry,
    records: Arc<Mutex<Vec<AdmissionRecord>>>,
    runtime: Runtime,
    running: Option<(CancellationToken, JoinHandle<io::Result<()>>)>,
}

impl Webhook {
    /// Not started yet, with a namespace of its own as the operator's, and a name that nobody else
    /// has.
    pub(crate) fn prepare(plane: &ControlPlane) -> Self {
        let namespace = plane.namespace("home");
        let port = Port::reserve().unwrap();
        let url = format!("https://127.0.0.1:{}{}", port.number(), admission::PATH);
        let mut registry = metrics::registry();
        let telemetry = Telemetry::register(&mut registry);
        Self {
            settings: AdmissionSettings {
                name: namespace.clone(),
                endpoint: Endpoint::Url(url),
                certificates: CertificateSource::Own {
                    secret: format!("{namespace}-webhook-certificate"),
                },
                namespace,
                lifetimes: Lifetimes::default(),
                client_authority: None,
                owner_cluster_role: None,
            },
            attribution: Attribution::default(),
            _registry: registry,
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port,
            config: plane.kube_config(User::Admin),
            telemetry,
            records: Arc::default(),
            runtime: Runtime::new().unwrap(),
            running: None,
        }
    }

    /// The same, as a part of an operator: both have the identity of one release of the chart.
    pub(crate) fn part_of(world: &mut Installation) -> Self {
        let mut webhook = Self::prepare(&world.plane);
        world.be_a_release(&webhook.settings.namespace, &[]);
        webhook.config = world.config.clone();
        world.settings.admission = Some(webhook.settings.clone());
        webhook
    }

    pub(crate) fn start(&mut self) {
        let taken = self.records.clone();
        let attribution = self.attribution.clone();
        let records: Records = Arc::new(move |record: AdmissionRecord| {
            taken.lock().unwrap().push(record.clone());
            attribution.record(record);
        });
        let (settings, telemetry) = (self.settings.clone(), self.telemetry.clone());
        let (config, address) = (self.config.clone(), (self.host, self.port.number()));
        let stop = CancellationToken::new();
        let until = stop.clone();
        let task = self.runtime.spawn(async move {
            let listener = TcpListener::bind(address).await?;
            let client = kube::Client::try_from(config).unwrap();
            admission::serve(listener, client, settings, records, telemetry, until).await
        });
        self.running = Some((stop, task));
    }

    pub(crate) fn stop(&mut self) {
        if let Some((stop, task)) = self.running.take() {
            stop.cancel();
            self.runtime.block_on(task).unwrap().unwrap();
        }
    }

    /// By which the API server reaches it.
    pub(crate) fn url(&self) -> String {
        format!("https://127.0.0.1:{}{}", self.port(), admission::PATH)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port.number()
    }

    /// Who did what to which object, in the order in which it was told.
    pub(crate) fn told(&self) -> Vec<String> {
        let records = self.records.lock().unwrap();
        records.iter().map(describe).collect()
    }

    pub(crate) fn records(&self) -> Vec<AdmissionRecord> {
        self.records.lock().unwrap().clone()
    }

    /// Waits until this is told, and does something again and again before each look.
    #[track_caller]
    pub(crate) fn await_told(&self, what: &str, mut again: impl FnMut()) {
        let look = || {
            again();
            let told = self.told();
            if told.iter().any(|one| one == what) {
                Ok(())
            } else {
                Err(format!("{told:?}"))
            }
        };
        wait::until_blocking(what, SOON, look).unwrap_or_else(|error| panic!("{error}"));
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        if let Some((stop, task)) = self.running.take() {
            stop.cancel();
            let _ = self.runtime.block_on(task);
        }
    }
}

/// For instance `alice creates configmaps a`.
fn describe(record: &AdmissionRecord) -> String {
    let verb = match &record.change {
        AdmittedChange::Create { .. } => "creates".to_owned(),
        AdmittedChange::Update { .. } => "updates".to_owned(),
        AdmittedChange::Scale { replicas, .. } => format!("scales to {replicas}"),
        AdmittedChange::Delete { .. } => "deletes".to_owned(),
    };
    let (user, resource) = (record.user.name(), record.type_key.resource());
    format!("{user} {verb} {resource} {}", record.name)
}
