//! Which types nobody defines any more.
//!
//! That a type is not served proves nothing about its objects: a server that just started, or one
//! whose aggregated API is down, does not serve it either. That its definition is gone does: the
//! API server deletes all objects before it lets the definition go.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::object_key::TypeKey;
use crate::selection::RulePart;

/// Our own kinds vanish when the product is removed, which must never empty Git.
const OWN_GROUP: &str = "configbutler.ai";

/// Everything that defines types, from complete lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definitions {
    /// What CustomResourceDefinitions define, and what is served anyway: (group, resource).
    pub resources: BTreeSet<(String, String)>,
    /// Groups whose types no CustomResourceDefinition defines: built in, or of another server.
    pub other_groups: BTreeSet<String>,
}

impl Definitions {
    /// Whether nothing defines this type.
    #[must_use]
    pub fn lack(&self, type_key: &TypeKey) -> bool {
        let (group, resource) = (type_key.group(), type_key.resource());
        // Core and the other built-in groups without a dot are never defined by anybody.
        group.contains('.')
            && group != OWN_GROUP
            && !self.other_groups.contains(group)
            && !self
                .resources
                .contains(&(group.to_owned(), resource.to_owned()))
    }
}

/// Types of a destination that are gone, with all their objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GoneTypes {
    /// What is defined, if that is known.
    definitions: Option<Arc<Definitions>>,
    /// The parts of the destination's rules.
    parts: Vec<RulePart>,
}

impl GoneTypes {
    /// Types that nothing defines any more, as far as these parts mean them.
    #[must_use]
    pub fn new(definitions: Option<Arc<Definitions>>, parts: Vec<RulePart>) -> Self {
        Self { definitions, parts }
    }

    /// Whether this type is gone, and no rule that may reach this namespace keeps its files.
    #[must_use]
    pub fn contain(&self, type_key: &TypeKey, namespace: Option<&str>) -> bool {
        let lacking = self.definitions.as_ref();
        let mut parts = self.parts.iter().filter(|part| part.names(type_key));
        lacking.is_some_and(|definitions| definitions.lack(type_key))
            && parts.clone().any(|part| part.operations.delete)
            && parts.all(|part| part.operations.delete || !part.reach.may_be(namespace))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Operations;
    use crate::selection::{Names, Reach, ResourceName};

    fn orders() -> TypeKey {
        TypeKey::new("shop.example.com", "v1", "orders").unwrap()
    }

    fn gone(definitions: Definitions, resource: &str) -> bool {
        let part = RulePart {
            operations: Operations {
                create: true,
                update: true,
                delete: true,
            },
            groups: Names::All,
            versions: Names::All,
            resources: vec![ResourceName::parse(resource)],
            include_owned: false,
            reach: Reach::Cluster,
        };
        GoneTypes::new(Some(Arc::new(definitions)), vec![part]).contain(&orders(), Some("shop"))
    }

    #[test]
    fn a_type_is_gone_if_nothing_defines_it_and_a_rule_means_it() {
        assert!(gone(Definitions::default(), "orders"));
        assert!(gone(Definitions::default(), "*"));
        assert!(gone(Definitions::default(), "orders.shop.example.com"));
        assert!(!gone(Definitions::default(), "customers"));
        assert!(!GoneTypes::default().contain(&orders(), Some("shop")));
    }

    #[test]
    fn a_type_is_there_while_its_definition_or_another_server_of_its_group_is() {
        let mut defined = Definitions::default();
        defined
            .resources
            .insert(("shop.example.com".into(), "orders".into()));
        assert!(!gone(defined, "orders"));
        let mut elsewhere = Definitions::default();
        elsewhere.other_groups.insert("shop.example.com".into());
        assert!(!gone(elsewhere, "orders"));
    }

    #[test]
    fn built_in_types_and_our_own_never_go() {
        for (group, resource) in [
            ("", "pods"),
            ("apps", "deployments"),
            ("configbutler.ai", "watchrules"),
        ] {
            let type_key = TypeKey::new(group, "v1", resource).unwrap();
            assert!(!Definitions::default().lack(&type_key));
        }
    }
}
