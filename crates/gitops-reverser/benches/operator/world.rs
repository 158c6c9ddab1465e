use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures::{AsyncReadExt as _, StreamExt as _};
use reverser_core::canon::canonicalise;
use reverser_core::object::{Object, TypeMeta};
use reverser_core::object_key::{ObjectKey, TypeKey};
use reverser_core::repo_path::RepoPath;
use reverser_testkit::command;
use reverser_testkit::control_plane::{ControlPlane, NAMESPACE_LABEL, User};
use reverser_testkit::git_server::{BareRepository, HttpFront};
use reverser_testkit::scratch::Scratch;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::objects;

const NAMESPACES: usize = 20;
/// So many clients create objects at once.
const CLIENTS: usize = 16;
const FOLDER: &str = "clusters/bench";
/// Long enough for anything that is measured here.
pub(crate) const PATIENCE: Duration = Duration::from_mins(10);
/// How often the branch is looked at.
const LOOK: Duration = Duration::from_millis(1);

/// A cluster with objects, a repository behind HTTP, and the three objects of ours that connect them.
pub(crate) struct World {
    pub(crate) plane: ControlPlane,
    pub(crate) repository: BareRepository,
    pub(crate) front: HttpFront,
    pub(crate) scratch: Scratch,
    pub(crate) runtime: Runtime,
    pub(crate) namespaces: Vec<String>,
    pub(crate) objects: usize,
    client: kube::Client,
}

impl World {
    pub(crate) fn create(objects: usize) -> Self {
        // The range that tests have is too small for thousands of Services.
        let plane = ControlPlane::builder()
            .apiserver_argument("--service-cluster-ip-range=10.0.0.0/12")
            .start()
            .unwrap();
        let scratch = Scratch::create("bench").unwrap();
        let repository = BareRepository::create(scratch.path(), "repo.git");
        let front = HttpFront::start(scratch.path());
        let runtime = Runtime::new().unwrap();
        let namespaces = (0..NAMESPACES).map(|_| plane.namespace("team")).collect();
        let client = {
            let _guard = runtime.enter();
            plane.client(User::Alice).unwrap()
        };
        let world = Self {
            plane,
            repository,
            front,
            scratch,
            runtime,
            namespaces,
            objects,
            client,
        };
        world.create_objects();
        world.configure();
        world
    }

    fn create_objects(&self) {
        let requests = (0..self.objects).map(|index| {
            let (path, object) = objects::object(index, self.namespace_of(index));
            self.send(http::Method::POST, path, &object)
        });
        self.runtime.block_on(async {
            let mut requests = futures::stream::iter(requests).buffer_unordered(CLIENTS);
            while requests.next().await.is_some() {}
        });
    }

    /// As a user would, but for the limit on pushes, which is there for other people's servers.
    fn configure(&self) {
        let crds = reverser_api::crd_yaml::crds_yaml();
        let mut kubectl = self.plane.kubectl(User::Admin);
        command::run_with_input(
            kubectl.args(["apply", "--server-side", "-f", "-"]),
            crds.as_bytes(),
        );
        let mut kubectl = self.plane.kubectl(User::Admin);
        command::run(kubectl.args(["wait", "--for=condition=Established", "crd", "--all"]));
        let ours = |kind: &str, spec: Value| {
            json!({
                "apiVersion": "configbutler.ai/v1alpha1", "kind": kind,
                "metadata": {"name": "bench", "namespace": "default"}, "spec": spec,
            })
        };
        let repo = json!({
            "repoUrl": self.front.url("repo.git"), "allowedBranches": ["main"],
            "push": {"maxPerMinute": 600}, "accessPolicy": {"allowClusterRules": true},
        });
        let destination =
            json!({"repoRef": {"name": "bench"}, "branch": "main", "baseFolder": FOLDER});
        let rule = json!({
            "destinationRef": {"name": "bench", "namespace": "default"},
            "rules": [{
                "scope": "Namespaced",
                "namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: "team"}},
                "resources": ["configmaps", "services", "deployments"],
            }],
        });
        let mut rule = ours("ClusterWatchRule", rule);
        rule["metadata"]["namespace"].take();
        for object in [
            ours("GitRepoConfig", repo),
            ours("GitDestination", destination),
            rule,
        ] {
            let mut kubectl = self.plane.kubectl(User::Admin);
            let text = object.to_string();
            command::run_with_input(kubectl.args(["apply", "-f", "-"]), text.as_bytes());
        }
    }

    /// Sends a request, which must succeed.
    pub(crate) fn send(
        &self,
        method: http::Method,
        path: String,
        body: &Value,
    ) -> impl Future<Output = String> + use<> {
        let content_type = if method == http::Method::PATCH {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, content_type)
            .body(body.to_string().into_bytes())
            .unwrap();
        let client = self.client.clone();
        async move { client.request_text(request).await.unwrap() }
    }

    /// Reads every event of the ConfigMaps from now on, and does nothing with it.
    pub(crate) fn watch_config_maps(&self) -> impl Future<Output = ()> + Send + use<> {
        let client = self.client.clone();
        async move {
            let url = "/api/v1/configmaps?watch=true";
            let request = http::Request::get(url).body(Vec::new()).unwrap();
            let mut lines = client.request_stream(request).await.unwrap();
            let mut bytes = vec![0; 64 * 1024];
            while lines.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
        }
    }

    /// A page of a list, as text.
    pub(crate) async fn page(&self, list: &str, token: Option<&str>) -> String {
        let mut url = format!("{list}?limit=500");
        if let Some(token) = token {
            url = format!("{url}&continue={token}");
        }
        let request = http::Request::get(url).body(Vec::new()).unwrap();
        self.client.request_text(request).await.unwrap()
    }

    pub(crate) fn namespace_of(&self, index: usize) -> &str {
        &self.namespaces[index % NAMESPACES]
    }

    /// The ConfigMaps among the objects, which are changed.
    pub(crate) fn config_maps(&self) -> impl Iterator<Item = usize> + Clone + use<> {
        (0..self.objects).step_by(3)
    }

    /// Changes a ConfigMap; ready with the answer.
    pub(crate) fn change(&self, index: usize, value: &str) -> impl Future<Output = String> + use<> {
        let namespace = self.namespace_of(index);
        let name = objects::name(index);
        let url = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
        self.send(http::Method::PATCH, url, &json!({"data": {"value": value}}))
    }

    /// Where a ConfigMap's file is.
    pub(crate) fn file_of(&self, index: usize) -> String {
        let (namespace, name) = (self.namespace_of(index), objects::name(index));
        format!("{FOLDER}/core/v1/configmaps/{namespace}/{name}.yaml")
    }

    /// Where the branch stands; read as a file, so that looking costs next to nothing.
    pub(crate) fn tip(&self) -> Option<String> {
        let path: PathBuf = self.repository.path().join("refs/heads/main");
        std::fs::read_to_string(path)
            .ok()
            .map(|tip| tip.trim().to_owned())
            .filter(|tip| !tip.is_empty())
    }

    /// Waits until the branch stands elsewhere; gives when and where.
    pub(crate) fn await_tip_after(&self, old: Option<&str>) -> (Instant, String) {
        let begun = Instant::now();
        loop {
            if let Some(tip) = self.tip().filter(|tip| Some(tip.as_str()) != old) {
                return (Instant::now(), tip);
            }
            assert!(begun.elapsed() < PATIENCE, "the branch does not move");
            std::thread::sleep(LOOK);
        }
    }

    /// One change after the other: from the answer to the branch.
    pub(crate) fn lone_changes(&self, count: usize) -> Vec<Duration> {
        let mut times = Vec::new();
        for (round, index) in self.config_maps().cycle().take(count).enumerate() {
            let tip = self.tip();
            self.runtime
                .block_on(self.change(index, &format!("lone-{round}")));
            let answered = Instant::now();
            let (seen, _) = self.await_tip_after(tip.as_deref());
            times.push(seen - answered);
        }
        times
    }

    /// What the branch should hold: path and content of everything that a complete list shows.
    pub(crate) fn files(&self) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        for (list, kind) in objects::LISTS
            .iter()
            .zip(["ConfigMap", "Service", "Deployment"])
        {
            for page in self.runtime.block_on(crate::floor::pages(self, list)) {
                let page: Value = serde_json::from_str(&page).unwrap();
                let api_version = page["apiVersion"].as_str().unwrap();
                for item in page["items"].as_array().unwrap() {
                    let text = item.to_string();
                    let of = TypeMeta { api_version, kind };
                    let object = Object::from_json(&text, Some(of)).unwrap();
                    let namespace = object.namespace().unwrap().to_owned();
                    if !self.namespaces.contains(&namespace) {
                        continue;
                    }
                    let (group, version) = api_version.split_once('/').unwrap_or(("", "v1"));
                    let resource = format!("{}s", kind.to_lowercase());
                    let type_key = TypeKey::new(group, version, resource).unwrap();
                    let key = ObjectKey::new(type_key, Some(namespace), object.name()).unwrap();
                    let path = format!("{FOLDER}/{}", RepoPath::of(&key));
                    files.insert(path, canonicalise(object).to_yaml());
                }
            }
        }
        files
    }

    /// The branch holds exactly what the cluster does.
    pub(crate) fn assert_mirrored(&self) {
        let wanted = self.files();
        let mut there = self.repository.files("main");
        there.retain(|path, _| !path.contains("/.configbutler/"));
        assert_eq!(wanted.len(), self.objects);
        assert!(wanted == there, "the branch differs from the cluster");
    }
}
