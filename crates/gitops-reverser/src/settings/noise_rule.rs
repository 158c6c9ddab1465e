//! The names of the rules by which objects that no person wrote are left out.

use std::fmt::Write as _;

/// A rule by which objects that no person wrote are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NoiseRule {
    /// The ConfigMap `kube-root-ca.crt` of every namespace.
    RootCaConfigMap,
    /// The ServiceAccount `default`, when it carries nothing of its own.
    DefaultServiceAccount,
    /// Secrets of type `kubernetes.io/service-account-token`.
    ServiceAccountToken,
    /// Secrets of type `helm.sh/release.v1`.
    HelmRelease,
    /// Roles and bindings that the API server makes for itself.
    BootstrapRbac,
    /// APIServices that the API server keeps by itself.
    AutomaticApiService,
    /// The Service `default/kubernetes`.
    KubernetesService,
    /// Objects that another object controls.
    ControlledObject,
    /// Objects labelled `configbutler.ai/ignore=true`.
    IgnoreLabel,
    /// ConfigMaps in which well-known controllers keep their state.
    StatusConfigMap,
}

impl NoiseRule {
    /// Every rule there is.
    pub const ALL: [Self; 10] = [
        Self::RootCaConfigMap,
        Self::DefaultServiceAccount,
        Self::ServiceAccountToken,
        Self::HelmRelease,
        Self::BootstrapRbac,
        Self::AutomaticApiService,
        Self::KubernetesService,
        Self::ControlledObject,
        Self::IgnoreLabel,
        Self::StatusConfigMap,
    ];

    /// The name that the flag takes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RootCaConfigMap => "root-ca-configmap",
            Self::DefaultServiceAccount => "default-serviceaccount",
            Self::ServiceAccountToken => "serviceaccount-token",
            Self::HelmRelease => "helm-release",
            Self::BootstrapRbac => "bootstrap-rbac",
            Self::AutomaticApiService => "automatic-apiservice",
            Self::KubernetesService => "kubernetes-service",
            Self::ControlledObject => "controlled-object",
            Self::IgnoreLabel => "ignore-label",
            Self::StatusConfigMap => "status-configmap",
        }
    }

    /// What the rule leaves out.
    #[must_use]
    pub const fn leaves_out(self) -> &'static str {
        match self {
            Self::RootCaConfigMap => "the ConfigMap kube-root-ca.crt of every namespace",
            Self::DefaultServiceAccount => {
                "the ServiceAccount default, when it carries nothing of its own"
            }
            Self::ServiceAccountToken => "Secrets of type kubernetes.io/service-account-token",
            Self::HelmRelease => "Secrets of type helm.sh/release.v1",
            Self::BootstrapRbac => {
                "RBAC objects labelled kubernetes.io/bootstrapping=rbac-defaults"
            }
            Self::AutomaticApiService => "APIServices that the API server keeps by itself",
            Self::KubernetesService => "the Service kubernetes in the namespace default",
            Self::ControlledObject => {
                "objects that another object controls, such as the ReplicaSets of a Deployment"
            }
            Self::IgnoreLabel => "objects labelled configbutler.ai/ignore=true",
            Self::StatusConfigMap => {
                "the ConfigMaps cluster-autoscaler-status, istio-ca-root-cert and *-leader-election"
            }
        }
    }

    /// The rule of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.name() == name)
    }

    /// What `--help` says about the flag, with every name that it takes.
    #[must_use]
    pub fn flag_help() -> String {
        let mut help = String::from(
            "A rule by which objects that no person wrote are left out, to be turned off; can be \
             given several times or with commas; left out, all of them apply:",
        );
        for rule in Self::ALL {
            let _infallible = write!(help, "\n- {}: {}", rule.name(), rule.leaves_out());
        }
        help
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_to_its_rule() {
        for rule in NoiseRule::ALL {
            assert_eq!(NoiseRule::named(rule.name()), Some(rule));
            assert!(NoiseRule::flag_help().contains(rule.name()));
        }
        assert_eq!(NoiseRule::named("everything"), None);
    }
}
