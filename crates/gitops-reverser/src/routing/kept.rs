//! What refused rules may have written: it stays, and nothing else does because of them.
//!
//! Anybody can write a rule that names somebody else's destination. So a refused rule speaks only for
//! files that it could have written itself, had it ever been let in.

use std::collections::BTreeMap;

use reverser_core::catalogue::ServedType;
use reverser_core::labels::LabelSelector;
use reverser_core::object_key::TypeKey;
use reverser_core::plan::Operations;
use reverser_core::selection::{Names, Reach, ResourceName, RulePart};

use crate::identity::{Id, RuleId};

/// The parts of refused rules, by the destination that they name. None of them lets a file go.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept(BTreeMap<Id, Vec<RulePart>>);

const NOTHING: Operations = Operations {
    create: false,
    update: false,
    delete: false,
};

impl Kept {
    /// A rule with these parts is refused.
    pub(super) fn add(&mut self, destination: &Id, parts: impl IntoIterator<Item = RulePart>) {
        let kept = self.0.entry(destination.clone()).or_default();
        kept.extend(parts.into_iter().map(|part| RulePart {
            operations: NOTHING,
            ..part
        }));
    }

    /// A rule is refused of which nobody can tell what it selects.
    pub(super) fn add_all_of(&mut self, destination: &Id, rule: &RuleId) {
        let part = |reach| RulePart {
            operations: NOTHING,
            groups: Names::All,
            versions: Names::All,
            resources: vec![ResourceName::Every],
            include_owned: true,
            reach,
        };
        let parts = match rule {
            RuleId::Watch(id) => vec![part(Reach::Namespace(id.namespace.clone()))],
            RuleId::Cluster(_) => {
                let everywhere = Reach::Namespaces(LabelSelector::default());
                vec![part(Reach::Cluster), part(everywhere)]
            }
        };
        self.add(destination, parts);
    }

    /// The parts of refused rules that name a destination.
    #[must_use]
    pub fn parts(&self, destination: &Id) -> &[RulePart] {
        self.0.get(destination).map_or(&[], Vec::as_slice)
    }

    /// Those that may have brought objects of a type.
    pub fn parts_of<'k>(
        &'k self,
        destination: &Id,
        served: &'k ServedType,
    ) -> impl Iterator<Item = &'k RulePart> {
        let parts = self.parts(destination).iter();
        parts.filter(|part| part.names(&served.key) && part.reach.admits(served))
    }

    /// Whether one of them may have brought the objects of a type in that namespace, or in none.
    #[must_use]
    pub fn contain(&self, destination: &Id, type_key: &TypeKey, namespace: Option<&str>) -> bool {
        let mut parts = self.parts(destination).iter();
        parts.any(|part| part.names(type_key) && part.reach.may_be(namespace))
    }
}
