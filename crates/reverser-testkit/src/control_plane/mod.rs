//! A real etcd, kube-apiserver and, if wanted, kube-controller-manager.
//!
//! The tests of a binary share one plane and isolate themselves by namespace. A test that breaks
//! things (pauses a server, compacts etcd) starts a plane of its own.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use reverser_testkit::control_plane::{ControlPlane, User};
//!
//! let plane = ControlPlane::shared();
//! let namespace = plane.namespace("example");
//! let maps: kube::Api<ConfigMap> = kube::Api::namespaced(plane.client(User::Alice)?, &namespace);
//!
//! let own = ControlPlane::builder().controller_manager(true).start()?;
//! own.apiserver().pause()?;
//! # Ok(())
//! # }
//! ```
//!
//! All calls block, also those that talk to a server, and all may be made inside and outside of a
//! runtime. Only a [`kube::Client`] belongs to the runtime that it is made in.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use crate::scratch::Scratch;
use crate::{command, wait};

/// Who may do what.
mod user;
/// The programs, and where they come from.
mod binaries;
/// Keys, certificates and tokens, as files.
mod credentials;
/// The arguments of each program.
mod arguments;
/// One program of the plane, with a way to tell whether it is ready.
mod component;
/// An API server and the ways to reach it.
mod apiserver;
/// etcd and its history.
mod etcd;
/// What is created in a new plane: the rights of the users, the service account.
mod furnish;
/// What a plane is started with.
mod builder;
/// Asynchronous calls from anywhere.
mod blocking;

pub use apiserver::ApiServer;
pub use binaries::BinariesError;
pub use builder::{Builder, StartError};
pub use component::{Component, ComponentError};
pub use credentials::CredentialsError;
pub use etcd::{Etcd, EtcdError};
pub use furnish::FurnishError;
pub use user::User;

/// The label that [`ControlPlane::namespace`] sets; its value is the prefix.
pub const NAMESPACE_LABEL: &str = "testkit.gitops-reverser.io/prefix";

/// A second is usual.
const SERVED: Duration = Duration::from_mins(3);

/// A running control plane.
///
/// It ends when it is dropped, and with the test process in any case. After a failed test its logs
/// stay, and their place is printed.
// The order of the fields is the order of the end: clients of a server before the server, the
// folder last.
#[derive(Debug)]
pub struct ControlPlane {
    controller_manager: Option<Component>,
    second_apiserver: Option<ApiServer>,
    apiserver: ApiServer,
    etcd: Etcd,
    namespaces: AtomicU32,
    scratch: Scratch,
}

impl ControlPlane {
    /// The plane that the tests of this binary share: no controller-manager, an audit file.
    ///
    /// The first call starts it. If that fails, all calls fail the test with the same words.
    #[track_caller]
    pub fn shared() -> SharedPlane {
        static SHARED: OnceLock<Result<ControlPlane, String>> = OnceLock::new();
        let shared = SHARED.get_or_init(|| {
            let started = Self::builder().audit_log(true).start();
            started.map_err(|error| describe(&error))
        });
        match shared {
            Ok(plane) => SharedPlane(plane),
            Err(error) => panic!("no control plane: {error}"),
        }
    }

    /// A plane of its own for one test.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// A new client, for the runtime that this is called in.
    pub fn client(&self, user: User) -> Result<kube::Client, kube::Error> {
        self.apiserver.client(user)
    }

    /// The configuration of a client, to be changed as a test needs.
    #[must_use]
    pub fn kube_config(&self, user: User) -> kube::Config {
        self.apiserver.kube_config(user)
    }

    /// A file for other programs; only its owner may read it.
    #[must_use]
    pub fn kubeconfig(&self, user: User) -> &Path {
        self.apiserver.kubeconfig(user)
    }

    /// The real kubectl, which sees nothing of the configuration of whoever runs the tests.
    #[must_use]
    pub fn kubectl(&self, user: User) -> Command {
        self.apiserver.kubectl(user)
    }

    /// Creates a namespace whose name nobody else has; a failure fails the test.
    ///
    /// With a controller-manager it has its default service account too, so pods can be created.
    #[track_caller]
    pub fn namespace(&self, prefix: &str) -> String {
        let number = self.namespaces.fetch_add(1, Ordering::Relaxed);
        let name = format!("{prefix}-{number}");
        let with_account = self.controller_manager.is_some();
        let admin = self.kube_config(User::Admin);
        match furnish::namespace(admin, &name, prefix, with_account) {
            Ok(()) => name,
            Err(error) => panic!("no namespace {name}: {}", describe(&error)),
        }
    }

    /// Waits until the kinds of these definitions are served, for instance `things.example.com`; a
    /// failure fails the test.
    ///
    /// That a definition is established says what the API server will do; what it does is seen later.
    #[track_caller]
    pub fn await_kinds(&self, definitions: impl IntoIterator<Item: AsRef<str>>) {
        let mut kinds = String::new();
        for name in definitions {
            if !kinds.is_empty() {
                kinds.push(',');
            }
            kinds.push_str(name.as_ref());
        }
        let served = wait::until_blocking(format!("{kinds} to be served"), SERVED, || {
            let mut kubectl = self.kubectl(User::Admin);
            command::try_run(kubectl.args(["get", &kinds, "--all-namespaces"]))
        });
        if let Err(error) = served {
            panic!("{error}");
        }
    }

    /// Makes etcd forget everything but the present state, and gives the revision it did that at.
    ///
    /// What the API server keeps in its own memory it still knows. To have it forget that too,
    /// restart it, or start the plane with [`Builder::watch_cache`] off. For a plane of one's own:
    /// the pages and watches of other tests would break.
    pub fn compact_etcd(&self) -> Result<i64, EtcdError> {
        self.etcd.compact()
    }

    /// The API server that clients talk to unless told otherwise.
    #[must_use]
    pub fn apiserver(&self) -> &ApiServer {
        &self.apiserver
    }

    /// The other API server on the same etcd; fails the test if the plane was not given one.
    #[track_caller]
    #[must_use]
    pub fn second_apiserver(&self) -> &ApiServer {
        match &self.second_apiserver {
            Some(server) => server,
            None => panic!("a plane has one with ControlPlane::builder().second_apiserver(true)"),
        }
    }

    /// The storage below the API servers.
    #[must_use]
    pub fn etcd(&self) -> &Etcd {
        &self.etcd
    }

    /// The controller-manager; fails the test if the plane was not given one.
    #[track_caller]
    #[must_use]
    pub fn controller_manager(&self) -> &Component {
        match &self.controller_manager {
            Some(manager) => manager,
            None => panic!("a plane has one with ControlPlane::builder().controller_manager(true)"),
        }
    }

    /// The file in which the API server says who did what, one JSON object a line.
    #[must_use]
    pub fn audit_log(&self) -> Option<&Path> {
        self.apiserver.audit_log()
    }

    /// The folder of this plane.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.scratch.path()
    }

    /// The folder that has a log of each program.
    #[must_use]
    pub fn logs(&self) -> PathBuf {
        self.dir().join("logs")
    }

    /// How other programs reach it, as JSON: a kubeconfig for each user, and the real kubectl.
    #[must_use]
    pub fn description(&self) -> serde_json::Value {
        let files = User::ALL.map(|user| {
            let file = self.kubeconfig(user).display().to_string();
            (user.username().to_owned(), file.into())
        });
        let kubeconfigs: serde_json::Map<String, serde_json::Value> = files.into_iter().collect();
        let kubectl = self.kubectl(User::Admin);
        serde_json::json!({
            "kubeconfigs": kubeconfigs,
            "kubectl": kubectl.get_program().to_string_lossy(),
        })
    }

    /// Everything that runs, by name and process id.
    #[must_use]
    pub fn pids(&self) -> Vec<(String, u32)> {
        let apiservers = std::iter::once(&self.apiserver).chain(&self.second_apiserver);
        let components = std::iter::once(self.etcd.component())
            .chain(apiservers.map(ApiServer::component))
            .chain(&self.controller_manager);
        components
            .filter_map(|component| Some((component.name().to_owned(), component.pid()?)))
            .collect()
    }
}

/// The plane that the tests of a binary share.
///
/// The plane itself is never dropped, so this is what notices that a test failed.
#[derive(Debug)]
pub struct SharedPlane(&'static ControlPlane);

impl Deref for SharedPlane {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        self.0
    }
}

impl Drop for SharedPlane {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.scratch.keep();
        }
    }
}

/// An error with its causes, for a panic message.
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
