//! What the cluster serves: every type that can be listed and watched.

use crate::object_key::TypeKey;

/// One type of objects that the cluster serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedType {
    /// Group, version and plural name.
    pub key: TypeKey,
    /// For instance `Deployment`.
    pub kind: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Whether its version is the one that the group prefers.
    pub preferred: bool,
    /// Whether its objects can be scaled by themselves, through `/scale`.
    pub scale: bool,
}

/// All types that the cluster serves.
///
/// The versions of one resource stand in the order of the server's preference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalogue {
    /// Sorted by group and resource; versions of the same resource as the server orders them.
    types: Vec<ServedType>,
}

impl Catalogue {
    /// The types as the server names them, the versions of a group in the order of its preference.
    ///
    /// A type that is named twice counts once, as it was named first.
    #[must_use]
    pub fn from_types(mut types: Vec<ServedType>) -> Self {
        // Stable: the versions of one resource keep their order.
        types.sort_by(|a, b| place(&a.key).cmp(&place(&b.key)));
        let mut unique: Vec<ServedType> = Vec::with_capacity(types.len());
        for served in types {
            let known = unique
                .iter()
                .rev()
                .take_while(|known| place(&known.key) == place(&served.key))
                .any(|known| known.key == served.key);
            if !known {
                unique.push(served);
            }
        }
        Self { types: unique }
    }

    /// The type of this key, if it is served.
    #[must_use]
    pub fn get(&self, key: &TypeKey) -> Option<&ServedType> {
        self.versions_of(key.group(), key.resource())
            .iter()
            .find(|served| served.key == *key)
    }

    /// All types, sorted by group and resource.
    pub fn iter(&self) -> impl Iterator<Item = &ServedType> {
        self.types.iter()
    }

    /// The versions in which a resource is served, in the order of the server's preference.
    #[must_use]
    pub fn versions_of(&self, group: &str, resource: &str) -> &[ServedType] {
        let wanted = (group, resource);
        let start = self
            .types
            .partition_point(|served| place(&served.key) < wanted);
        let length = self.types[start..].partition_point(|served| place(&served.key) == wanted);
        &self.types[start..start + length]
    }

    /// The version of a resource to be used: that which the group prefers, or if it does not serve
    /// the resource, the first in the order of preference that does.
    #[must_use]
    pub fn preferred(&self, group: &str, resource: &str) -> Option<&ServedType> {
        let versions = self.versions_of(group, resource);
        versions
            .iter()
            .find(|served| served.preferred)
            .or_else(|| versions.first())
    }

    /// Whether nothing is known at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// How many types there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.types.len()
    }
}

fn place(key: &TypeKey) -> (&str, &str) {
    (key.group(), key.resource())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(group: &str, version: &str, resource: &str, preferred: bool) -> ServedType {
        ServedType {
            key: TypeKey::new(group, version, resource).unwrap(),
            kind: "Kind".to_owned(),
            namespaced: true,
            preferred,
            scale: false,
        }
    }

    fn versions(types: &[ServedType]) -> Vec<&str> {
        types.iter().map(|served| served.key.version()).collect()
    }

    #[test]
    fn the_order_of_versions_is_that_of_the_server() {
        let catalogue = Catalogue::from_types(vec![
            served("b", "v2", "things", true),
            served("", "v1", "things", true),
            served("b", "v10", "things", false),
            served("b", "v1", "things", false),
            served("b", "v1", "thing", false),
        ]);
        assert_eq!(
            versions(catalogue.versions_of("b", "things")),
            ["v2", "v10", "v1"]
        );
        assert_eq!(versions(catalogue.versions_of("b", "thing")), ["v1"]);
        assert!(catalogue.versions_of("b", "thingss").is_empty());
        assert!(catalogue.versions_of("a", "things").is_empty());
        assert_eq!(catalogue.iter().count(), 5);
    }

    #[test]
    fn a_resource_that_the_preferred_version_lacks_comes_in_the_next_one() {
        let catalogue = Catalogue::from_types(vec![
            served("b", "v2", "things", true),
            served("b", "v1", "things", false),
            served("b", "v1beta2", "others", false),
            served("b", "v1beta1", "others", false),
        ]);
        let version = |resource| {
            let preferred = catalogue.preferred("b", resource);
            preferred.map(|served| served.key.version().to_owned())
        };
        assert_eq!(version("things").as_deref(), Some("v2"));
        assert_eq!(version("others").as_deref(), Some("v1beta2"));
        assert_eq!(version("none"), None);
    }

    #[test]
    fn a_type_is_found_by_its_key_and_counts_once() {
        let mut again = served("b", "v1", "things", false);
        again.kind = "Other".to_owned();
        let catalogue = Catalogue::from_types(vec![
            served("b", "v1", "things", false),
            served("b", "v2", "things", false),
            again,
        ]);
        assert_eq!(catalogue.len(), 2);
        let key = TypeKey::new("b", "v1", "things").unwrap();
        assert_eq!(catalogue.get(&key).unwrap().kind, "Kind");
        let unknown = TypeKey::new("b", "v3", "things").unwrap();
        assert_eq!(catalogue.get(&unknown), None);
    }
}
