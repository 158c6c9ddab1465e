//! In which order objects come back.

use reverser_core::repo_path::PathIdentity;

/// What others need comes before them; what acts on requests comes last.
const ORDER: &[&str] = &[
    "namespaces",
    "customresourcedefinitions",
    "priorityclasses",
    "storageclasses",
    "resourcequotas",
    "limitranges",
    "serviceaccounts",
    "secrets",
    "configmaps",
    "persistentvolumes",
    "persistentvolumeclaims",
    "clusterroles",
    "clusterrolebindings",
    "roles",
    "rolebindings",
    "services",
    "networkpolicies",
];
const LAST: &[&str] = &[
    "apiservices",
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
];

/// Where an object stands in that order.
pub(super) fn rank(identity: &PathIdentity) -> usize {
    let resource = identity.type_key.resource();
    let at = |list: &[&str]| list.iter().position(|known| *known == resource);
    match (at(ORDER), at(LAST)) {
        (Some(first), _) => first,
        (None, Some(last)) => ORDER.len() + 1 + last,
        (None, None) => ORDER.len(),
    }
}

#[cfg(test)]
mod tests {
    use reverser_core::repo_path::RepoPath;

    use super::*;

    #[test]
    fn what_others_need_comes_first_and_what_acts_on_requests_last() {
        let rank_of = |path: &str| rank(&RepoPath::parse(path).unwrap());
        let order = [
            "core/v1/namespaces/shop.yaml",
            "apiextensions.k8s.io/v1/customresourcedefinitions/a.b.yaml",
            "core/v1/secrets/shop/db.yaml",
            "core/v1/services/shop/web.yaml",
            "apps/v1/deployments/shop/web.yaml",
            "admissionregistration.k8s.io/v1/validatingwebhookconfigurations/x.yaml",
        ];
        assert!(order.map(rank_of).is_sorted());
    }
}
