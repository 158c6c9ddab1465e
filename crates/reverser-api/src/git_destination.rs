//! GitDestination: one folder of one branch that is kept equal to the cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access_policy::DestinationAccessPolicy;
use crate::schema;

/// The annotation that releases the guard against mass deletion. Its value is the id that
/// `status.massDeleteGuard.id` shows, so that it releases that one stop and not the next.
pub const ACKNOWLEDGE_MASS_DELETE: &str = "configbutler.ai/acknowledge-mass-delete";

/// The annotation by which a person takes a folder over from another installation. Its value is the
/// id that the condition shows, so that it takes over from that owner and not from the next.
pub const TAKE_OVER: &str = "configbutler.ai/take-over";

/// One folder of one branch that is kept equal to the cluster.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "configbutler.ai",
    version = "v1alpha1",
    kind = "GitDestination",
    namespaced,
    status = "GitDestinationStatus",
    derive = "PartialEq",
    shortname = "gdest",
    category = "reverser",
    doc = "GitDestination is one folder of one branch, kept equal to the objects that WatchRules \
           and ClusterWatchRules send to it.",
    printcolumn(
        name = "Branch",
        type_ = "string",
        json_path = ".spec.branch",
        description = "The branch that is written."
    ),
    printcolumn(
        name = "Folder",
        type_ = "string",
        json_path = ".spec.baseFolder",
        description = "The folder that is written."
    ),
    printcolumn(
        name = "Objects",
        type_ = "integer",
        json_path = ".status.objects",
        description = "How many objects are mirrored."
    ),
    printcolumn(
        name = "Waiting",
        type_ = "integer",
        json_path = ".status.waitingFiles",
        description = "How many files differ from the branch and are not pushed yet."
    ),
    printcolumn(
        name = "Last Push",
        type_ = "date",
        json_path = ".status.lastPushTime",
        description = "How long ago the last successful push was."
    ),
    printcolumn(
        name = "Last Commit",
        type_ = "string",
        json_path = ".status.lastPushedCommit",
        priority = 1,
        description = "The last commit that was pushed."
    )
)]
#[serde(rename_all = "camelCase")]
pub struct GitDestinationSpec {
    /// The GitRepoConfig of the repository.
    pub repo_ref: RepoReference,

    /// The branch that is written. It must be one of the repository's allowedBranches, and is
    /// created where it is missing.
    #[schemars(schema_with = "schema::branch::branch")]
    pub branch: String,

    /// The folder of the branch that this destination owns, as a path from the repository's root,
    /// such as clusters/prod. Folders of destinations on one branch must not overlap.
    #[schemars(schema_with = "schema::folder::base_folder")]
    pub base_folder: String,

    /// Who may send objects here, over and above what the repository asks. Left out: rules of its
    /// own namespace, and cluster rules if the repository allows them.
    #[serde(default)]
    pub access_policy: DestinationAccessPolicy,

    /// Whether the folder must be this installation's alone. If it belongs to another installation,
    /// true refuses to write and false only warns.
    #[serde(default)]
    pub exclusive_mode: bool,

    /// How Secrets are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<Secrets>,

    /// When files are deleted.
    #[serde(default)]
    pub prune: Prune,

    /// What is left out of the files: values that controllers rewrite all the time, and that would
    /// make a commit each time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignore: Option<Ignore>,

    /// True stops writing. The cluster is still watched, and what has changed by then is written
    /// once it is false again.
    #[serde(default)]
    pub suspend: bool,
}

/// A GitRepoConfig.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct RepoReference {
    /// The GitRepoConfig's name.
    #[schemars(schema_with = "schema::names::object_name")]
    pub name: String,

    /// The GitRepoConfig's namespace. Left out: the destination's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::names::namespace")]
    pub namespace: Option<String>,
}

/// How Secrets are written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct Secrets {
    /// AsIs copies Secrets unchanged, in base64, which everyone who may read the repository can
    /// decode. Redact writes their keys, with a keyed hash in the place of each value. Skip writes no
    /// Secrets. Left out: as the operator's flag --secrets-mode says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SecretsMode")]
    pub mode: Option<SecretsMode>,
}

/// How Secrets are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SecretsMode {
    /// In base64, as Kubernetes stores them.
    AsIs,
    /// With keyed hashes in the place of values.
    Redact,
    /// Not at all.
    Skip,
}

/// When files are deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct Prune {
    /// Always deletes the file of an object that is proven to be gone or no longer selected. OnEvent
    /// deletes it only if the object's deletion was seen while it happened. Never keeps every file.
    #[serde(default)]
    pub mode: PruneMode,

    /// Enabled stops before a cycle that would delete every file of a destination with more than 10
    /// objects, or that sees another cluster than before; the annotation
    /// configbutler.ai/acknowledge-mass-delete releases it. Disabled lets such a cycle pass.
    #[serde(default)]
    pub guard: PruneGuard,
}

/// When files are deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PruneMode {
    /// Whenever the object is proven to be gone or no longer selected.
    #[default]
    Always,
    /// Only if the object's deletion was seen.
    OnEvent,
    /// Never.
    Never,
}

/// Whether deletions that look like a mistake are stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PruneGuard {
    /// They are stopped until somebody acknowledges them.
    #[default]
    Enabled,
    /// They are carried out.
    Disabled,
}

/// What is left out of the files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct Ignore {
    /// Annotations by key, such as example.com/revision, or all under a prefix, such as
    /// example.com/*.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::names::ignored_keys")]
    pub annotations: Vec<String>,

    /// Labels by key, such as example.com/revision, or all under a prefix, such as example.com/*.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::names::ignored_keys")]
    pub labels: Vec<String>,

    /// Any other fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub fields: Vec<IgnoredField>,
}

/// A field that is left out of the files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct IgnoredField {
    /// The field as a JSON pointer, such as /spec/replicas. A '/' inside of a part is written ~1, a
    /// '~' is written ~0.
    #[schemars(schema_with = "schema::names::field_pointer")]
    pub pointer: String,

    /// The kind whose field it is, with its group, such as Deployment.apps, or Service for a kind of
    /// the core group. Left out: of every kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::names::kind_and_group")]
    pub kind: Option<String>,
}

/// How far the folder has followed the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitDestinationStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Ready says whether the folder follows the cluster; Reconciling and Stalled are there while
    /// it catches up, or while somebody has to repair something first; others warn of what should
    /// be known although everything works.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// The last commit that was pushed for this destination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_pushed_commit: Option<String>,

    /// When the Git server last confirmed a push for this destination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_push_time: Option<Time>,

    /// How many objects are mirrored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<i64>,

    /// How many files differ from the branch and are not pushed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_files: Option<i64>,

    /// How many files stay although their objects are gone, because spec.prune.mode or the
    /// operator's --deletes-cap-per-cycle holds their deletion back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_back_deletions: Option<i64>,

    /// Deletions that the guard has stopped, until they are acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mass_delete_guard: Option<MassDeleteGuard>,

    /// Objects that the Git server refuses, at most 20 of them. They are tried again when they
    /// change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["path".into()]))]
    pub set_aside: Vec<SetAside>,

    /// How many objects the Git server refuses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_aside_objects: Option<i64>,
}

/// Deletions that the guard has stopped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct MassDeleteGuard {
    /// What the annotation configbutler.ai/acknowledge-mass-delete must say to let them pass.
    pub id: String,

    /// How many files would be deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletions: Option<i64>,

    /// Since when they are stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

/// An object that the Git server refuses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct SetAside {
    /// The file that would hold it.
    pub path: String,

    /// What the Git server said.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt as _;
    use kube::core::{DeserializeGuard, ObjectList};
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_that_cannot_be_read_hides_no_other() {
        let destination = |name: &str, secrets_mode: &str| {
            json!({
                "apiVersion": "configbutler.ai/v1alpha1",
                "kind": "GitDestination",
                "metadata": {"name": name, "namespace": "shop"},
                "spec": {
                    "repoRef": {"name": "mirror"},
                    "branch": "main",
                    "baseFolder": "clusters/prod",
                    "secrets": {"mode": secrets_mode},
                },
            })
        };
        let list: ObjectList<DeserializeGuard<GitDestination>> = serde_json::from_value(json!({
            "apiVersion": "configbutler.ai/v1alpha1",
            "kind": "GitDestinationList",
            "metadata": {},
            "items": [destination("newer", "Rot13"), destination("known", "Redact")],
        }))
        .unwrap();

        assert_eq!(list.items[0].name_any(), "newer");
        let why = list.items[0].0.as_ref().unwrap_err().to_string();
        assert!(why.contains("Rot13") && why.contains("Redact"), "{why}");
        assert!(list.items[1].0.is_ok());
    }

    #[test]
    fn what_is_left_out_is_what_the_api_server_would_fill_in() {
        let spec: GitDestinationSpec = serde_json::from_value(json!({
            "repoRef": {"name": "mirror"},
            "branch": "main",
            "baseFolder": "clusters/prod",
        }))
        .unwrap();
        assert_eq!(spec.prune.mode, PruneMode::Always);
        assert_eq!(spec.prune.guard, PruneGuard::Enabled);
        assert_eq!(spec.access_policy, DestinationAccessPolicy::default());
        assert!(!spec.exclusive_mode && !spec.suspend);
    }
}
