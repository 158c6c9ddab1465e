//! One cluster for all tests that install something, one after the other: what one test leaves behind
//! would be in the way of the next.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::Deref;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reverser_testkit::control_plane::{ControlPlane, User};
use reverser_testkit::git_server::{BareRepository, HttpFront};
use reverser_testkit::{command, tools, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::node::{self, Node};
use crate::repository;

/// Long enough for a machine that does many other things.
const SOON: Duration = Duration::from_mins(2);

/// A cluster with a node, and a Git server with a repository.
pub(crate) struct Cluster {
    // The order of the fields is the order of the end.
    node: Node,
    pub(crate) git: HttpFront,
    pub(crate) repository: BareRepository,
    pub(crate) folder: TempDir,
    plane: MutexGuard<'static, Option<ControlPlane>>,
}

impl Deref for Cluster {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        self.plane.as_ref().expect("it is there until the end")
    }
}

impl Drop for Cluster {
    /// What a failed test leaves behind is nobody else's business.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.plane.take();
        }
    }
}

impl Cluster {
    /// Waits for the test before, and starts a node.
    pub(crate) fn take() -> Self {
        static PLANE: Mutex<Option<ControlPlane>> = Mutex::new(None);
        let mut slot = PLANE.lock().unwrap_or_else(PoisonError::into_inner);
        let plane = slot.get_or_insert_with(|| {
            let plane = ControlPlane::builder().controller_manager(true);
            let plane = plane.audit_log(true).start().unwrap();
            await_furniture(&plane);
            plane
        });
        let folder = tempfile::tempdir().unwrap();
        let repository = BareRepository::create(folder.path(), "mirror.git");
        Self {
            node: Node::start(plane),
            git: HttpFront::start(folder.path()),
            repository,
            folder,
            plane: slot,
        }
    }

    /// A command of a person who may do everything.
    pub(crate) fn person(&self, program: &str) -> Command {
        let mut person = tools::sealed(program, self.folder.path());
        person.env("KUBECONFIG", self.kubeconfig(User::Alice));
        person
    }

    #[track_caller]
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        command::run(self.person("kubectl").args(arguments)).stdout
    }

    #[track_caller]
    pub(crate) fn apply(&self, object: &Value) {
        let mut kubectl = self.person("kubectl");
        let apply = kubectl.args(["apply", "-f", "-"]);
        command::run_with_input(apply, object.to_string().as_bytes());
    }

    /// Credentials, a repository, a destination, a rule, and something to mirror.
    pub(crate) fn mirror(&self, namespace: &str, secrets_mode: &str) {
        self.await_kinds(
            reverser_api::crd_yaml::crds()
                .into_iter()
                .filter_map(|crd| crd.metadata.name),
        );
        let secret = ["create", "secret", "generic", "git-credentials"];
        let login = ["--from-literal=username=bot", "--from-literal=password=x"];
        self.kubectl(&[&["-n", namespace], &secret[..], &login[..]].concat());
        let ours = |kind: &str, spec: Value| {
            json!({
                "apiVersion": "configbutler.ai/v1alpha1", "kind": kind,
                "metadata": {"name": "mirror", "namespace": namespace}, "spec": spec,
            })
        };
        self.apply(&ours(
            "GitRepoConfig",
            json!({
                "repoUrl": self.git.url("mirror.git"), "allowedBranches": ["main"],
                "secretRef": {"name": "git-credentials"},
                "accessPolicy": {"allowClusterRules": true},
            }),
        ));
        self.apply(&ours(
            "GitDestination",
            json!({
                "repoRef": {"name": "mirror"}, "branch": "main", "baseFolder": "clusters/prod",
                "secrets": {"mode": secrets_mode},
            }),
        ));
        self.apply(&ours(
            "WatchRule",
            json!({"destinationRef": {"name": "mirror"}, "rules": [{}]}),
        ));
        self.kubectl(&[
            "-n",
            namespace,
            "create",
            "configmap",
            "web",
            "--from-literal=a=b",
        ]);
        self.kubectl(&[
            "-n",
            namespace,
            "create",
            "service",
            "clusterip",
            "web",
            "--tcp=80",
        ]);
    }

    /// Waits until a file is in Git, by the rest of its path.
    #[track_caller]
    pub(crate) fn await_file(&self, path: &str) -> String {
        soon(&format!("{path} in Git"), || {
            let files = self.files();
            let found = files.iter().find(|(file, _)| file.ends_with(path));
            found.map(|(_, text)| text.clone()).ok_or_else(|| {
                let there: Vec<_> = files.into_keys().collect();
                format!("{there:?}")
            })
        })
    }

    pub(crate) fn files(&self) -> BTreeMap<String, String> {
        match self.repository.tip("main") {
            Some(_) => self.repository.files("main"),
            None => BTreeMap::new(),
        }
    }

    /// Where the pods serve a path.
    pub(crate) fn serving(&self, path: &str) -> Vec<SocketAddr> {
        self.node.serving(path)
    }

    /// The metrics of every pod.
    pub(crate) fn scrapes(&self) -> Vec<String> {
        let addresses = self.serving("/metrics").into_iter();
        addresses
            .filter_map(|address| node::get(address, "/metrics"))
            .collect()
    }

    /// Everything that the cluster holds, as `resource namespace/name`, but for what comes and goes
    /// with every write.
    pub(crate) fn everything(&self) -> BTreeSet<String> {
        let resources = self.kubectl(&["api-resources", "--verbs=list", "-o", "name"]);
        let passing = ["events", "events.events.k8s.io", "componentstatuses"];
        let mut everything = BTreeSet::new();
        for resource in resources.lines().filter(|name| !passing.contains(name)) {
            let columns = "custom-columns=A:.metadata.namespace,B:.metadata.name";
            let mut kubectl = self.person("kubectl");
            kubectl.args(["get", resource, "-A", "--no-headers", "-o", columns]);
            // A type whose definition has just gone has no objects.
            let Ok(listed) = command::try_run(&mut kubectl) else {
                continue;
            };
            for line in listed.stdout.lines() {
                let words: Vec<&str> = line.split_whitespace().collect();
                everything.insert(format!("{resource} {}", words.join("/")));
            }
        }
        everything
    }

    pub(crate) fn chart() -> String {
        repository::path("charts/gitops-reverser")
            .display()
            .to_string()
    }
}

/// Waits for a condition, and panics with what was seen last.
#[track_caller]
pub(crate) fn soon<T>(what: &str, look: impl FnMut() -> Result<T, String>) -> T {
    wait::until_blocking(what, SOON, look).unwrap_or_else(|error| panic!("{error}"))
}

/// Every namespace has what the controller-manager puts into it, which would look new later.
fn await_furniture(plane: &ControlPlane) {
    let count = |arguments: &[&str]| {
        let mut kubectl = plane.kubectl(User::Admin);
        let found = command::run(kubectl.arg("get").args(arguments).args(["-o", "name"]));
        found.stdout.lines().count()
    };
    wait::until_blocking("what every namespace has", Duration::from_mins(2), || {
        let accounts = [
            "serviceaccounts",
            "-A",
            "--field-selector=metadata.name=default",
        ];
        let roots = [
            "configmaps",
            "-A",
            "--field-selector=metadata.name=kube-root-ca.crt",
        ];
        let seen = (count(&["namespaces"]), count(&accounts), count(&roots));
        let complete = seen.0 == seen.1 && seen.0 == seen.2;
        complete.then_some(()).ok_or(format!("{seen:?}"))
    })
    .unwrap();
}
