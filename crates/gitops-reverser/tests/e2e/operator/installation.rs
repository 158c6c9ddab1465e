//! An installed operator, and what users do to the cluster around it.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::OnceLock;
use std::time::Duration;

use futures::StreamExt as _;

use clap::Parser as _;
use gitops_reverser::attribution::Attribution;
use gitops_reverser::command_line::{Command, CommandLine};
use gitops_reverser::http::Readiness;
use gitops_reverser::operator::{self, OperatorError, OperatorSettings};
use gitops_reverser::routing::RoutingOptions;
use gitops_reverser::settings::{AllowedRepoUrls, AttributionSettings, Settings};
use gitops_reverser::telemetry::{Telemetry, metrics};
use gitops_reverser::watch::WatchSettings;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, PostParams};
use prometheus_client::registry::Registry;
use reverser_api::git_destination::SecretsMode;
use reverser_core::noise::NoiseFilter;
use reverser_core::owner_marker::OWNER_MARKER;
use reverser_core::selection::Exclusions;
use reverser_core::window::Limits;
use reverser_git::{CancelToken, Git, Person, Scheme};
use reverser_testkit::command;
use reverser_testkit::control_plane::{Builder, ControlPlane, SharedPlane, User};
use reverser_testkit::git_server::BareRepository;
use reverser_testkit::{tools, wait};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// How long anything may take that takes well under a second.
const SOON: Duration = Duration::from_mins(3);

/// The plane that all tests share, or one of the test's own.
pub(crate) enum Plane {
    Shared(SharedPlane),
    Own(Box<ControlPlane>),
}

impl Deref for Plane {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        match self {
            Self::Shared(plane) => plane,
            Self::Own(plane) => plane,
        }
    }
}

/// The operator has the identity, and so exactly the rights, that the manifests give it; which types
/// it may read is the installer's choice, and here all of them.
const OPERATOR: &str = "system:serviceaccount:gitops-reverser:gitops-reverser";

/// The label by which an operator tells its own test's objects from those of others.
pub(super) const LABEL: &str = "testkit.gitops-reverser.io/installation";

/// An operator that runs, and why it ends.
type Task = JoinHandle<Result<(), OperatorError>>;

/// A namespace with a repository, a destination and whatever the test adds; the operator runs while
/// this lives, and can be stopped and started.
pub(crate) struct Installation {
    pub(crate) plane: Plane,
    /// Who the operator is.
    pub(crate) config: kube::Config,
    pub(crate) namespace: String,
    pub(crate) repository: BareRepository,
    pub(crate) folder: TempDir,
    pub(super) runtime: Runtime,
    running: Option<(oneshot::Sender<()>, Task)>,
    pub(crate) settings: OperatorSettings,
    /// Whom the operator asks for authors.
    pub(crate) attribution: Attribution,
    pub(crate) registry: Registry,
}

impl Installation {
    /// CRDs, a namespace, a repository `repo` and a destination `prod` in it; the operator runs.
    pub(crate) fn start(name: &str) -> Self {
        let mut installation = Self::prepare(name);
        installation.run();
        installation
    }

    /// The same, with the operator not started yet.
    pub(crate) fn prepare(name: &str) -> Self {
        static INSTALLED: OnceLock<()> = OnceLock::new();
        let plane = ControlPlane::shared();
        INSTALLED.get_or_init(|| install(&plane));
        Self::on(Plane::Shared(plane), name)
    }

    /// The same on a plane of its own, for a test that breaks things.
    pub(crate) fn alone(name: &str) -> Self {
        Self::on_plane(ControlPlane::builder(), name)
    }

    /// The same with the controllers of Kubernetes.
    pub(crate) fn with_controllers(name: &str) -> Self {
        Self::on_plane(ControlPlane::builder().controller_manager(true), name)
    }

    /// The same on such a plane.
    pub(crate) fn on_plane(plane: Builder, name: &str) -> Self {
        let plane = plane.start().unwrap();
        install(&plane);
        Self::on(Plane::Own(Box::new(plane)), name)
    }

    fn on(plane: Plane, name: &str) -> Self {
        let namespace = plane.namespace(name);
        let folder = tempfile::tempdir().unwrap();
        let repository = BareRepository::create(folder.path(), "repo.git");
        let mut settings = settings(&folder);
        settings.own_labels = Some(format!("{LABEL}={namespace}"));
        let mut config = plane.kube_config(User::Admin);
        config.auth_info.impersonate = Some(OPERATOR.to_owned());
        "gitops-reverser".clone_into(&mut config.default_namespace);
        let runtime = Runtime::new().unwrap();
        let installation = Self {
            plane,
            config,
            namespace,
            repository,
            folder,
            runtime,
            running: None,
            settings,
            attribution: Attribution::default(),
            registry: metrics::registry(),
        };
        installation.apply(&installation.repo("repo", &json!({})));
        installation.apply(&installation.destination("prod", "clusters/prod", &json!({})));
        installation
    }

    /// Gives the operator the identity of a release of the chart, which has the name of the namespace
    /// that it is in.
    pub(crate) fn be_a_release(&mut self, name: &str, values: &[&str]) {
        self.apply_of_release(name, &["serviceaccount", "rbac"], values);
        let user = format!("system:serviceaccount:{name}:{name}");
        await_rights(&self.plane, &user, name);
        self.config.auth_info.impersonate = Some(user);
        name.clone_into(&mut self.config.default_namespace);
        name.clone_into(&mut self.settings.namespace);
    }

    /// Applies what some templates of the chart make for such a release.
    pub(crate) fn apply_of_release(&self, name: &str, templates: &[&str], values: &[&str]) {
        let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts/gitops-reverser");
        let mut helm = tools::sealed("helm", self.folder.path());
        helm.args(["template", name, chart, "--namespace", name]);
        for template in templates {
            helm.arg(format!("--show-only=templates/{template}.yaml"));
        }
        helm.arg(format!("--set=fullnameOverride={name},rbac.mode=all"));
        helm.args(values.iter().map(|value| format!("--set={value}")));
        let rendered = command::run(&mut helm).stdout;
        let mut kubectl = self.plane.kubectl(User::Admin);
        command::run_with_input(kubectl.args(["apply", "-f", "-"]), rendered.as_bytes());
    }

    /// Sets what these flags say, as the command line reads them, and the defaults of all others.
    pub(crate) fn configure(&mut self, flags: &[&str]) {
        let work_dir = format!("--work-dir={}", self.settings.work_dir.display());
        // Others on this plane would compete for the same Lease.
        let alone = "--leader-elect=false";
        let own = [
            &work_dir,
            alone,
            "--allow-url-schemes=file",
            "--git-poll-sec=1",
        ];
        let line = ["gitops-reverser", "controller"].into_iter();
        let parsed = CommandLine::parse_from(line.chain(own).chain(flags.iter().copied()));
        let Command::Controller(arguments) = parsed.command else {
            panic!("this is the controller");
        };
        let settings = Settings::from_arguments(*arguments).unwrap();
        let own_labels = self.settings.own_labels.take();
        self.settings = OperatorSettings::new(&settings, &self.config).unwrap();
        self.settings.own_labels = own_labels;
        self.settings.git = noted_git();
    }

    /// Gathers changes and looks at branches as operators of tests do.
    pub(crate) fn be_usual(&mut self) {
        let usual = settings(&self.folder);
        self.settings.limits = usual.limits;
        self.settings.poll = usual.poll;
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    pub(crate) fn run(&mut self) {
        let _guard = self.runtime.enter();
        let config = self.config.clone();
        let (stop, stopped) = oneshot::channel();
        let (readiness, _) = watch::channel(Readiness::Ready);
        self.registry = metrics::registry();
        let telemetry = Telemetry::register(&mut self.registry);
        let settings = self.settings.clone();
        let attribution = self.attribution.clone();
        let task = self.runtime.spawn(async move {
            let shutdown = async { drop(stopped.await) };
            operator::run(
                config,
                settings,
                attribution,
                telemetry,
                readiness,
                shutdown,
            )
            .await
        });
        self.running = Some((stop, task));
    }

    /// Waits until the operator ends by itself, and tells why it did.
    #[track_caller]
    pub(crate) fn await_end(&mut self) -> String {
        let (_stop, task) = self.running.take().unwrap();
        let ended = async { tokio::time::timeout(Duration::from_mins(3), task).await };
        let ended = self.runtime.block_on(ended).expect("it goes on");
        // The next one is a process of its own.
        self.settings.cut_off = CancelToken::new();
        ended.unwrap().unwrap_err().to_string()
    }

    /// Stops the operator as SIGTERM would.
    pub(crate) fn stop(&mut self) {
        if let Some((stop, task)) = self.running.take() {
            let _ = stop.send(());
            self.runtime.block_on(task).unwrap().unwrap();
        }
    }

    pub(crate) fn repo(&self, name: &str, change: &Value) -> Value {
        let url = format!("file://{}", self.repository.path().display());
        self.object(
            "GitRepoConfig",
            name,
            &json!({"repoUrl": url, "allowedBranches": ["*"]}),
            change,
        )
    }

    pub(crate) fn destination(&self, name: &str, folder: &str, change: &Value) -> Value {
        let spec = json!({"repoRef": {"name": "repo"}, "branch": "main", "baseFolder": folder});
        self.object("GitDestination", name, &spec, change)
    }

    pub(crate) fn rule(&self, name: &str, rules: &Value) -> Value {
        self.rule_to("prod", name, rules)
    }

    pub(crate) fn rule_to(&self, destination: &str, name: &str, rules: &Value) -> Value {
        let spec = json!({"destinationRef": {"name": destination}, "rules": rules});
        self.object("WatchRule", name, &spec, &json!({}))
    }

    /// A rule of another namespace for the destination of this one.
    pub(crate) fn guest_rule(&self, namespace: &str, rules: &Value) -> Value {
        let destination = json!({"name": "prod", "namespace": self.namespace});
        let spec = json!({"destinationRef": destination, "rules": rules});
        let mut rule = self.object("WatchRule", "guest", &spec, &json!({}));
        rule["metadata"]["namespace"] = json!(namespace);
        rule
    }

    /// A cluster rule that has this namespace's name.
    pub(crate) fn cluster_rule(&self, rules: &Value) -> Value {
        let destination = json!({"name": "prod", "namespace": self.namespace});
        let spec = json!({"destinationRef": destination, "rules": rules});
        let mut rule = self.object("ClusterWatchRule", &self.namespace, &spec, &json!({}));
        rule["metadata"]["namespace"].take();
        rule
    }

    fn object(&self, kind: &str, name: &str, spec: &Value, change: &Value) -> Value {
        let mut spec = spec.clone();
        for (key, value) in change.as_object().unwrap() {
            spec[key] = value.clone();
        }
        json!({
            "apiVersion": "configbutler.ai/v1alpha1", "kind": kind,
            "metadata": {
                "name": name, "namespace": self.namespace, "labels": {LABEL: self.namespace},
            },
            "spec": spec,
        })
    }

    pub(crate) fn config_map(&self, name: &str, value: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": self.namespace}, "data": {"value": value},
        })
    }

    pub(crate) fn apply(&self, object: &Value) {
        let mut kubectl = self.plane.kubectl(User::Alice);
        command::run_with_input(
            kubectl.args(["apply", "-f", "-"]),
            object.to_string().as_bytes(),
        );
    }

    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        let mut kubectl = self.plane.kubectl(User::Alice);
        command::run(kubectl.args(["-n", &self.namespace]).args(arguments)).stdout
    }

    /// Creates many objects at once.
    pub(crate) fn create_all(&self, objects: &[Value]) {
        let objects: Vec<DynamicObject> = objects
            .iter()
            .map(|object| serde_json::from_value(object.clone()).unwrap())
            .collect();
        self.runtime.block_on(async {
            let client = self.plane.client(User::Alice).unwrap();
            let creations = objects.iter().map(|object| {
                let types = object.types.clone().unwrap();
                let resource = ApiResource::from_gvk(&types.try_into().unwrap());
                let namespace = object.metadata.namespace.as_deref().unwrap();
                let api: Api<DynamicObject> =
                    Api::namespaced_with(client.clone(), namespace, &resource);
                async move { api.create(&PostParams::default(), object).await.unwrap() }
            });
            let mut creations = futures::stream::iter(creations).buffer_unordered(32);
            while creations.next().await.is_some() {}
        });
    }

    /// Deletes the ConfigMaps with such labels, all of them for an empty selector.
    pub(crate) fn delete_config_maps(&self, selector: &str) {
        self.runtime.block_on(async {
            let client = self.plane.client(User::Alice).unwrap();
            let api: Api<ConfigMap> = Api::namespaced(client, &self.namespace);
            let list = ListParams::default().labels(selector);
            // A server with much to do gives up on many of them in the middle.
            wait::until("the deletion", SOON, async || {
                api.delete_collection(&DeleteParams::default(), &list).await
            })
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        });
    }

    /// The files of the destination's folder, by the rest of their path.
    pub(crate) fn files(&self) -> BTreeMap<String, String> {
        self.files_of("main", "clusters/prod/")
    }

    pub(crate) fn files_of(&self, branch: &str, folder: &str) -> BTreeMap<String, String> {
        if self.repository.tip(branch).is_none() {
            return BTreeMap::new();
        }
        let files = self.repository.files(branch).into_iter();
        files
            .filter(|(path, _)| !path.ends_with(OWNER_MARKER))
            .filter_map(|(path, text)| Some((path.strip_prefix(folder)?.to_owned(), text)))
            .collect()
    }

    pub(crate) fn path(&self, name: &str) -> String {
        format!("core/v1/configmaps/{}/{name}.yaml", self.namespace)
    }

    /// The names of the mirrored ConfigMaps.
    pub(crate) fn names(&self) -> Vec<String> {
        let folder = format!("core/v1/configmaps/{}/", self.namespace);
        let names = self.files().into_keys();
        names
            .filter_map(|path| {
                Some(
                    path.strip_prefix(&folder)?
                        .strip_suffix(".yaml")?
                        .to_owned(),
                )
            })
            .collect()
    }

    #[track_caller]
    pub(crate) fn await_names(&self, names: &[&str]) {
        soon(&format!("the files {names:?}"), || {
            let seen = self.names();
            if seen == names {
                Ok(())
            } else {
                Err(format!("{seen:?}"))
            }
        });
    }

    #[track_caller]
    pub(crate) fn await_file(&self, name: &str, content: &str) {
        let path = self.path(name);
        soon(&format!("{content} in {path}"), || {
            match self.files().get(&path) {
                Some(file) if file.contains(content) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
    }

    /// Waits until Ready of an object has this status and reason.
    #[track_caller]
    pub(crate) fn await_ready(&self, kind_and_name: &str, status: &str, reason: &str) -> String {
        let path = "{.status.conditions[?(@.type==\"Ready\")]}";
        soon(&format!("{kind_and_name} Ready={status} {reason}"), || {
            let seen = self.kubectl(&["get", kind_and_name, "-o", &format!("jsonpath={path}")]);
            let ready: Value = serde_json::from_str(&seen).unwrap_or_default();
            if ready["status"] == status && ready["reason"] == reason {
                Ok(ready["message"].as_str().unwrap_or_default().to_owned())
            } else {
                Err(seen)
            }
        })
    }

    /// Waits until an object says that somebody has to do something, for this reason.
    #[track_caller]
    pub(crate) fn await_stalled(&self, of: &[&str], reason: &str) -> String {
        self.await_summary(of, &[("Ready", "False"), ("Stalled", "True")], reason)
    }

    /// Waits until an object says that it is at work, for this reason.
    #[track_caller]
    pub(crate) fn await_reconciling(&self, of: &[&str], reason: &str) -> String {
        self.await_summary(of, &[("Ready", "False"), ("Reconciling", "True")], reason)
    }

    /// Waits until the conditions that kstatus knows are these; gives their message.
    #[track_caller]
    fn await_summary(&self, of: &[&str], wanted: &[(&str, &str)], reason: &str) -> String {
        let read = ["get", "-o", "jsonpath={.status.conditions}"];
        soon(&format!("{of:?} {wanted:?} {reason}"), || {
            let seen = self.kubectl(&[&read[..], of].concat());
            let conditions: Vec<Value> = serde_json::from_str(&seen).unwrap_or_default();
            let text =
                |one: &Value, field: &str| one[field].as_str().unwrap_or_default().to_owned();
            let known = ["Ready", "Reconciling", "Stalled"];
            let summary: Vec<(String, String, String)> = conditions
                .iter()
                .filter(|one| known.contains(&&*text(one, "type")))
                .map(|one| (text(one, "type"), text(one, "status"), text(one, "reason")))
                .collect();
            let wanted = wanted.iter().map(|(type_, status)| {
                let [type_, status, reason] = [*type_, *status, reason].map(str::to_owned);
                (type_, status, reason)
            });
            if summary == wanted.collect::<Vec<_>>() {
                Ok(text(&conditions[0], "message"))
            } else {
                Err(seen)
            }
        })
    }

    /// What `/metrics` would say.
    pub(crate) fn scrape(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }

    pub(crate) fn commits(&self) -> usize {
        self.repository
            .tip("main")
            .map_or(0, |_| self.repository.history("main").len())
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        if let Some((stop, task)) = self.running.take() {
            let _ = stop.send(());
            let _ = self.runtime.block_on(task);
        }
        let _ = &self.folder;
    }
}

/// Waits for a condition, and panics with what was seen last.
#[track_caller]
pub(crate) fn soon<T>(what: &str, look: impl FnMut() -> Result<T, String>) -> T {
    wait::until_blocking(what, SOON, look).unwrap_or_else(|error| panic!("{error}"))
}

/// Git that notes what it is asked.
fn noted_git() -> Git {
    let program = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/e2e/operator/noted-git.sh"
    );
    Git::at(program).unwrap()
}

fn settings(folder: &TempDir) -> OperatorSettings {
    OperatorSettings {
        cut_off: CancelToken::new(),
        routing: RoutingOptions {
            schemes: vec![Scheme::File, Scheme::Http, Scheme::Https, Scheme::Ssh],
            allowed_urls: AllowedRepoUrls::default(),
            secrets_mode: SecretsMode::AsIs,
            exclusions: Exclusions::new(true, &[]),
            watch_all: false,
            max_types: 300,
        },
        noise: NoiseFilter::without([]).unwrap(),
        watch: WatchSettings::default(),
        discovery_refresh: Duration::from_mins(5),
        enabled: true,
        workers_max_global: 24,
        workers_max_per_repo: 5,
        git: noted_git(),
        work_dir: folder.path().join("work"),
        limits: Limits {
            max_files: 200,
            max_bytes: 1 << 20,
            max_wait: Duration::from_secs(20),
            quiet: Duration::from_millis(300),
        },
        poll: Duration::from_secs(1),
        deletes_cap: None,
        attribution: AttributionSettings::default(),
        committer: Person::new("GitOps Reverser", "reverser@example.com").unwrap(),
        instance_id: "test".into(),
        namespace: "gitops-reverser".into(),
        admission: None,
        replicas: None,
        turns: None,
        owner_cluster_role: None,
        own_labels: None,
    }
}

/// Waits until the API server goes by a right that somebody was given: it hears of it later.
#[track_caller]
pub(crate) fn await_right(plane: &ControlPlane, user: &str, right: &[&str]) {
    soon(&format!("{user} may {right:?}"), || {
        let mut kubectl = plane.kubectl(User::Admin);
        let asked = kubectl.args(["auth", "can-i", "--as", user]).args(right);
        command::try_run(asked).map_err(|error| error.to_string())
    });
}

/// The same for the rights of an operator in its namespace: one of each binding.
fn await_rights(plane: &ControlPlane, user: &str, namespace: &str) {
    await_right(plane, user, &["get", "namespaces"]);
    await_right(plane, user, &["list", "configmaps", "--all-namespaces"]);
    await_right(plane, user, &["create", "leases", "-n", namespace]);
}

/// What the manifests install, but for the pods: the operator runs here.
fn install(plane: &ControlPlane) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/read-all");
    let mut kustomize = plane.kubectl(User::Admin);
    let manifests = command::run(kustomize.args(["kustomize", folder])).stdout;
    let manifests: Vec<&str> = manifests
        .split("\n---\n")
        .filter(|manifest| !manifest.contains("\nkind: Deployment\n"))
        .collect();
    let manifests = manifests.join("\n---\n");
    let apply = ["apply", "--server-side", "-f", "-"];
    command::run_with_input(plane.kubectl(User::Admin).args(apply), manifests.as_bytes());
    let kinds = reverser_api::crd_yaml::crds().into_iter();
    plane.await_kinds(kinds.filter_map(|crd| crd.metadata.name));
    await_rights(plane, OPERATOR, "gitops-reverser");
}
