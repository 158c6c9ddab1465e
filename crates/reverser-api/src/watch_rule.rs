//! WatchRule: which objects of its namespace go to a destination.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Which objects of its namespace go to a destination.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "configbutler.ai",
    version = "v1alpha1",
    kind = "WatchRule",
    namespaced,
    status = "WatchRuleStatus",
    derive = "PartialEq",
    shortname = "wr",
    category = "reverser",
    doc = "WatchRule says which objects of its own namespace are mirrored to a GitDestination.",
    printcolumn(
        name = "Destination",
        type_ = "string",
        json_path = ".spec.destinationRef.name",
        description = "Where the objects go."
    ),
    printcolumn(
        name = "Types",
        type_ = "integer",
        json_path = ".status.watchedTypes",
        description = "How many types of objects are watched for it."
    ),
    printcolumn(
        name = "Destination Namespace",
        type_ = "string",
        json_path = ".spec.destinationRef.namespace",
        priority = 1,
        description = "The destination's namespace, where it is another one."
    )
)]
#[serde(rename_all = "camelCase")]
pub struct WatchRuleSpec {
    /// The GitDestination that the objects go to.
    pub destination_ref: DestinationReference,

    /// The labels of the objects that are selected. Left out: all objects that rules select.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::selector::label_selector")]
    pub object_selector: Option<LabelSelector>,

    /// What is selected, at least one. An object is mirrored if any of them selects it.
    #[schemars(length(max = 16))]
    #[x_kube(
        merge_strategy = ListMerge::Atomic,
        validation = Rule::new("self.size() > 0").message(AT_LEAST_ONE_RULE),
    )]
    pub rules: Vec<ResourceRule>,
}

/// What an empty list of rules is told.
pub(crate) const AT_LEAST_ONE_RULE: &str = "must have at least one rule: write what to mirror, such \
    as resources: [deployments, services], or an empty rule for what people commonly write";

/// A GitDestination, in the rule's namespace unless another is named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct DestinationReference {
    /// The GitDestination's name.
    #[schemars(schema_with = "schema::names::object_name")]
    pub name: String,

    /// The GitDestination's namespace. Left out: the rule's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::names::namespace")]
    pub namespace: Option<String>,
}

/// Types of objects, and which of their changes are followed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRule {
    /// Which changes are followed: CREATE, UPDATE, DELETE, or * for all. If CREATE is not among them,
    /// new objects get no file; without UPDATE, files are not changed after their first commit;
    /// without DELETE, files outlive their objects. Left out or empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::names::operations")]
    pub operations: Vec<Operation>,

    /// API groups: '' is the core group, * is every group. Left out or empty: every group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::names::api_groups")]
    pub api_groups: Vec<String>,

    /// API versions, such as v1. Left out, empty or *: the version that the API server prefers, so
    /// that no object is written twice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::names::api_versions")]
    pub api_versions: Vec<String>,

    /// Plural names of resources, such as deployments or deployments.apps, or * for every type of
    /// the groups that can be watched, less those that hold no desired state, such as pods and
    /// events; name these explicitly to have them. Left out or empty: the types that people commonly
    /// write, such as Deployments, Services, ConfigMaps and Roles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::names::resources")]
    pub resources: Vec<String>,

    /// Whether objects that another object controls are mirrored too, such as the ReplicaSets of a
    /// Deployment. Their controller makes them again, so they are left out unless you say otherwise.
    #[serde(default)]
    pub include_owned: bool,
}

/// A change that is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Operation {
    /// An object appears: its file does.
    #[serde(rename = "CREATE")]
    Create,
    /// An object changes: its file does.
    #[serde(rename = "UPDATE")]
    Update,
    /// An object goes: its file does.
    #[serde(rename = "DELETE")]
    Delete,
    /// All of them.
    #[serde(rename = "*")]
    All,
}

/// Whether the rule is in effect. Both kinds of rules have this.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct WatchRuleStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Ready says whether the rule is in effect; Reconciling and Stalled are there while it is being
    /// put into effect, or while somebody has to repair something first; others warn of what should
    /// be known although everything works.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// How many types of objects are watched for this rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watched_types: Option<i64>,
}
