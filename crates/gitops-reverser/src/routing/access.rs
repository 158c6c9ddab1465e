//! Who may use what.

use reverser_api::access_policy::{NamespacedRules, NamespacesAllowed};
use reverser_core::labels::{BadRequirement, LabelSelector, Requirement};

use super::Configuration;

/// Whether a policy lets a namespace in. `home` is the namespace of the object that has the policy.
pub(super) fn lets_in(
    rules: &NamespacedRules,
    home: &str,
    namespace: &str,
    configuration: &Configuration,
) -> bool {
    match rules.allowed() {
        NamespacesAllowed::Same => home == namespace,
        NamespacesAllowed::All => true,
        NamespacesAllowed::None => false,
        NamespacesAllowed::Selected(selector) => {
            let labels = configuration.namespaces.get(namespace);
            labels
                .zip(label_selector(Some(selector)).ok())
                .is_some_and(|(labels, selector)| {
                    selector.selects(|key| labels.get(key).map(String::as_str))
                })
        }
    }
}

/// A selector of the API as one of the core; none selects everything.
pub(super) fn label_selector(
    selector: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector>,
) -> Result<LabelSelector, BadRequirement> {
    let Some(selector) = selector else {
        return Ok(LabelSelector::default());
    };
    let labels = selector.match_labels.iter().flatten();
    let mut requirements: Vec<Requirement> = labels
        .map(|(key, value)| Requirement::In(key.clone(), vec![value.clone()]))
        .collect();
    for expression in selector.match_expressions.iter().flatten() {
        let values = expression.values.as_deref().unwrap_or_default();
        requirements.push(Requirement::parse(
            &expression.key,
            &expression.operator,
            values,
        )?);
    }
    Ok(LabelSelector::all_of(requirements))
}
