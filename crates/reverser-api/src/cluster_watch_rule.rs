//! ClusterWatchRule: which objects of the whole cluster go to a destination.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::watch_rule::{AT_LEAST_ONE_RULE, ResourceRule, WatchRuleStatus};

/// Which objects of the whole cluster go to a destination.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "configbutler.ai",
    version = "v1alpha1",
    kind = "ClusterWatchRule",
    status = "WatchRuleStatus",
    derive = "PartialEq",
    shortname = "cwr",
    category = "reverser",
    doc = "ClusterWatchRule says which cluster-scoped objects, or objects of which namespaces, are \
           mirrored to a GitDestination. The destination's repository must allow cluster rules.",
    printcolumn(
        name = "Destination",
        type_ = "string",
        json_path = ".spec.destinationRef.name",
        description = "Where the objects go."
    ),
    printcolumn(
        name = "Namespace",
        type_ = "string",
        json_path = ".spec.destinationRef.namespace",
        description = "The destination's namespace."
    ),
    printcolumn(
        name = "Types",
        type_ = "integer",
        json_path = ".status.watchedTypes",
        description = "How many types of objects are watched for it."
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterWatchRuleSpec {
    /// The GitDestination that the objects go to. Its repository must have
    /// accessPolicy.allowClusterRules: true.
    pub destination_ref: ClusterDestinationReference,

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
    pub rules: Vec<ClusterResourceRule>,
}

/// A GitDestination. The rule has no namespace of its own that could stand in for a missing one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct ClusterDestinationReference {
    /// The GitDestination's name.
    #[schemars(schema_with = "schema::names::object_name")]
    pub name: String,

    /// The GitDestination's namespace.
    #[schemars(schema_with = "schema::names::namespace")]
    pub namespace: String,
}

/// Types of objects, where they live, and which of their changes are followed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.scope == 'Namespaced' || !has(self.namespaceSelector)")
        .message("namespaceSelector is read only with scope Namespaced: write that scope, or leave \
                  the selector out")
        .reason(Reason::FieldValueForbidden)
        .field_path(".namespaceSelector"),
)]
pub struct ClusterResourceRule {
    /// Cluster selects objects without a namespace, Namespaced those of all namespaces, or of the
    /// namespaces that namespaceSelector selects.
    pub scope: Scope,

    /// The labels of the namespaces whose objects are selected. Only with scope Namespaced; left
    /// out: every namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::selector::label_selector")]
    pub namespace_selector: Option<LabelSelector>,

    /// Types of objects, and which of their changes are followed.
    #[serde(flatten)]
    pub selection: ResourceRule,
}

/// Where objects live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Scope {
    /// Outside of namespaces.
    Cluster,
    /// In namespaces.
    Namespaced,
}
