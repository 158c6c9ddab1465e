use std::path::PathBuf;
use std::process::Command;
use std::sync::Once;

use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use kube::core::Status;
use reverser_testkit::command;
use reverser_testkit::control_plane::{ControlPlane, SharedPlane, User};
use serde_json::{Value, json};

pub(crate) const KINDS: [&str; 4] = [
    "GitRepoConfig",
    "GitDestination",
    "WatchRule",
    "ClusterWatchRule",
];

/// The shared control plane, with the committed definitions installed as a person would do it.
pub(crate) fn installed() -> SharedPlane {
    static INSTALLED: Once = Once::new();
    let plane = ControlPlane::shared();
    INSTALLED.call_once(|| {
        let folder = repository("config/crd/bases");
        command::run(kubectl(&plane).arg("apply").arg("-f").arg(&folder));
        let kinds = reverser_api::crd_yaml::crds().into_iter();
        plane.await_kinds(kinds.filter_map(|crd| crd.metadata.name));
    });
    plane
}

pub(crate) fn kubectl(plane: &ControlPlane) -> Command {
    plane.kubectl(User::Admin)
}

pub(crate) fn repository(path: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../..", path].iter().collect()
}

/// What the API server makes of a new object, without keeping it.
pub(crate) struct Server {
    /// Keeps the logs if the test fails.
    _plane: SharedPlane,
    client: kube::Client,
}

impl Server {
    pub(crate) fn new() -> Self {
        let plane = installed();
        let client = plane.client(User::Admin).unwrap();
        Self {
            _plane: plane,
            client,
        }
    }

    /// The object as it would be stored, or the refusal.
    pub(crate) async fn create(&self, object: &Value) -> Result<Value, Box<Status>> {
        let kind = object["kind"].as_str().unwrap();
        let resource = ApiResource {
            group: reverser_api::GROUP.to_owned(),
            version: reverser_api::VERSION.to_owned(),
            api_version: format!("{}/{}", reverser_api::GROUP, reverser_api::VERSION),
            kind: kind.to_owned(),
            plural: format!("{}s", kind.to_lowercase()),
        };
        let api: Api<DynamicObject> = if kind == "ClusterWatchRule" {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), "default", &resource)
        };
        let params = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        match api.create(&params, &object).await {
            Ok(created) => Ok(serde_json::to_value(created).unwrap()),
            Err(kube::Error::Api(status)) => Err(status),
            Err(error) => panic!("{error}"),
        }
    }
}

/// The smallest valid object of a kind.
pub(crate) fn smallest(kind: &str) -> Value {
    let spec = match kind {
        "GitRepoConfig" => json!({
            "repoUrl": "https://git.example.com/platform/mirror.git",
            "allowedBranches": ["main"],
        }),
        "GitDestination" => json!({
            "repoRef": {"name": "mirror"},
            "branch": "main",
            "baseFolder": "clusters/prod",
        }),
        "WatchRule" => json!({
            "destinationRef": {"name": "shop"},
            "rules": [{}],
        }),
        "ClusterWatchRule" => json!({
            "destinationRef": {"name": "shop", "namespace": "default"},
            "rules": [{"scope": "Cluster"}],
        }),
        other => panic!("no kind {other}"),
    };
    json!({
        "apiVersion": format!("{}/{}", reverser_api::GROUP, reverser_api::VERSION),
        "kind": kind,
        "metadata": {"name": "sample"},
        "spec": spec,
    })
}

/// A JSON merge patch: what is null in it goes, maps are merged, everything else is replaced.
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let (Some(_), Value::Object(patch)) = (target.as_object(), patch) else {
        *target = patch.clone();
        return;
    };
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else if target[key].is_null() {
            target[key] = value.clone();
        } else {
            merge(&mut target[key], value);
        }
    }
}
