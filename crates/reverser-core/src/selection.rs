//! Which types a rule means, and which of their objects.

use std::collections::BTreeSet;

use crate::catalogue::{Catalogue, ServedType};
use crate::labels::LabelSelector;
use crate::noise::Noise;
use crate::object_key::TypeKey;
use crate::plan::Operations;

/// One entry of a rule: types, where their objects live, and which changes are followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulePart {
    /// Which changes are followed.
    pub operations: Operations,
    /// The API groups; the empty text is core.
    pub groups: Names,
    /// The API versions; all of them means the preferred one.
    pub versions: Names,
    /// The resources; none means the preset, whatever the operator's flags say.
    pub resources: Vec<ResourceName>,
    /// Whether objects that another object controls are included.
    pub include_owned: bool,
    /// Where the objects live.
    pub reach: Reach,
}

/// Some names, or all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Names {
    /// Every name.
    All,
    /// These.
    These(BTreeSet<String>),
}

/// What a rule writes under `resources`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceName {
    /// `*`
    Every,
    /// `deployments` or `deployments.apps`
    Named {
        /// The plural name.
        resource: String,
        /// The group, if it is written.
        group: Option<String>,
    },
    /// `deployments/scale`: cannot be watched.
    Subresource(String),
}

/// Where the objects of a rule live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// In this namespace.
    Namespace(String),
    /// In the namespaces with such labels.
    Namespaces(LabelSelector),
    /// In no namespace.
    Cluster,
}

impl Reach {
    /// Whether objects of that namespace, or of none, may be within reach; which namespaces have such
    /// labels changes.
    #[must_use]
    pub fn may_be(&self, namespace: Option<&str>) -> bool {
        match self {
            Self::Namespace(name) => namespace == Some(name),
            Self::Namespaces(_) => namespace.is_some(),
            Self::Cluster => namespace.is_none(),
        }
    }
}

/// Types that are left out unless a rule names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exclusions(Vec<ResourceName>);

/// What a part means on this cluster.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use = "some of what the rule names may mean nothing here"]
pub struct PartTypes {
    /// The types, each once.
    pub types: Vec<SelectedType>,
    /// Names that the cluster does not serve.
    pub unserved: Vec<String>,
    /// Names that live elsewhere than the rule reaches: in no namespace, or in one.
    pub out_of_reach: Vec<String>,
    /// Names of subresources.
    pub subresources: Vec<String>,
}

/// A type that a part selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectedType {
    /// The type.
    pub served: ServedType,
    /// Whether the rule names it and it would be left out otherwise: then owned objects count too.
    pub named_although_excluded: bool,
}

/// What selection asks of an object.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'f> {
    /// The namespace, if it is in one.
    pub namespace: Option<&'f str>,
    /// Whether no person wrote it.
    pub noise: Noise,
}

/// What people write by hand: (group, resource).
const PRESET: &[(&str, &str)] = &[
    ("", "configmaps"),
    ("", "limitranges"),
    ("", "resourcequotas"),
    ("", "secrets"),
    ("", "serviceaccounts"),
    ("", "services"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("apiregistration.k8s.io", "apiservices"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "statefulsets"),
    ("networking.k8s.io", "ingresses"),
    ("networking.k8s.io", "networkpolicies"),
    ("policy", "poddisruptionbudgets"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "rolebindings"),
    ("rbac.authorization.k8s.io", "roles"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("storage.k8s.io", "storageclasses"),
];

/// What a rule that names no resources selects: group and resource of each type.
pub fn preset() -> impl Iterator<Item = (&'static str, &'static str)> {
    PRESET.iter().copied()
}

/// What holds no desired state, or too much of somebody else's.
const EXCLUDED: &[(&str, &str)] = &[
    ("", "pods"),
    ("", "events"),
    ("events.k8s.io", "events"),
    ("coordination.k8s.io", "leases"),
    ("", "endpoints"),
    ("discovery.k8s.io", "endpointslices"),
    ("apps", "controllerrevisions"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    (
        "flowcontrol.apiserver.k8s.io",
        "prioritylevelconfigurations",
    ),
    ("batch", "jobs"),
    ("batch", "cronjobs"),
    ("apps", "replicasets"),
];

/// Our own kinds: mirrored only if a rule names them.
const OWN_GROUP: &str = "configbutler.ai";

impl Names {
    /// Reads a list in which nothing and `*` mean all.
    #[must_use]
    pub fn from_list(list: &[String]) -> Self {
        if list.is_empty() || list.iter().any(|name| name == "*") {
            Self::All
        } else {
            Self::These(list.iter().cloned().collect())
        }
    }

    fn contains(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(names) => names.contains(name),
        }
    }
}

impl ResourceName {
    /// Reads one entry.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        if text == "*" {
            return Self::Every;
        }
        if text.contains('/') {
            return Self::Subresource(text.to_owned());
        }
        let (resource, group) = match text.split_once('.') {
            Some((resource, group)) => (resource, Some(group.to_owned())),
            None => (text, None),
        };
        Self::Named {
            resource: resource.to_owned(),
            group,
        }
    }

    fn means(&self, group: &str, resource: &str) -> bool {
        match self {
            Self::Every => true,
            Self::Named {
                resource: named,
                group: of,
            } => named == resource && of.as_ref().is_none_or(|of| of == group),
            Self::Subresource(_) => false,
        }
    }
}

impl Exclusions {
    /// The default list, unless it is switched off, and more.
    #[must_use]
    pub fn new(with_default: bool, more: &[String]) -> Self {
        let default = EXCLUDED
            .iter()
            .filter(|_| with_default)
            .map(|(group, resource)| ResourceName::Named {
                resource: (*resource).to_owned(),
                group: Some((*group).to_owned()),
            });
        let more = more.iter().map(|name| ResourceName::parse(name));
        Self(default.chain(more).collect())
    }

    fn contain(&self, served: &ServedType) -> bool {
        let (group, resource) = (served.key.group(), served.key.resource());
        group == OWN_GROUP || self.name(group, resource)
    }

    fn name(&self, group: &str, resource: &str) -> bool {
        self.0.iter().any(|name| name.means(group, resource))
    }
}

impl Reach {
    /// Whether objects of such a type may be within reach at all.
    #[must_use]
    pub fn admits(&self, served: &ServedType) -> bool {
        served.namespaced != matches!(self, Self::Cluster)
    }
}

impl RulePart {
    /// What this part means on a cluster that serves these types.
    pub fn types(&self, catalogue: &Catalogue, exclusions: &Exclusions) -> PartTypes {
        let mut found = PartTypes::default();
        if self.resources.is_empty() {
            for (group, resource) in preset() {
                if self.groups.contains(group) && !exclusions.name(group, resource) {
                    self.add_versions(&mut found, catalogue, group, resource, false);
                }
            }
            return found;
        }
        for name in &self.resources {
            match name {
                ResourceName::Subresource(name) => found.subresources.push(name.clone()),
                ResourceName::Every => {
                    for served in self
                        .in_groups(catalogue)
                        .filter(|served| !exclusions.contain(served))
                    {
                        let (group, resource) = (served.key.group(), served.key.resource());
                        self.add_versions(&mut found, catalogue, group, resource, false);
                    }
                }
                ResourceName::Named { resource, group } => {
                    let written = match group {
                        Some(group) => format!("{resource}.{group}"),
                        None => resource.clone(),
                    };
                    self.add_named(&mut found, catalogue, exclusions, name, written);
                }
            }
        }
        found
    }

    /// Whether the part means a type by its group and name, served or not.
    #[must_use]
    pub fn names(&self, type_key: &TypeKey) -> bool {
        let (group, resource) = (type_key.group(), type_key.resource());
        let meant = if self.resources.is_empty() {
            PRESET.contains(&(group, resource))
        } else {
            self.resources
                .iter()
                .any(|name| name.means(group, resource))
        };
        meant && self.groups.contains(group)
    }

    fn in_groups<'c>(&'c self, catalogue: &'c Catalogue) -> impl Iterator<Item = &'c ServedType> {
        catalogue
            .iter()
            .filter(|served| self.groups.contains(served.key.group()))
    }

    fn add_named(
        &self,
        found: &mut PartTypes,
        catalogue: &Catalogue,
        exclusions: &Exclusions,
        name: &ResourceName,
        written: String,
    ) {
        let meant: Vec<&ServedType> = self
            .in_groups(catalogue)
            .filter(|served| name.means(served.key.group(), served.key.resource()))
            .collect();
        if meant.is_empty() {
            found.unserved.push(written);
        } else if !meant.iter().any(|served| self.reach.admits(served)) {
            found.out_of_reach.push(written);
        } else {
            let before = found.types.len();
            for served in meant {
                let (group, resource) = (served.key.group(), served.key.resource());
                let excluded = exclusions.contain(served);
                self.add_versions(found, catalogue, group, resource, excluded);
            }
            if found.types.len() == before
                && let Names::These(versions) = &self.versions
                && !self.is_selected(found, name)
            {
                let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
                found
                    .unserved
                    .push(format!("{written} in {}", versions.join(", ")));
            }
        }
    }

    /// Whether an entry before has selected what this one names.
    fn is_selected(&self, found: &PartTypes, name: &ResourceName) -> bool {
        found.types.iter().any(|selected| {
            let (group, resource) = (selected.served.key.group(), selected.served.key.resource());
            name.means(group, resource) && self.groups.contains(group)
        })
    }

    /// Adds the versions of a resource that the part means: the preferred one, or those it names.
    fn add_versions(
        &self,
        found: &mut PartTypes,
        catalogue: &Catalogue,
        group: &str,
        resource: &str,
        named_although_excluded: bool,
    ) {
        let versions: Vec<&ServedType> = match &self.versions {
            Names::All => catalogue.preferred(group, resource).into_iter().collect(),
            Names::These(names) => catalogue
                .versions_of(group, resource)
                .iter()
                .filter(|served| names.contains(served.key.version()))
                .collect(),
        };
        for served in versions
            .into_iter()
            .filter(|served| self.reach.admits(served))
        {
            if !found
                .types
                .iter()
                .any(|known| known.served.key == served.key)
            {
                let served = served.clone();
                found.types.push(SelectedType {
                    served,
                    named_although_excluded,
                });
            }
        }
    }

    /// Whether an object of a type of this part is selected, apart from its labels.
    pub fn selects<'l>(
        &self,
        facts: Facts<'_>,
        named_although_excluded: bool,
        namespace_label: impl Fn(&str) -> Option<&'l str>,
    ) -> bool {
        let owned_counts = self.include_owned || named_although_excluded;
        let noise = match facts.noise {
            Noise::No => false,
            Noise::UnlessOwnedAreIncluded => !owned_counts,
            Noise::Always => true,
        };
        let reached = match &self.reach {
            Reach::Cluster => facts.namespace.is_none(),
            Reach::Namespace(namespace) => facts.namespace == Some(namespace),
            Reach::Namespaces(selector) => {
                facts.namespace.is_some() && selector.selects(namespace_label)
            }
        };
        reached && !noise
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue() -> Catalogue {
        let served =
            |group: &str, version: &str, resource: &str, namespaced, preferred| ServedType {
                key: TypeKey::new(group, version, resource).unwrap(),
                kind: "Kind".into(),
                namespaced,
                preferred,
                scale: false,
            };
        Catalogue::from_types(vec![
            served("", "v1", "configmaps", true, true),
            served("", "v1", "pods", true, true),
            served("", "v1", "namespaces", false, true),
            served("apps", "v1", "deployments", true, true),
            served("apps", "v1", "replicasets", true, true),
            served(
                "rbac.authorization.k8s.io",
                "v1",
                "clusterroles",
                false,
                true,
            ),
            served("shop.example.com", "v2", "orders", true, true),
            served("shop.example.com", "v1", "orders", true, false),
            served("configbutler.ai", "v1alpha1", "watchrules", true, true),
        ])
    }

    fn part(resources: &[&str], reach: Reach) -> RulePart {
        RulePart {
            operations: Operations {
                create: true,
                update: true,
                delete: true,
            },
            groups: Names::All,
            versions: Names::All,
            resources: resources
                .iter()
                .map(|name| ResourceName::parse(name))
                .collect(),
            include_owned: false,
            reach,
        }
    }

    fn in_shop(resources: &[&str]) -> RulePart {
        part(resources, Reach::Namespace("shop".into()))
    }

    fn types(part: &RulePart) -> Vec<String> {
        let found = part.types(&catalogue(), &Exclusions::new(true, &[]));
        found
            .types
            .iter()
            .map(|selected| selected.served.key.to_string())
            .collect()
    }

    #[test]
    fn a_type_of_the_preset_can_be_excluded_and_named_nevertheless() {
        let exclusions = Exclusions::new(true, &["configmaps".into()]);
        let found = |resources: &[&str]| {
            let types = in_shop(resources).types(&catalogue(), &exclusions).types;
            let mut keys = types.iter().map(|selected| selected.served.key.resource());
            keys.any(|resource| resource == "configmaps")
        };
        assert!(!found(&[]));
        assert!(found(&["configmaps"]));
    }

    #[test]
    fn without_resources_the_preset_is_meant() {
        assert_eq!(
            types(&in_shop(&[])),
            ["v1/configmaps", "apps/v1/deployments"]
        );
        let cluster = part(&[], Reach::Cluster);
        assert_eq!(
            types(&cluster),
            ["rbac.authorization.k8s.io/v1/clusterroles"]
        );
        let mut apps = in_shop(&[]);
        apps.groups = Names::from_list(&["apps".into()]);
        assert_eq!(types(&apps), ["apps/v1/deployments"]);
    }

    #[test]
    fn a_star_means_everything_but_the_exclusions() {
        let all = [
            "v1/configmaps",
            "apps/v1/deployments",
            "shop.example.com/v2/orders",
        ];
        assert_eq!(types(&in_shop(&["*"])), all);
        let none = Exclusions::new(false, &["orders.shop.example.com".into()]);
        let found = in_shop(&["*"]).types(&catalogue(), &none);
        let keys: Vec<_> = found
            .types
            .iter()
            .map(|t| t.served.key.to_string())
            .collect();
        assert_eq!(
            keys,
            [
                "v1/configmaps",
                "v1/pods",
                "apps/v1/deployments",
                "apps/v1/replicasets"
            ]
        );
    }

    #[test]
    fn a_named_type_is_had_although_it_is_excluded_with_its_owned_objects() {
        let found = in_shop(&["pods", "watchrules", "configmaps"])
            .types(&catalogue(), &Exclusions::new(true, &[]));
        let named: Vec<_> = found
            .types
            .iter()
            .map(|selected| {
                (
                    selected.served.key.resource(),
                    selected.named_although_excluded,
                )
            })
            .collect();
        assert_eq!(
            named,
            [("pods", true), ("watchrules", true), ("configmaps", false)]
        );
    }

    #[test]
    fn versions_are_the_preferred_one_or_those_that_are_named() {
        assert_eq!(types(&in_shop(&["orders"])), ["shop.example.com/v2/orders"]);
        let mut v1 = in_shop(&["orders.shop.example.com"]);
        v1.versions = Names::from_list(&["v1".into()]);
        assert_eq!(types(&v1), ["shop.example.com/v1/orders"]);
    }

    #[test]
    fn a_version_that_is_not_served_is_told() {
        let mut beta = in_shop(&["configmaps"]);
        beta.versions = Names::from_list(&["v1beta1".into()]);
        let found = beta.types(&catalogue(), &Exclusions::new(true, &[]));
        assert_eq!(
            (found.types.len(), found.unserved),
            (0, vec!["configmaps in v1beta1".into()])
        );
    }

    #[test]
    fn only_kubernetes_own_types_are_excluded_by_default() {
        let exclusions = Exclusions::new(true, &[]);
        let served = |group: &str, resource: &str| ServedType {
            key: TypeKey::new(group, "v1", resource).unwrap(),
            kind: "Kind".into(),
            namespaced: true,
            preferred: true,
            scale: false,
        };
        assert!(exclusions.contain(&served("batch", "jobs")));
        assert!(!exclusions.contain(&served("batch.volcano.sh", "jobs")));
    }

    #[test]
    fn what_means_nothing_here_is_told() {
        let found = in_shop(&["nonsense", "orders.other.com", "clusterroles", "pods/log"])
            .types(&catalogue(), &Exclusions::new(true, &[]));
        assert_eq!(found.types, []);
        assert_eq!(found.unserved, ["nonsense", "orders.other.com"]);
        assert_eq!(found.out_of_reach, ["clusterroles"]);
        assert_eq!(found.subresources, ["pods/log"]);
    }

    #[test]
    fn objects_are_selected_by_place_and_noise() {
        let facts = |namespace, noise| Facts { namespace, noise };
        let nothing = |_: &str| None;
        let shop = in_shop(&[]);
        assert!(shop.selects(facts(Some("shop"), Noise::No), false, nothing));
        assert!(!shop.selects(facts(Some("other"), Noise::No), false, nothing));
        assert!(!shop.selects(facts(Some("shop"), Noise::Always), true, nothing));
        let owned = facts(Some("shop"), Noise::UnlessOwnedAreIncluded);
        assert!(!shop.selects(owned, false, nothing));
        assert!(shop.selects(owned, true, nothing));
        assert!(
            RulePart {
                include_owned: true,
                ..shop
            }
            .selects(owned, false, nothing)
        );
        let selector = crate::labels::Requirement::parse("team", "In", &["a".into()]).unwrap();
        let teams = part(
            &[],
            Reach::Namespaces(LabelSelector::all_of(vec![selector])),
        );
        let team = |name: &'static str| move |_: &str| Some(name);
        assert!(teams.selects(facts(Some("x"), Noise::No), false, team("a")));
        assert!(!teams.selects(facts(Some("x"), Noise::No), false, team("b")));
        assert!(!teams.selects(facts(None, Noise::No), false, team("a")));
    }
}
