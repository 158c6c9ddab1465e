use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GetParams, ListParams, Patch, PatchParams,
};
use kube::core::{GroupVersionKind, Request};
use kube::discovery::{Scope, pinned_kind};
use reverser_core::object::Object;
use reverser_core::yaml_read;
use reverser_testkit::command::{run, try_run};
use reverser_testkit::control_plane::{ControlPlane, User};
use reverser_testkit::wait;
use serde_json::json;

use super::cases::{Case, How, Setup};

/// The namespace of every object that does not name its own.
const NAMESPACE: &str = "shop";

/// Controllers work within seconds, but one that fails waits longer each time: the server gives up
/// emptying a kind after a minute, and then begins again.
const SOON: Duration = Duration::from_mins(5);

/// A server that does not answer within this is asked again.
const ANSWER: Duration = Duration::from_secs(10);

/// Finalizers of persons and of controllers that do not run here.
const NOBODY_REMOVES: &[&str] = &[
    "example.com/",
    "service.kubernetes.io/",
    "snapshot.storage.kubernetes.io/",
];

/// A plane of its own with all cases on it: one kubectl for many files costs little more than one
/// for one, so the cases go through each step together.
pub(super) struct Stage {
    plane: ControlPlane,
    runtime: tokio::runtime::Runtime,
    client: kube::Client,
    kubeconfig: PathBuf,
}

/// Where the API has the object of a case.
struct Place {
    api: Api<DynamicObject>,
    request: Request,
    kind: String,
    name: String,
}

impl Stage {
    pub(super) fn start() -> Self {
        // Controllers bind, aggregate, scale, fill in tokens, and let namespaces go.
        let plane = ControlPlane::builder()
            .controller_manager(true)
            .start()
            .unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let client = runtime.block_on(async { plane.client(User::Alice).unwrap() });
        // As a person has it who works in one namespace. `--namespace` would refuse all others.
        let kubeconfig = plane.dir().join("shop.kubeconfig");
        fs::copy(plane.kubeconfig(User::Alice), &kubeconfig).unwrap();
        let stage = Self {
            plane,
            runtime,
            client,
            kubeconfig,
        };
        run(stage.kubectl().args([
            "config",
            "set-context",
            "--current",
            "--namespace",
            NAMESPACE,
        ]));
        run(stage.kubectl().args(["create", "namespace", NAMESPACE]));
        stage
    }

    pub(super) fn plane(&self) -> &ControlPlane {
        &self.plane
    }

    /// Creates the objects of all cases, and does what is done to them.
    pub(super) fn set_up(&self, cases: &[&Case]) {
        let (mut before, mut objects) = (Vec::new(), Vec::new());
        for (index, case) in cases.iter().enumerate() {
            let Setup {
                prerequisites,
                object,
                how,
            } = case.setup();
            if !prerequisites.is_empty() {
                before.push(self.write(&format!("{index}-before.yaml"), &prerequisites));
            }
            objects.push((how, self.write(&format!("{index}.yaml"), &object)));
        }
        self.give(How::Apply, before);
        self.await_definitions();
        self.await_service_accounts();
        for how in How::ALL {
            let these = objects.iter().filter(|(this, _)| *this == how);
            self.give(how, these.map(|(_, file)| file.clone()));
        }
        self.scripts(cases, "then.sh");
        self.settle(cases);
    }

    /// Waits for the controllers.
    pub(super) fn settle(&self, cases: &[&Case]) {
        self.scripts(cases, "settle.sh");
    }

    /// What the server says of each object, byte for byte.
    pub(super) fn live(&self, cases: &[&Case]) -> Vec<String> {
        self.runtime.block_on(async {
            let mut live = Vec::new();
            for case in cases {
                let place = self.place(case).await;
                let request = place
                    .request
                    .get(&place.name, &GetParams::default())
                    .unwrap();
                let text = self.client.request_text(request).await;
                live.push(text.unwrap_or_else(|error| panic!("{}: {error}", case.name)));
            }
            live
        })
    }

    /// `kubectl diff` finds none between the files and what is live.
    pub(super) fn assert_no_difference(&self, cases: &[&Case]) {
        self.files("kubectl diff", cases.iter().map(|case| case.manifest()));
    }

    /// Gives the files of the cases to the server.
    pub(super) fn apply(&self, cases: &[&Case], how: How) {
        self.give(how, cases.iter().map(|case| case.manifest()));
    }

    fn give(&self, how: How, files: impl IntoIterator<Item = PathBuf>) {
        self.files(how.command(), files);
    }

    /// Deletes each object, and waits until it is gone.
    pub(super) fn delete(&self, cases: &[&Case]) {
        self.scripts(cases, "before-delete.sh");
        self.runtime.block_on(async {
            let mut going = Vec::new();
            for case in cases {
                going.push((case, self.place(case).await));
            }
            // A namespace cannot go while an API of others does not answer.
            going.sort_by_key(|(_, place)| place.kind != "APIService");
            for (case, place) in &going {
                // No kubelet would ever confirm that a Pod has ended.
                let grace_period_seconds = (place.kind == "Pod").then_some(0);
                let params = DeleteParams {
                    grace_period_seconds,
                    ..DeleteParams::background()
                };
                let deleted = place.api.delete(&place.name, &params).await;
                deleted.unwrap_or_else(|error| panic!("{}: {error}", case.name));
            }
            for (case, place) in &going {
                let gone = wait::until(format!("the end of {}", case.name), SOON, async || {
                    place.is_gone().await
                });
                gone.await.unwrap();
            }
        });
    }

    async fn place(&self, case: &Case) -> Place {
        let setup = case.setup();
        let value = yaml_read::read(&setup.object).unwrap();
        let object = Object::from_value(value, None).unwrap();
        let kind = GroupVersionKind::gvk(object.group(), object.version(), object.kind());
        let (resource, capabilities) = pinned_kind(&self.client, &kind)
            .await
            .unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let namespace = match capabilities.scope {
            Scope::Cluster => None,
            Scope::Namespaced => Some(object.namespace().unwrap_or(NAMESPACE)),
        };
        let api = api(&self.client, namespace, &resource);
        Place {
            request: Request::new(api.resource_url()),
            api,
            kind: kind.kind.clone(),
            name: object.name().to_owned(),
        }
    }

    /// Custom resources are refused as long as their kind is not served.
    fn await_definitions(&self) {
        let names = "jsonpath={.items[*].metadata.name}";
        let definitions = run(self.kubectl().args(["get", "crd", "--output", names])).stdout;
        if !definitions.is_empty() {
            self.plane.await_kinds(definitions.split_whitespace());
        }
    }

    /// Pods are refused as long as their namespace lacks its account.
    fn await_service_accounts(&self) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let accounts: Api<ServiceAccount> = Api::all(self.client.clone());
        let all = ListParams::default();
        let default = ListParams::default().fields("metadata.name=default");
        let complete = wait::until("the account of each namespace", SOON, async || {
            let namespaces = namespaces.list(&all).await.unwrap().items.len();
            let accounts = accounts.list(&default).await.unwrap().items.len();
            namespaces == accounts
        });
        self.runtime.block_on(complete).unwrap();
    }

    /// One kubectl for all of the files.
    fn files(&self, command: &str, files: impl IntoIterator<Item = PathBuf>) {
        let mut files = files.into_iter().peekable();
        if files.peek().is_none() {
            return;
        }
        let mut kubectl = self.kubectl();
        kubectl.args(command.split(' ').skip(1));
        for file in files {
            kubectl.arg("--filename").arg(file);
        }
        run(&mut kubectl);
    }

    /// The script of this name of every case that has it, all at once: most of them only wait.
    fn scripts(&self, cases: &[&Case], name: &str) {
        let failures: Vec<_> = thread::scope(|scope| {
            let running: Vec<_> = cases
                .iter()
                .filter_map(|case| Some((case, case.script(name)?)))
                .map(|(case, script)| {
                    scope.spawn(move || {
                        let ended = try_run(&mut self.bash(&script));
                        ended.err().map(|error| format!("{}: {error}", case.name))
                    })
                })
                .collect();
            running
                .into_iter()
                .filter_map(|script| script.join().unwrap())
                .collect()
        });
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }

    /// A script that finds kubectl and the namespace.
    fn bash(&self, script: &Path) -> Command {
        let kubectl = self.kubectl();
        let programs = Path::new(kubectl.get_program()).parent().unwrap();
        let mut path = OsString::from(programs);
        if let Some(others) = std::env::var_os("PATH") {
            path.push(":");
            path.push(others);
        }
        let mut bash = Command::new("bash");
        for (name, value) in kubectl.get_envs() {
            match value {
                Some(value) => bash.env(name, value),
                None => bash.env_remove(name),
            };
        }
        bash.args(["-euo", "pipefail"])
            .arg(script)
            .env("PATH", path)
            .env("NS", NAMESPACE);
        bash
    }

    fn kubectl(&self) -> Command {
        let mut kubectl = self.plane.kubectl(User::Alice);
        kubectl.env("KUBECONFIG", &self.kubeconfig);
        kubectl
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let folder = self.plane.dir().join("cases");
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join(name);
        fs::write(&file, text).unwrap();
        file
    }
}

impl Place {
    /// Whether the object is gone; finalizers that would hold it for ever are taken off.
    async fn is_gone(&self) -> Result<(), String> {
        let found = tokio::time::timeout(ANSWER, self.api.get_opt(&self.name))
            .await
            .map_err(|_| "no answer".to_owned())?
            .map_err(|error| error.to_string())?;
        let Some(object) = found else {
            return Ok(());
        };
        let finalizers = object.metadata.finalizers.unwrap_or_default();
        let held = |finalizer: &String| NOBODY_REMOVES.iter().any(|who| finalizer.starts_with(who));
        if finalizers.iter().any(held) {
            let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            let patched = self
                .api
                .patch(&self.name, &PatchParams::default(), &none)
                .await;
            patched.map_err(|error| error.to_string())?;
        }
        Err(format!("it is there, with the finalizers {finalizers:?}"))
    }
}

fn api(
    client: &kube::Client,
    namespace: Option<&str>,
    resource: &ApiResource,
) -> Api<DynamicObject> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        None => Api::all_with(client.clone(), resource),
    }
}
