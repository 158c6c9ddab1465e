//! What a branch must hold: the canonical form of what a fresh, complete list shows.

use std::collections::BTreeMap;

use reverser_core::canon::canonicalise;
use reverser_core::noise::{Noise, NoiseFilter};
use reverser_core::object::{Object, TypeMeta};
use reverser_core::object_key::{ObjectKey, TypeKey};
use reverser_core::repo_path::RepoPath;
use reverser_testkit::command;
use reverser_testkit::control_plane::User;
use serde_json::Value;

use super::installation::{Installation, soon};

/// Objects that should be in the branch: a type, where, and with which labels.
#[derive(Clone)]
pub(crate) struct Expected {
    type_key: TypeKey,
    kind: String,
    namespace: Option<String>,
    selector: String,
}

impl Expected {
    pub(crate) fn new(group: &str, version: &str, resource: &str, kind: &str) -> Self {
        Self {
            type_key: TypeKey::new(group, version, resource).unwrap(),
            kind: kind.to_owned(),
            namespace: None,
            selector: String::new(),
        }
    }

    pub(crate) fn config_maps(namespace: &str) -> Self {
        Self::new("", "v1", "configmaps", "ConfigMap").within(namespace)
    }

    pub(crate) fn within(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    pub(crate) fn labelled(mut self, selector: &str) -> Self {
        selector.clone_into(&mut self.selector);
        self
    }

    fn url(&self) -> String {
        let (group, version) = (self.type_key.group(), self.type_key.version());
        let root = if group.is_empty() {
            format!("/api/{version}")
        } else {
            format!("/apis/{group}/{version}")
        };
        let place = self
            .namespace
            .as_ref()
            .map_or_else(String::new, |namespace| format!("/namespaces/{namespace}"));
        let resource = self.type_key.resource();
        format!(
            "{root}{place}/{resource}?labelSelector={}",
            self.selector.replace('=', "%3D")
        )
    }
}

impl Installation {
    /// Waits until the destination's folder holds exactly this, byte for byte, and then stays quiet.
    #[track_caller]
    pub(crate) fn await_mirror(&self, expected: &[Expected]) {
        self.await_mirror_of("main", "clusters/prod/", expected);
    }

    #[track_caller]
    pub(crate) fn await_mirror_of(&self, branch: &str, folder: &str, expected: &[Expected]) {
        self.await_equal(branch, folder, expected);
        self.await_told(branch, folder);
        self.assert_quiet_in(branch, folder);
    }

    /// Waits until the status of the destination says the same as its folder: that all is well, how
    /// many objects there are, and a commit that is in the branch.
    #[track_caller]
    fn await_told(&self, branch: &str, folder: &str) {
        let told = || {
            let listed = self.kubectl(&["get", "gitdestinations", "-o", "json"]);
            let listed: Value = serde_json::from_str(&listed).unwrap();
            let destinations = listed["items"].as_array().unwrap().iter();
            let mut owners = destinations.filter(|destination| {
                let spec = &destination["spec"];
                spec["branch"] == branch && spec["baseFolder"] == folder.trim_end_matches('/')
            });
            let Some(owner) = owners.next() else {
                return Ok(());
            };
            let status = &owner["status"];
            let mut conditions = status["conditions"].as_array().into_iter().flatten();
            let ready = conditions.find(|condition| condition["type"] == "Ready");
            let reason = ready.and_then(|ready| ready["reason"].as_str());
            let files = self.files_of(branch, folder).into_keys();
            let objects = files.filter(|path| RepoPath::parse(path).is_ok()).count();
            let commit = status["lastPushedCommit"].as_str().unwrap_or_default();
            let agrees = match reason {
                Some("InSync") => {
                    let history = self.repository.tip(branch);
                    let history =
                        history.map_or_else(Vec::new, |_| self.repository.history(branch));
                    status["objects"] == objects
                        && (commit.is_empty() || history.iter().any(|known| known == commit))
                }
                Some("NoRules") => status["objects"].is_null(),
                _ => false,
            };
            let seen = || format!("{objects} files, and {status}");
            agrees.then_some(()).ok_or_else(seen)
        };
        soon(&format!("the status of {folder} of {branch}"), told);
    }

    /// Waits until a folder holds exactly this, byte for byte; others may still be busy.
    #[track_caller]
    pub(crate) fn await_equal(&self, branch: &str, folder: &str, expected: &[Expected]) {
        soon(&format!("{folder} of {branch} equals the cluster"), || {
            let wanted = self.listed(expected);
            let there: BTreeMap<String, String> = self
                .files_of(branch, folder)
                .into_iter()
                .filter(|(path, _)| RepoPath::parse(path).is_ok())
                .collect();
            if wanted == there {
                return Ok(());
            }
            let differs = |path: &&String| wanted.get(*path) != there.get(*path);
            let paths: Vec<_> = wanted.keys().chain(there.keys()).filter(differs).collect();
            let counts = (wanted.len(), there.len());
            let some = &paths[..paths.len().min(4)];
            Err(format!("{counts:?} files, different: {some:?}"))
        });
    }

    /// The same for the files of one resource.
    #[track_caller]
    pub(crate) fn await_equal_of(&self, resource: &str, expected: &Expected) {
        let part = format!("/{resource}/");
        soon(&format!("the {resource} equal the cluster"), || {
            let wanted = self.listed(std::slice::from_ref(expected));
            let mut there = self.files();
            there.retain(|path, _| path.contains(&part));
            (wanted == there).then_some(()).ok_or(format!("{there:?}"))
        });
    }

    fn listed(&self, expected: &[Expected]) -> BTreeMap<String, String> {
        let noise = NoiseFilter::without([]).unwrap();
        let mut files = BTreeMap::new();
        for expected in expected {
            let mut kubectl = self.plane.kubectl(User::Admin);
            let list = command::run(kubectl.args(["get", "--raw", &expected.url()])).stdout;
            let list: Value = serde_json::from_str(&list).unwrap();
            let group = expected.type_key.group();
            let separator = if group.is_empty() { "" } else { "/" };
            let api_version = format!("{group}{separator}{}", expected.type_key.version());
            for item in list["items"].as_array().unwrap() {
                let text = item.to_string();
                let item_of = TypeMeta {
                    api_version: &api_version,
                    kind: &expected.kind,
                };
                let object = Object::from_json(&text, Some(item_of)).unwrap();
                if noise.judge(&object) != Noise::No {
                    continue;
                }
                let namespace = object.namespace().map(str::to_owned);
                let key =
                    ObjectKey::new(expected.type_key.clone(), namespace, object.name()).unwrap();
                let path = RepoPath::of(&key).to_string();
                files.insert(path, canonicalise(object).to_yaml());
            }
        }
        files
    }
}
