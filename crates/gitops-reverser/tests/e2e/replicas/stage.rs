//! Replicas as processes, each with a pod that stands for it.

use std::time::{Duration, Instant};

use reverser_testkit::control_plane::User;
use reverser_testkit::fault_proxy::FaultProxy;
use reverser_testkit::process::Process;
use reverser_testkit::scratch::Scratch;
use reverser_testkit::{command, wait};
use serde_json::{Value, json};

use super::front::{Front, Selects};
use crate::operator::installation::Installation;
use crate::operator::oracle::Expected;

/// As long as anything may take that comes at all, on a machine that is busy with other things.
pub(crate) const IN_TIME: Duration = Duration::from_secs(90);
/// The length of the leases: a leader that a busy machine leaves alone for less goes on.
pub(crate) const LEASE: Duration = Duration::from_secs(12);

/// The processes of one or more installations.
pub(crate) struct Stage {
    pub(crate) replicas: Vec<Process>,
    front: Front,
    pub(crate) cluster: Installation,
    scratch: Scratch,
}

impl Stage {
    /// A control plane with a repository `repo`, a destination `prod` and a rule for ConfigMaps, and a
    /// Service for the webhook of all replicas; no replica yet.
    pub(crate) fn with_webhook(name: &str, selects: Selects) -> Self {
        let cluster = Installation::alone(name);
        cluster.apply(&cluster.rule("all", &json!([{"resources": ["configmaps"]}])));
        Self {
            replicas: Vec::new(),
            front: Front::open(&cluster.plane, selects),
            cluster,
            scratch: Scratch::create(name).unwrap(),
        }
    }

    /// Starts a replica of the installation `main` with a pod of its own.
    pub(crate) fn add(&mut self) -> usize {
        self.add_with(None, &[])
    }

    /// Starts a replica that reaches the API server by way of a proxy, if there is one.
    pub(crate) fn add_with(&mut self, proxy: Option<&FaultProxy>, flags: &[&str]) -> usize {
        let number = self.replicas.len();
        let name = format!("replica-{number}");
        self.cluster.apply(&json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": "default",
                "labels": {"app.kubernetes.io/name": "gitops-reverser", "configbutler.ai/leader": "true"},
            },
            "spec": {"containers": [{"name": "controller", "image": "none"}]},
        }));
        let mut arguments: Vec<String> = [
            "controller",
            "--instance-id=main",
            "--allow-url-schemes=https,file",
            "--metrics-bind-address=0",
            "--leases-renew-sec=2",
            "--git-poll-sec=2",
            "--log-level=debug,kube=info,hyper=info",
        ]
        .map(str::to_owned)
        .into();
        arguments.push(format!("--leases-lease-sec={}", LEASE.as_secs()));
        arguments.extend(self.front.flags());
        arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let program = assert_cmd::cargo::cargo_bin("gitops-reverser");
        let work_dir = self.scratch.path().join(format!("{name}-work"));
        let kubeconfig = self.kubeconfig(&name, proxy);
        let process = Process::new(&self.scratch, &name, &program, arguments)
            .env("GITOPS_REVERSER_KUBECONFIG", kubeconfig)
            .env("GITOPS_REVERSER_WORK_DIR", work_dir)
            .env("POD_NAME", &name)
            .env("POD_NAMESPACE", "default");
        process.start().unwrap();
        self.replicas.push(process);
        number
    }

    fn kubeconfig(&self, name: &str, proxy: Option<&FaultProxy>) -> std::path::PathBuf {
        let own = self.cluster.plane.kubeconfig(User::Admin);
        let Some(proxy) = proxy else {
            return own.to_owned();
        };
        let text = std::fs::read_to_string(own).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        let (server, authority) = proxy.address();
        let file = self.scratch.path().join(format!("{name}.crt"));
        std::fs::write(&file, authority).unwrap();
        config["clusters"][0]["cluster"] = json!({"server": server, "certificate-authority": file});
        let path = self.scratch.path().join(format!("{name}.kubeconfig"));
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }

    /// Who the Lease says that leads; nobody if it is free.
    pub(crate) fn holder(&self) -> Option<usize> {
        let holder = self.lease("{.spec.holderIdentity}");
        let number = holder.strip_prefix("replica-")?.split_once('_')?.0;
        number.parse().ok()
    }

    pub(crate) fn lease(&self, path: &str) -> String {
        let mut kubectl = self.cluster.plane.kubectl(User::Admin);
        let output = kubectl
            .args([
                "-n",
                "default",
                "get",
                "lease",
                "gitops-reverser-leader-main",
            ])
            .args(["--ignore-not-found", "-o", &format!("jsonpath={path}")])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Waits until one of these leads, which is told, with how long it took.
    #[track_caller]
    pub(crate) fn await_leader(&self, among: &[usize]) -> (usize, Duration) {
        let start = Instant::now();
        let leader = wait::until_blocking("a leader", IN_TIME, || {
            self.holder()
                .filter(|holder| among.contains(holder))
                .ok_or_else(|| format!("{:?} leads; {}", self.holder(), self.logs()))
        });
        (
            leader.unwrap_or_else(|error| panic!("{error}")),
            start.elapsed(),
        )
    }

    /// Waits until a replica is ready, be it to lead or to stand by.
    #[track_caller]
    pub(crate) fn await_ready(&self, replica: usize) {
        let ready = || {
            let tail = || self.replicas[replica].log_tail();
            self.front.is_ready(replica).then_some(()).ok_or_else(tail)
        };
        wait::until_blocking("it is ready", IN_TIME, ready)
            .unwrap_or_else(|error| panic!("{error}"));
    }

    /// Waits until the API server asks about what is done, and the answer is heard.
    #[track_caller]
    pub(crate) fn await_asked(&self) {
        let mut number = 0;
        let asked = || {
            let map = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "data": {"number": number.to_string()},
                "metadata": {"name": "alice-probe", "namespace": self.cluster.namespace},
            });
            number += 1;
            self.cluster.apply(&map);
            let line = format!("number: \"{}\"", number - 1);
            self.cluster.await_file("alice-probe", &line);
            let last = self.users_of("alice-probe").into_iter().next();
            if last.as_deref() == Some("alice exact") {
                Ok(())
            } else {
                Err(format!("{last:?}; {}", self.logs()))
            }
        };
        wait::until_blocking("an author", IN_TIME, asked).unwrap_or_else(|error| panic!("{error}"));
    }

    /// `user how` of every commit that touched the file of a ConfigMap, the newest first.
    pub(crate) fn users_of(&self, name: &str) -> Vec<String> {
        let trailer =
            |key: &str| format!("%(trailers:key=X-ConfigButler-{key},valueonly,separator=%x2C)");
        let format = format!("--format={} {}", trailer("User"), trailer("Attribution"));
        let path = format!("clusters/prod/{}", self.cluster.path(name));
        let log = self
            .cluster
            .repository
            .git(&["log", &format, "main", "--", &path]);
        log.lines().map(str::to_owned).collect()
    }

    /// Waits until a replica has ended by itself, and says how.
    #[track_caller]
    pub(crate) fn await_end(&self, replica: usize) -> Option<i32> {
        let process = &self.replicas[replica];
        let ended = || process.ended().unwrap().ok_or_else(|| process.log_tail());
        let ended = wait::until_blocking("it ends", IN_TIME, ended);
        ended.unwrap_or_else(|error| panic!("{error}")).code()
    }

    /// Waits until the branch equals the cluster, byte for byte.
    #[track_caller]
    pub(crate) fn await_mirror(&self) {
        let namespace = self.cluster.namespace.clone();
        self.cluster
            .await_mirror(&[Expected::config_maps(&namespace)]);
    }

    /// The pods that are labelled as leaders.
    pub(crate) fn labelled_pods(&self) -> String {
        let mut kubectl = self.cluster.plane.kubectl(User::Admin);
        let pods = kubectl
            .args([
                "-n",
                "default",
                "get",
                "pods",
                "-l",
                "configbutler.ai/leader=true",
            ])
            .args(["-o", "jsonpath={.items[*].metadata.name}"]);
        command::run(pods).stdout
    }

    #[track_caller]
    pub(crate) fn log_has(&self, replica: usize, words: &str) {
        let log = std::fs::read_to_string(self.replicas[replica].log()).unwrap();
        assert!(log.contains(words), "{words} is not in\n{log}");
    }

    fn logs(&self) -> String {
        let tails = self.replicas.iter().map(|replica| {
            let (name, tail) = (replica.name(), replica.log_tail());
            format!("{name}:\n{tail}")
        });
        tails.collect()
    }
}
