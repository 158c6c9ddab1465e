use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicU32;

use serde_json::json;

use super::apiserver::Places;
use super::arguments::{self, ApiServerSettings};
use super::binaries::{Binaries, BinariesError};
use super::component::{Component, ComponentError};
use super::credentials::{self, Credentials, CredentialsError};
use super::etcd::Etcd;
use super::furnish::{self, FurnishError};
use super::{ApiServer, ControlPlane, User};
use crate::ports::Port;
use crate::process::Process;
use crate::scratch::Scratch;

/// Ports are reserved among test processes; somebody else may still take one in the moment between
/// the look and the start.
const ATTEMPTS: u32 = 3;

/// Why a plane does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There are no programs.
    #[error(transparent)]
    Binaries(#[from] BinariesError),
    /// There is no folder.
    #[error("no folder for the control plane")]
    Folder(#[source] io::Error),
    /// There are no ports.
    #[error("no ports for the control plane")]
    Ports(#[source] io::Error),
    /// There are no keys.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// A program does not start.
    #[error(transparent)]
    Component(#[from] ComponentError),
    /// The users do not get their rights.
    #[error(transparent)]
    Furnish(#[from] FurnishError),
}

impl StartError {
    fn is_port_taken(&self) -> bool {
        matches!(self, Self::Component(error) if error.is_port_taken())
    }
}

/// What a plane is started with.
#[derive(Debug, Clone)]
#[must_use]
#[expect(
    clippy::struct_excessive_bools,
    reason = "switches that do not depend on each other"
)]
pub struct Builder {
    controller_manager: bool,
    second_apiserver: bool,
    audit_log: bool,
    priority_and_fairness: bool,
    watch_cache: bool,
    feature_gates: BTreeMap<String, bool>,
    apiserver_arguments: Vec<String>,
}

impl Builder {
    pub(super) fn new() -> Self {
        Self {
            controller_manager: false,
            second_apiserver: false,
            audit_log: false,
            priority_and_fairness: false,
            watch_cache: true,
            feature_gates: BTreeMap::new(),
            apiserver_arguments: Vec::new(),
        }
    }

    /// Deployments get pods, namespaces go away, service accounts appear. Off unless asked for.
    pub fn controller_manager(mut self, on: bool) -> Self {
        self.controller_manager = on;
        self
    }

    /// Two API servers on one etcd. Off unless asked for.
    pub fn second_apiserver(mut self, on: bool) -> Self {
        self.second_apiserver = on;
        self
    }

    /// Each API server writes who did what. Off unless asked for.
    pub fn audit_log(mut self, on: bool) -> Self {
        self.audit_log = on;
        self
    }

    /// The API servers share out their time among users. Off unless asked for, because tests are
    /// all of the load and want all of the time.
    pub fn priority_and_fairness(mut self, on: bool) -> Self {
        self.priority_and_fairness = on;
        self
    }

    /// The API servers answer watches from memory. On unless turned off; without it every watch
    /// reads from etcd, and what etcd has forgotten is gone.
    pub fn watch_cache(mut self, on: bool) -> Self {
        self.watch_cache = on;
        self
    }

    /// A feature gate of the API servers.
    pub fn feature_gate(mut self, name: &str, on: bool) -> Self {
        self.feature_gates.insert(name.to_owned(), on);
        self
    }

    /// One more argument of the API servers, `--name=value`.
    pub fn apiserver_argument(mut self, argument: impl Into<String>) -> Self {
        self.apiserver_arguments.push(argument.into());
        self
    }

    /// Starts everything, and gives the plane when it is ready.
    pub fn start(self) -> Result<ControlPlane, StartError> {
        let binaries = Binaries::find(self.controller_manager)?;
        let mut attempt = 1;
        loop {
            match self.attempt(&binaries) {
                Err(error) if error.is_port_taken() && attempt < ATTEMPTS => attempt += 1,
                outcome => return outcome,
            }
        }
    }

    fn attempt(&self, binaries: &Binaries) -> Result<ControlPlane, StartError> {
        let scratch = Scratch::create("plane").map_err(StartError::Folder)?;
        let started = self.start_in(&scratch, binaries);
        let Running {
            etcd,
            apiserver,
            second_apiserver,
            controller_manager,
        } = started.inspect_err(|error| {
            // Nobody needs the logs of a plane that is started again.
            if !error.is_port_taken() {
                scratch.keep();
            }
        })?;
        Ok(ControlPlane {
            controller_manager,
            second_apiserver,
            apiserver,
            etcd,
            namespaces: AtomicU32::new(1),
            scratch,
        })
    }

    fn start_in(&self, scratch: &Scratch, binaries: &Binaries) -> Result<Running, StartError> {
        let folder = scratch.path();
        let mut credentials = Credentials::create(folder.join("credentials"))?;

        let etcd = start_etcd(scratch, binaries)?;
        let mut servers = Vec::new();
        let names: &[&str] = if self.second_apiserver {
            &["kube-apiserver", "kube-apiserver-2"]
        } else {
            &["kube-apiserver"]
        };
        for name in names {
            let server = self.apiserver(name, scratch, binaries, &etcd, &credentials)?;
            server.component.launch()?;
            servers.push(server);
        }
        for server in &servers {
            server.component.await_ready()?;
        }

        // It gets ready while the rights are written.
        let url = &servers[0].url;
        let controller_manager = self.controller_manager.then(|| {
            let manager = controller_manager(scratch, binaries, url, &credentials)?;
            manager.launch()?;
            Ok::<_, StartError>(manager)
        });
        let controller_manager = controller_manager.transpose()?;
        let admin = credentials.kube_config(url, User::Admin);
        credentials.set_robot_token(furnish::plane(admin)?);
        for server in &servers {
            let [alice, tenant] =
                [User::Alice, User::Tenant].map(|user| credentials.kube_config(&server.url, user));
            furnish::await_rights(alice, tenant)?;
        }
        if let Some(manager) = &controller_manager {
            manager.await_ready()?;
        }

        let mut servers = servers.into_iter().map(|server| {
            let places = Places {
                kubectl: binaries.kubectl.clone(),
                kubeconfigs: folder.join("kubeconfigs").join(server.component.name()),
                home: folder.join("home"),
                audit_log: server.audit_log,
            };
            ApiServer::new(server.component, server.url, &credentials, places)
        });
        Ok(Running {
            etcd,
            apiserver: servers.next().expect("there is always one")?,
            second_apiserver: servers.next().transpose()?,
            controller_manager,
        })
    }

    fn apiserver(
        &self,
        name: &str,
        scratch: &Scratch,
        binaries: &Binaries,
        etcd: &Etcd,
        credentials: &Credentials,
    ) -> Result<Server, StartError> {
        let port = Port::reserve().map_err(StartError::Ports)?;
        let url = local("https", &port);
        let audit = if self.audit_log {
            let policy = scratch.path().join("audit-policy.json");
            let everything = json!({
                "apiVersion": "audit.k8s.io/v1",
                "kind": "Policy",
                "omitStages": ["RequestReceived"],
                "rules": [{"level": "Metadata"}],
            });
            credentials::write_private(&policy, &everything.to_string())?;
            Some((policy, scratch.path().join(format!("{name}-audit.log"))))
        } else {
            None
        };
        let arguments = arguments::kube_apiserver(&ApiServerSettings {
            port: port.number(),
            etcd: etcd.url(),
            credentials,
            service_account_admission: self.controller_manager,
            priority_and_fairness: self.priority_and_fairness,
            watch_cache: self.watch_cache,
            feature_gates: &self.feature_gates,
            audit: audit
                .as_ref()
                .map(|(policy, log)| (policy.as_path(), log.as_path())),
            more: &self.apiserver_arguments,
        });
        let process = Process::new(scratch, name, &binaries.kube_apiserver, arguments);
        let health = credentials.kube_config(&url, User::Admin);
        Ok(Server {
            component: Component::new(process, health, "/readyz", vec![port]),
            url,
            audit_log: audit.map(|(_, log)| log),
        })
    }
}

/// An API server that has no ways to be reached yet, because not all tokens exist.
struct Server {
    component: Component,
    url: http::Uri,
    audit_log: Option<PathBuf>,
}

/// Everything that a plane is made of.
struct Running {
    etcd: Etcd,
    apiserver: ApiServer,
    second_apiserver: Option<ApiServer>,
    controller_manager: Option<Component>,
}

fn start_etcd(scratch: &Scratch, binaries: &Binaries) -> Result<Etcd, StartError> {
    let client = Port::reserve().map_err(StartError::Ports)?;
    let peer = Port::reserve().map_err(StartError::Ports)?;
    let url = local("http", &client);
    let data = scratch.data().join("etcd");
    let arguments = arguments::etcd(&data, client.number(), peer.number());
    let process = Process::new(scratch, "etcd", &binaries.etcd, arguments);
    let health = kube::Config::new(url.clone());
    let component = Component::new(process, health, "/health", vec![client, peer]);
    component.start()?;
    Ok(Etcd::new(component, url))
}

fn controller_manager(
    scratch: &Scratch,
    binaries: &Binaries,
    apiserver: &http::Uri,
    credentials: &Credentials,
) -> Result<Component, StartError> {
    let port = Port::reserve().map_err(StartError::Ports)?;
    let name = "kube-controller-manager";
    let kubeconfig = scratch
        .path()
        .join("kubeconfigs")
        .join("controller-manager.yaml");
    credentials.write_controller_manager_kubeconfig(&kubeconfig, apiserver)?;
    let arguments = arguments::kube_controller_manager(port.number(), &kubeconfig, credentials);
    let process = Process::new(scratch, name, &binaries.kube_controller_manager, arguments);
    // Its health is no secret, and it does not know the users of the API server.
    let health = credentials.anonymous(&local("https", &port));
    Ok(Component::new(process, health, "/healthz", vec![port]))
}

fn local(scheme: &str, port: &Port) -> http::Uri {
    let url = format!("{scheme}://127.0.0.1:{}", port.number());
    url.parse().expect("a scheme, an address and a port")
}
