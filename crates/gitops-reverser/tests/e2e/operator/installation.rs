//! An installed operator, and what users do to the cluster around it.

use std::collections::BTreeMap;
use std::time::Duration;

use gitops_reverser::http::Readiness;
use gitops_reverser::operator::{self, OperatorSettings};
use gitops_reverser::routing::RoutingOptions;
use gitops_reverser::settings::AllowedRepoUrls;
use gitops_reverser::telemetry::{Telemetry, metrics};
use gitops_reverser::watch::WatchSettings;
use prometheus_client::registry::Registry;
use reverser_api::git_destination::SecretsMode;
use reverser_core::noise::NoiseFilter;
use reverser_core::selection::Exclusions;
use reverser_core::window::Limits;
use reverser_git::{Git, Person, Scheme};
use reverser_testkit::command;
use reverser_testkit::control_plane::{ControlPlane, SharedPlane, User};
use reverser_testkit::git_server::BareRepository;
use reverser_testkit::wait;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// How long anything may take that takes well under a second.
const SOON: Duration = Duration::from_secs(20);

/// A namespace with a repository, a destination and whatever the test adds; the operator runs while
/// this lives, and can be stopped and started.
pub(crate) struct Installation {
    pub(crate) plane: SharedPlane,
    pub(crate) namespace: String,
    pub(crate) repository: BareRepository,
    folder: TempDir,
    runtime: Runtime,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
    pub(crate) settings: OperatorSettings,
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
        let plane = ControlPlane::shared();
        install_crds(&plane);
        let namespace = plane.namespace(name);
        let folder = tempfile::tempdir().unwrap();
        let repository = BareRepository::create(folder.path(), "repo.git");
        let settings = settings(&folder);
        let runtime = Runtime::new().unwrap();
        let installation = Self {
            plane,
            namespace,
            repository,
            folder,
            runtime,
            running: None,
            settings,
            registry: metrics::registry(),
        };
        installation.apply(&installation.repo("repo", &json!({})));
        installation.apply(&installation.destination("prod", "clusters/prod", &json!({})));
        installation
    }

    pub(crate) fn run(&mut self) {
        let _guard = self.runtime.enter();
        let config = self.plane.kube_config(User::Admin);
        let (stop, stopped) = oneshot::channel();
        let (readiness, _) = watch::channel(Readiness::Ready);
        self.registry = metrics::registry();
        let telemetry = Telemetry::register(&mut self.registry);
        let settings = self.settings.clone();
        let task = self.runtime.spawn(async move {
            let shutdown = async { drop(stopped.await) };
            operator::run(config, settings, telemetry, readiness, shutdown)
                .await
                .unwrap();
        });
        self.running = Some((stop, task));
    }

    /// Stops the operator as SIGTERM would.
    pub(crate) fn stop(&mut self) {
        if let Some((stop, task)) = self.running.take() {
            let _ = stop.send(());
            self.runtime.block_on(task).unwrap();
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
        let spec = json!({"destinationRef": {"name": "prod"}, "rules": rules});
        self.object("WatchRule", name, &spec, &json!({}))
    }

    fn object(&self, kind: &str, name: &str, spec: &Value, change: &Value) -> Value {
        let mut spec = spec.clone();
        for (key, value) in change.as_object().unwrap() {
            spec[key] = value.clone();
        }
        json!({
            "apiVersion": "configbutler.ai/v1alpha1", "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace}, "spec": spec,
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
        soon(&format!("the files {names:?}"), SOON, || {
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
        soon(&format!("{content} in {path}"), SOON, || {
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
        soon(
            &format!("{kind_and_name} Ready={status} {reason}"),
            SOON,
            || {
                let seen = self.kubectl(&["get", kind_and_name, "-o", &format!("jsonpath={path}")]);
                let ready: Value = serde_json::from_str(&seen).unwrap_or_default();
                if ready["status"] == status && ready["reason"] == reason {
                    Ok(ready["message"].as_str().unwrap_or_default().to_owned())
                } else {
                    Err(seen)
                }
            },
        )
    }

    pub(crate) fn commits(&self) -> usize {
        self.repository
            .tip("main")
            .map_or(0, |_| self.repository.history("main").len())
    }

    /// Nothing is left to do: the same commit for three quiet times.
    #[track_caller]
    pub(crate) fn assert_quiet(&self) {
        let before = self.commits();
        std::thread::sleep(3 * self.settings.limits.quiet);
        assert_eq!(self.commits(), before, "a quiet cluster makes no commits");
        if before > 0 {
            self.repository.assert_sound("main");
        }
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
fn soon<T>(what: &str, limit: Duration, look: impl FnMut() -> Result<T, String>) -> T {
    wait::until_blocking(what, limit, look).unwrap_or_else(|error| panic!("{error}"))
}

fn settings(folder: &TempDir) -> OperatorSettings {
    OperatorSettings {
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
        git: Git::find().unwrap(),
        work_dir: folder.path().join("work"),
        limits: Limits {
            max_files: 200,
            max_bytes: 1 << 20,
            max_wait: Duration::from_secs(20),
            quiet: Duration::from_millis(300),
        },
        poll: Duration::from_secs(2),
        deletes_cap: None,
        committer: Person::new("GitOps Reverser", "reverser@example.com").unwrap(),
        instance_id: "test".into(),
        namespace: "gitops-reverser".into(),
    }
}

fn install_crds(plane: &ControlPlane) {
    static INSTALLED: std::sync::OnceLock<()> = std::sync::OnceLock::new();
    INSTALLED.get_or_init(|| {
        let crds = reverser_api::crd_yaml::crds_yaml();
        let apply = ["apply", "--server-side", "-f", "-"];
        command::run_with_input(plane.kubectl(User::Admin).args(apply), crds.as_bytes());
        let wait = [
            "wait",
            "--for=condition=Established",
            "--timeout=30s",
            "crd",
            "--all",
        ];
        command::run(plane.kubectl(User::Admin).args(wait));
    });
}
