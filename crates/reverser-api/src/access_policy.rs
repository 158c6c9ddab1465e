//! Who may use a repository or a destination.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Who may use a repository: without one, rules and destinations of its own namespace, and no
/// cluster rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RepoAccessPolicy {
    /// The namespaces whose GitDestinations and WatchRules may use this repository.
    #[serde(default)]
    pub namespaced_rules: NamespacedRules,

    /// Whether ClusterWatchRules may use this repository. They reach objects of every namespace,
    /// so this is false unless you say otherwise.
    #[serde(default)]
    pub allow_cluster_rules: bool,
}

/// Who may use a destination, over and above what its repository asks: without one, rules of its
/// own namespace, and cluster rules if the repository allows them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct DestinationAccessPolicy {
    /// The namespaces whose WatchRules may use this destination.
    #[serde(default)]
    pub namespaced_rules: NamespacedRules,

    /// False keeps ClusterWatchRules out of this destination although its repository allows them.
    /// Left out, the repository decides; true alone does not let them in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_cluster_rules: Option<bool>,
}

/// The namespaces that are let in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.mode != 'FromSelector' || has(self.namespaceSelector)")
        .message("mode FromSelector needs namespaceSelector: write the labels of the namespaces \
                  that you mean, or mode SameNamespace or AllNamespaces")
        .reason(Reason::FieldValueRequired)
        .field_path(".namespaceSelector"),
    validation = Rule::new("self.mode == 'FromSelector' || !has(self.namespaceSelector)")
        .message("namespaceSelector is read only with mode FromSelector: write that mode, or leave \
                  the selector out")
        .reason(Reason::FieldValueForbidden)
        .field_path(".namespaceSelector"),
)]
pub struct NamespacedRules {
    /// SameNamespace lets in the namespace of this object, AllNamespaces every namespace,
    /// FromSelector the namespaces that namespaceSelector selects.
    #[serde(default)]
    pub mode: NamespaceMode,

    /// The labels of the namespaces that are let in: needed with mode FromSelector, and only then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::selector::label_selector")]
    pub namespace_selector: Option<LabelSelector>,
}

/// How the namespaces that are let in are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NamespaceMode {
    /// The namespace of the object that has the policy.
    #[default]
    SameNamespace,
    /// Every namespace.
    AllNamespaces,
    /// The namespaces that a selector selects.
    FromSelector,
}

/// The namespaces that are let in, with nothing left to contradict itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NamespacesAllowed<'a> {
    /// The namespace of the object that has the policy.
    Same,
    /// Every namespace.
    All,
    /// The namespaces that the selector selects.
    Selected(&'a LabelSelector),
    /// None: a selector was announced and is missing. The API server refuses that; should one be
    /// there all the same, the policy lets nobody in.
    None,
}

impl NamespacedRules {
    /// What mode and selector say together.
    #[must_use]
    pub fn allowed(&self) -> NamespacesAllowed<'_> {
        match (self.mode, &self.namespace_selector) {
            (NamespaceMode::SameNamespace, _) => NamespacesAllowed::Same,
            (NamespaceMode::AllNamespaces, _) => NamespacesAllowed::All,
            (NamespaceMode::FromSelector, Some(selector)) => NamespacesAllowed::Selected(selector),
            (NamespaceMode::FromSelector, None) => NamespacesAllowed::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_policy_only_the_own_namespace_is_let_in() {
        let policy = RepoAccessPolicy::default();
        assert_eq!(policy.namespaced_rules.allowed(), NamespacesAllowed::Same);
        assert!(!policy.allow_cluster_rules);
        assert_eq!(DestinationAccessPolicy::default().allow_cluster_rules, None);
    }

    #[test]
    fn a_missing_selector_lets_nobody_in() {
        let rules = NamespacedRules {
            mode: NamespaceMode::FromSelector,
            namespace_selector: None,
        };
        assert_eq!(rules.allowed(), NamespacesAllowed::None);
    }
}
