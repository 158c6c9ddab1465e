//! Replicas as processes, each with a pod that stands for it.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use reverser_testkit::control_plane::User;
use reverser_testkit::fault_proxy::FaultProxy;
use reverser_testkit::process::Process;
use reverser_testkit::scratch::Scratch;
use reverser_testkit::wall_clock::WallClock;
use reverser_testkit::{command, wait};
use serde_json::{Value, json};

use super::front::{Front, Selects};
use crate::operator::installation::Installation;
use crate::operator::oracle::Expected;

/// As long as anything may take that comes at all, on a machine that is busy with other things.
pub(crate) const IN_TIME: Duration = Duration::from_secs(90);
/// The length of the leases: a leader that a busy machine leaves alone for less goes on.
pub(crate) const LEASE: Duration = Duration::from_secs(12);

/// How long a rolling restart takes, if that is said by `REVERSER_ROLLING_SECONDS`.
pub(crate) fn rolling_time() -> Option<Duration> {
    let seconds = std::env::var("REVERSER_ROLLING_SECONDS").ok();
    seconds.map(|seconds| Duration::from_secs(seconds.parse().unwrap()))
}

/// Whether this machine has nothing else to do, so that what is promised about times and shares can
/// be held against it.
pub(crate) fn promises_are_held() -> bool {
    rolling_time().is_some()
}

/// The replicas of an installation, each a process with the rights that the chart gives it.
pub(crate) struct Stage {
    pub(crate) replicas: Vec<Process>,
    pub(crate) front: Front,
    pub(crate) cluster: Installation,
    /// The namespace of the release, which has its name too.
    pub(crate) home: String,
    scratch: Scratch,
    /// Counts how often it was asked for an author.
    probes: Cell<usize>,
}

/// What sets a replica apart from others.
#[derive(Default)]
pub(crate) struct Peculiarity<'a> {
    /// Reaches the API server by way of this.
    pub(crate) proxy: Option<&'a FaultProxy>,
    /// In the place of what others have.
    pub(crate) flags: &'a [&'a str],
    /// Goes by this clock.
    pub(crate) clock: Option<&'a WallClock>,
}

impl Stage {
    /// A control plane with a repository `repo`, a destination `prod` and a rule for ConfigMaps, and a
    /// Service for the webhook of all replicas; no replica yet.
    pub(crate) fn with_webhook(name: &str, selects: Selects) -> Self {
        let mut cluster = Installation::alone(name);
        cluster.apply(&cluster.rule("all", &json!([{"resources": ["configmaps"]}])));
        let home = cluster.plane.namespace("home");
        cluster.be_a_release(&home, &[]);
        Self {
            replicas: Vec::new(),
            front: Front::open(&cluster.plane, &home, selects),
            cluster,
            home,
            scratch: Scratch::create(name).unwrap(),
            probes: Cell::new(0),
        }
    }

    /// A clock for the next replica.
    pub(crate) fn clock(&self) -> WallClock {
        let number = self.replicas.len();
        WallClock::new(&self.scratch, &format!("replica-{number}"))
    }

    /// Starts a replica of the installation `main` with a pod of its own.
    pub(crate) fn add(&mut self) -> usize {
        self.add_with(&Peculiarity::default())
    }

    /// The same, with something of its own.
    pub(crate) fn add_with(&mut self, peculiarity: &Peculiarity<'_>) -> usize {
        let Peculiarity {
            proxy,
            flags,
            clock,
        } = peculiarity;
        let number = self.replicas.len();
        let name = format!("replica-{number}");
        self.cluster.apply(&json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": self.home,
                "labels": {"app.kubernetes.io/name": "gitops-reverser", "configbutler.ai/leader": "true"},
            },
            "spec": {"containers": [{"name": "controller", "image": "none"}]},
        }));
        let mut arguments: Vec<String> = [
            "controller",
            "--instance-id=main",
            "--allow-url-schemes=https,file,http",
            "--metrics-bind-address=0",
            "--leases-renew-sec=2",
            "--git-poll-sec=2",
            "--log-level=debug,kube=info,hyper=info",
        ]
        .map(str::to_owned)
        .into();
        arguments.push(format!("--leases-lease-sec={}", LEASE.as_secs()));
        let home = &self.home;
        arguments.push(format!("--webhook-configuration-name={home}"));
        let secret = format!("{home}-webhook-certificate");
        arguments.push(format!("--webhook-certificate-secret={secret}"));
        arguments.extend(self.front.flags());
        let flag_of = |flag: &str| flag.split('=').next().map(str::to_owned);
        arguments.retain(|usual| !flags.iter().any(|own| flag_of(own) == flag_of(usual)));
        arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let program = assert_cmd::cargo::cargo_bin("gitops-reverser");
        let work_dir = self.scratch.path().join(format!("{name}-work"));
        let kubeconfig = self.kubeconfig(&name, *proxy);
        let process = Process::new(&self.scratch, &name, &program, arguments)
            .env("GITOPS_REVERSER_KUBECONFIG", kubeconfig)
            .env("GITOPS_REVERSER_WORK_DIR", work_dir)
            .env("POD_NAME", &name)
            .env("POD_NAMESPACE", &self.home);
        let clock = clock.iter().flat_map(|clock| clock.environment());
        let process = clock.fold(process, |process, (name, value)| process.env(name, value));
        process.start().unwrap();
        self.replicas.push(process);
        number
    }

    /// How a pod of the release reaches the API server.
    fn kubeconfig(&self, name: &str, proxy: Option<&FaultProxy>) -> PathBuf {
        let admin = self.cluster.plane.kubeconfig(User::Admin);
        let text = std::fs::read_to_string(admin).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        config["users"][0]["user"]["as"] = json!(self.cluster.config.auth_info.impersonate);
        config["contexts"][0]["context"]["namespace"] = json!(self.home);
        if let Some(proxy) = proxy {
            let (server, authority) = proxy.address();
            let file = self.scratch.path().join(format!("{name}.crt"));
            std::fs::write(&file, authority).unwrap();
            config["clusters"][0]["cluster"] =
                json!({"server": server, "certificate-authority": file});
        }
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
                &self.home,
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
        let asked = || {
            let number = self.probes.get();
            self.probes.set(number + 1);
            let map = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "data": {"number": number.to_string()},
                "metadata": {"name": "alice-probe", "namespace": self.cluster.namespace},
            });
            self.cluster.apply(&map);
            let line = format!("number: \"{number}\"");
            self.cluster.await_file("alice-probe", &line);
            let last = self.users_of("main", "alice-probe").into_iter().next();
            if last.as_deref() == Some("alice exact") {
                Ok(())
            } else {
                Err(format!("{last:?}; {}", self.logs()))
            }
        };
        wait::until_blocking("an author", IN_TIME, asked).unwrap_or_else(|error| panic!("{error}"));
    }

    /// `user how` of every commit of a branch that touched the file of a ConfigMap, the newest first.
    pub(crate) fn users_of(&self, branch: &str, name: &str) -> Vec<String> {
        let trailer =
            |key: &str| format!("%(trailers:key=X-ConfigButler-{key},valueonly,separator=%x2C)");
        let format = format!("--format={} {}", trailer("User"), trailer("Attribution"));
        let path = format!("clusters/prod/{}", self.cluster.path(name));
        let log = self
            .cluster
            .repository
            .git(&["log", &format, branch, "--", &path]);
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
                &self.home,
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

    /// The rights of the chart were enough.
    #[track_caller]
    pub(crate) fn assert_allowed(&self) {
        for replica in &self.replicas {
            let log = std::fs::read_to_string(replica.log()).unwrap();
            let denied = log.lines().find(|line| line.contains("forbidden"));
            assert_eq!(denied, None, "{}", replica.name());
        }
    }

    fn logs(&self) -> String {
        let tails = self.replicas.iter().map(|replica| {
            let (name, tail) = (replica.name(), replica.log_tail());
            format!("{name}:\n{tail}")
        });
        tails.collect()
    }
}
