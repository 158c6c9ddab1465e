//! Objects that no person wrote: left out unless their rule is turned off.

use crate::object::Object;
use crate::value::Value;

/// One reason to leave objects out.
pub struct NoiseRule {
    /// The name by which it can be turned off.
    pub name: &'static str,
    /// Which objects it leaves out.
    pub leaves_out: &'static str,
    /// Why nobody will miss them.
    pub reason: &'static str,
    is_noise: fn(&Object<'_>) -> bool,
}

/// The name of the rule that a rule with `includeOwned` does not follow.
pub const OWNED_OBJECTS: &str = "owned-objects";

/// Every rule, in the order in which they are asked.
pub const NOISE_RULES: &[NoiseRule] = &[
    NoiseRule {
        name: "ignore-label",
        leaves_out: "objects labelled `configbutler.ai/ignore=true`",
        reason: "Somebody asked for it.",
        is_noise: |object| object.label("configbutler.ai/ignore") == Some("true"),
    },
    NoiseRule {
        name: OWNED_OBJECTS,
        leaves_out: "objects that another object controls",
        reason: "Their controller makes them again.",
        is_noise: |object| object.is_controlled(),
    },
    NoiseRule {
        name: "root-ca-config-map",
        leaves_out: "the ConfigMap `kube-root-ca.crt`",
        reason: "A controller puts a copy into every namespace.",
        is_noise: |object| is(object, "", "ConfigMap") && object.name() == "kube-root-ca.crt",
    },
    NoiseRule {
        name: "status-config-maps",
        leaves_out: "the ConfigMaps `cluster-autoscaler-status`, `istio-ca-root-cert` and `*-leader-election`",
        reason: "Controllers keep their state in them.",
        is_noise: |object| {
            is(object, "", "ConfigMap")
                && (matches!(
                    object.name(),
                    "cluster-autoscaler-status" | "istio-ca-root-cert"
                ) || object.name().ends_with("-leader-election"))
        },
    },
    NoiseRule {
        name: "default-service-account",
        leaves_out: "the ServiceAccount `default` if it carries nothing of its own",
        reason: "A controller makes one in every namespace.",
        is_noise: is_plain_default_service_account,
    },
    NoiseRule {
        name: "token-secrets",
        leaves_out: "Secrets of the type `kubernetes.io/service-account-token`",
        reason: "A controller fills them with credentials of this cluster.",
        is_noise: |object| is_secret_of_type(object, "kubernetes.io/service-account-token"),
    },
    NoiseRule {
        name: "helm-releases",
        leaves_out: "Secrets of the type `helm.sh/release.v1`",
        reason: "Helm keeps its state in them; what it installed is mirrored itself.",
        is_noise: |object| is_secret_of_type(object, "helm.sh/release.v1"),
    },
    NoiseRule {
        name: "bootstrap-rbac",
        leaves_out: "RBAC objects labelled `kubernetes.io/bootstrapping=rbac-defaults`",
        reason: "The API server makes them when it starts.",
        is_noise: |object| {
            object.group() == "rbac.authorization.k8s.io"
                && object.label("kubernetes.io/bootstrapping") == Some("rbac-defaults")
        },
    },
    NoiseRule {
        name: "managed-api-services",
        leaves_out: "APIServices that Kubernetes registers by itself",
        reason: "They follow from the server and from CRDs.",
        is_noise: |object| {
            is(object, "apiregistration.k8s.io", "APIService")
                && object
                    .label("kube-aggregator.kubernetes.io/automanaged")
                    .is_some()
        },
    },
    NoiseRule {
        name: "kubernetes-service",
        leaves_out: "the Service `default/kubernetes`",
        reason: "The API server makes it for itself.",
        is_noise: |object| {
            is(object, "", "Service")
                && object.name() == "kubernetes"
                && object.namespace() == Some("default")
        },
    },
];

/// The rules that are not turned off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoiseFilter {
    active: Vec<bool>,
}

/// A name that no noise rule has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no noise rule {0:?}: write one of {names}", names = names())]
pub struct UnknownNoiseRule(pub String);

fn names() -> String {
    NOISE_RULES
        .iter()
        .map(|rule| rule.name)
        .collect::<Vec<_>>()
        .join(", ")
}

impl NoiseFilter {
    /// All rules but these.
    pub fn without<'n>(
        disabled: impl IntoIterator<Item = &'n str>,
    ) -> Result<Self, UnknownNoiseRule> {
        let mut active = vec![true; NOISE_RULES.len()];
        for name in disabled {
            let index = NOISE_RULES.iter().position(|rule| rule.name == name);
            active[index.ok_or_else(|| UnknownNoiseRule(name.to_owned()))?] = false;
        }
        Ok(Self { active })
    }

    /// Why the object is left out, if it is.
    #[must_use]
    pub fn judge(&self, object: &Object<'_>) -> Noise {
        let mut owned = false;
        for (rule, _) in NOISE_RULES
            .iter()
            .zip(&self.active)
            .filter(|(_, active)| **active)
        {
            if (rule.is_noise)(object) {
                if rule.name != OWNED_OBJECTS {
                    return Noise::Always;
                }
                owned = true;
            }
        }
        if owned {
            Noise::UnlessOwnedAreIncluded
        } else {
            Noise::No
        }
    }
}

/// Whether an object is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise {
    /// It is not.
    No,
    /// It is, unless the rule that selects it asks for owned objects.
    UnlessOwnedAreIncluded,
    /// It is.
    Always,
}

fn is(object: &Object<'_>, group: &str, kind: &str) -> bool {
    object.group() == group && object.kind() == kind
}

fn is_secret_of_type(object: &Object<'_>, secret_type: &str) -> bool {
    is(object, "", "Secret") && object.root.text("type") == Some(secret_type)
}

fn is_plain_default_service_account(object: &Object<'_>) -> bool {
    let has_none = |path: &[&str]| match object.root.at(path) {
        None | Some(Value::Null) => true,
        Some(Value::Map(map)) => map.is_empty(),
        Some(Value::List(list)) => list.is_empty(),
        Some(_) => false,
    };
    is(object, "", "ServiceAccount")
        && object.name() == "default"
        && has_none(&["imagePullSecrets"])
        && has_none(&["secrets"])
        && has_none(&["automountServiceAccountToken"])
        && has_none(&["metadata", "labels"])
        && has_none(&["metadata", "annotations"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml_read;

    fn judge(filter: &NoiseFilter, yaml: &str) -> Noise {
        let object = Object::from_value(yaml_read::read(yaml).unwrap(), None).unwrap();
        filter.judge(&object)
    }

    /// One object for each rule, which it alone leaves out.
    const NOISE: &[(&str, &str)] = &[
        (
            "ignore-label",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {configbutler.ai/ignore: 'true'}}}",
        ),
        (
            "root-ca-config-map",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: kube-root-ca.crt}}",
        ),
        (
            "status-config-maps",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: x-leader-election}}",
        ),
        (
            "default-service-account",
            "{apiVersion: v1, kind: ServiceAccount, metadata: {name: default}}",
        ),
        (
            "token-secrets",
            "{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, metadata: {name: a}}",
        ),
        (
            "helm-releases",
            "{apiVersion: v1, kind: Secret, type: helm.sh/release.v1, metadata: {name: a}}",
        ),
        (
            "bootstrap-rbac",
            "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a, labels: {kubernetes.io/bootstrapping: rbac-defaults}}}",
        ),
        (
            "managed-api-services",
            "{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: a, labels: {kube-aggregator.kubernetes.io/automanaged: onstart}}}",
        ),
        (
            "kubernetes-service",
            "{apiVersion: v1, kind: Service, metadata: {name: kubernetes, namespace: default}}",
        ),
    ];

    #[test]
    fn each_rule_leaves_out_its_objects_and_can_be_turned_off() {
        let all = NoiseFilter::without([]).unwrap();
        for (rule, yaml) in NOISE {
            assert_eq!(judge(&all, yaml), Noise::Always, "{rule}");
            let without = NoiseFilter::without([*rule]).unwrap();
            assert_eq!(judge(&without, yaml), Noise::No, "{rule}");
        }
        let owned = "{apiVersion: v1, kind: Pod, metadata: {name: a, ownerReferences: [{controller: true}]}}";
        assert_eq!(judge(&all, owned), Noise::UnlessOwnedAreIncluded);
        assert_eq!(
            NOISE.len() + 1,
            NOISE_RULES.len(),
            "each rule has its object here"
        );
    }

    #[test]
    fn what_a_person_made_of_such_an_object_is_no_noise() {
        let all = NoiseFilter::without([]).unwrap();
        for yaml in [
            "{apiVersion: v1, kind: ServiceAccount, metadata: {name: default}, imagePullSecrets: [{name: a}]}",
            "{apiVersion: v1, kind: ServiceAccount, metadata: {name: default}, automountServiceAccountToken: false}",
            "{apiVersion: v1, kind: Service, metadata: {name: kubernetes, namespace: shop}}",
            "{apiVersion: v1, kind: Pod, metadata: {name: a, ownerReferences: [{controller: false}]}}",
            "{apiVersion: v1, kind: Secret, type: Opaque, metadata: {name: a}}",
        ] {
            assert_eq!(judge(&all, yaml), Noise::No, "{yaml}");
        }
    }

    #[test]
    fn an_unknown_rule_is_refused_with_the_names() {
        let error = NoiseFilter::without(["nonsense"]).unwrap_err().to_string();
        assert!(
            error.contains("nonsense") && error.contains("helm-releases"),
            "{error}"
        );
    }
}
