//! Stands in for a node: no containers run on the test's control plane, so for each pod of the
//! operator its program is started here, with the arguments and the identity that the pod has.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use reverser_testkit::control_plane::{ControlPlane, User};
use reverser_testkit::ports::Port;
use reverser_testkit::process::Process;
use reverser_testkit::scratch::Scratch;
use serde_json::{Value, json};

use crate::chart::NAMESPACE;

/// How often a node looks for its pods.
const LOOK: Duration = Duration::from_millis(200);

/// What differs between a container and a process beside others on one machine.
const HERE: &[&str] = &[
    "--metrics-bind-address=127.0.0.1:0",
    "--health-probe-bind-address=127.0.0.1:0",
    // The Git server of the tests has no certificate that a machine trusts.
    "--allow-url-schemes=https,ssh,http",
];

/// A node for the pods of the operator. It ends when it is dropped, and with it what runs on it.
pub(crate) struct Node {
    /// Where the programs write their logs.
    logs: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// One pod's program.
struct Running {
    process: Process,
    name: String,
    said_ready: bool,
    _port: Port,
}

struct Host {
    client: Client,
    kubeconfig: Value,
    scratch: Scratch,
    running: BTreeMap<String, Running>,
}

impl Node {
    pub(crate) fn start(plane: &ControlPlane) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let config = plane.kube_config(User::Admin);
        let kubeconfig = fs::read_to_string(plane.kubeconfig(User::Admin)).unwrap();
        let kubeconfig = serde_json::from_str(&kubeconfig).unwrap();
        let scratch = Scratch::create("node").unwrap();
        let logs = scratch.path().join("logs");
        let thread = std::thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            runtime.enable_all().build().unwrap().block_on(async {
                let mut host = Host {
                    client: Client::try_from(config).unwrap(),
                    kubeconfig,
                    scratch,
                    running: BTreeMap::new(),
                };
                while !stopped.load(Ordering::Relaxed) {
                    host.look().await;
                    tokio::time::sleep(LOOK).await;
                }
            });
        });
        Self {
            logs,
            stop,
            thread: Some(thread),
        }
    }

    /// Where the programs serve a path, each since its last start.
    pub(crate) fn serving(&self, path: &str) -> Vec<SocketAddr> {
        let logs = fs::read_dir(&self.logs).into_iter().flatten();
        logs.filter_map(|log| serving(&log.unwrap().path(), path))
            .collect()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}

impl Host {
    async fn look(&mut self) {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        let ours = ListParams::default().labels("app.kubernetes.io/name=gitops-reverser");
        // A cluster that does not answer is looked at again.
        let Ok(pods) = api.list(&ours).await else {
            return;
        };
        let there: Vec<String> = pods
            .items
            .iter()
            .filter_map(kube::ResourceExt::uid)
            .collect();
        self.running.retain(|uid, running| {
            let stays = there.contains(uid);
            if !stays {
                let _ended_already = running.process.stop();
            }
            stays
        });
        for pod in pods.items {
            let uid = pod.uid().unwrap();
            if !self.running.contains_key(&uid) {
                let started = self.run(&pod).await;
                self.running.insert(uid.clone(), started);
            }
            let running = self.running.get_mut(&uid).unwrap();
            if let Ok(Some(status)) = running.process.ended() {
                let log = running.process.log_tail();
                println!(
                    "{} ended with {status}; starting it again\n{log}",
                    running.name
                );
                running.process.start().unwrap();
            }
            let ready = is_ready(&running.process);
            if ready != running.said_ready {
                let status = json!({"status": {
                    "phase": "Running",
                    "conditions": [
                        {"type": "Ready", "status": if ready { "True" } else { "False" }},
                        {"type": "ContainersReady", "status": if ready { "True" } else { "False" }},
                    ],
                }});
                let patch = Patch::Strategic(status);
                let params = PatchParams::default();
                if api
                    .patch_status(&running.name, &params, &patch)
                    .await
                    .is_ok()
                {
                    running.said_ready = ready;
                }
            }
        }
    }

    async fn run(&self, pod: &Pod) -> Running {
        let spec = pod.spec.as_ref().unwrap();
        let container = &spec.containers[0];
        let name = pod.name_any();
        let folder = self.scratch.path().join(&name);
        fs::create_dir_all(&folder).unwrap();

        let account = spec.service_account_name.as_deref().unwrap();
        let kubeconfig = folder.join("kubeconfig");
        fs::write(&kubeconfig, self.kubeconfig_of(account).await.to_string()).unwrap();
        let mut own: Vec<String> = HERE.iter().map(|flag| (*flag).to_owned()).collect();
        own.push(format!("--kubeconfig={}", kubeconfig.display()));
        own.push(format!("--work-dir={}", folder.join("work").display()));
        // Services lead nowhere without nodes, so the API server is told the address.
        let port = Port::reserve().unwrap();
        let address = format!("127.0.0.1:{}", port.number());
        own.push(format!("--webhook-bind-address={address}"));
        own.push(format!(
            "--webhook-url=https://{address}/process-validating-webhook"
        ));
        let flag = |argument: &str| argument.split('=').next().unwrap_or_default().to_owned();
        let replaced: Vec<String> = own.iter().map(|argument| flag(argument)).collect();
        let mut arguments = container.args.clone().unwrap_or_default();
        arguments.retain(|argument| !replaced.contains(&flag(argument)));
        arguments.extend(own);

        let program = assert_cmd::cargo::cargo_bin("gitops-reverser");
        let mut process = Process::new(&self.scratch, &name, &program, arguments);
        for variable in container.env.iter().flatten() {
            let value = match (&variable.value, variable.name.as_str()) {
                (Some(value), _) => value.clone(),
                (None, "POD_NAME") => name.clone(),
                (None, "POD_NAMESPACE") => NAMESPACE.to_owned(),
                (None, other) => panic!("a node does not know where {other} comes from"),
            };
            process = process.env(&variable.name, value);
        }
        process.start().unwrap();
        Running {
            process,
            name,
            said_ready: false,
            _port: port,
        }
    }

    /// What a pod finds in its own file system: a token of its account, and its namespace.
    async fn kubeconfig_of(&self, account: &str) -> Value {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), NAMESPACE);
        let request = TokenRequest {
            spec: TokenRequestSpec {
                expiration_seconds: Some(24 * 60 * 60),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let params = PostParams::default();
        let answer = accounts
            .create_token_request(account, &params, &request)
            .await;
        let token = answer.unwrap().status.unwrap().token;
        let mut kubeconfig = self.kubeconfig.clone();
        kubeconfig["users"][0]["user"] = json!({"token": token});
        kubeconfig["contexts"][0]["context"]["namespace"] = json!(NAMESPACE);
        kubeconfig
    }
}

/// Whether the program's own probe says so.
fn is_ready(process: &Process) -> bool {
    let answer = serving(process.log(), "/readyz").and_then(|address| get(address, "/readyz"));
    answer.is_some_and(|answer| answer.contains("200 OK"))
}

/// Where a program says that it serves a path. Its last start counts.
fn serving(log: &Path, path: &str) -> Option<SocketAddr> {
    let log = fs::read_to_string(log).unwrap_or_default();
    log.lines().rev().find_map(|line| {
        let line: Value = serde_json::from_str(line).ok()?;
        let serves = line["paths"].as_str()?.split(' ').any(|one| one == path);
        serves
            .then(|| line["address"].as_str()?.parse().ok())
            .flatten()
    })
}

/// An answer with its head.
pub(crate) fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}
