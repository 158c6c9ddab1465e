use std::fmt::{self, Write as _};
use std::hash::{Hash, Hasher};

use reverser_core::object_key::TypeKey;
use reverser_core::scope::ScopeKey;

/// One type, in all namespaces or in one.
///
/// Two scopes are the same if type and namespace are: the kind only goes with the type.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The type.
    pub type_key: TypeKey,
    /// Its kind, for items that do not carry their own.
    pub kind: String,
    /// The namespace; `None` for all of them, and for types that have none.
    pub namespace: Option<String>,
}

impl Scope {
    /// For instance `apps/v1`, for items that do not carry their own.
    #[must_use]
    pub fn api_version(&self) -> String {
        match (self.type_key.group(), self.type_key.version()) {
            ("", version) => version.to_owned(),
            (group, version) => format!("{group}/{version}"),
        }
    }

    /// Where its objects are listed and watched.
    pub(super) fn path(&self) -> String {
        let (root, resource) = match self.type_key.group() {
            "" => ("api", self.type_key.resource()),
            _ => ("apis", self.type_key.resource()),
        };
        let version = self.api_version();
        match &self.namespace {
            None => format!("/{root}/{version}/{resource}"),
            Some(namespace) => {
                let namespace = encode(namespace);
                format!("/{root}/{version}/namespaces/{namespace}/{resource}")
            }
        }
    }
}

impl From<&Scope> for ScopeKey {
    fn from(scope: &Scope) -> Self {
        Self {
            type_key: scope.type_key.clone(),
            namespace: scope.namespace.clone(),
        }
    }
}

/// Text as a part of a URL.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            // Also dots: a namespace called `..` must not climb.
            _ => write!(encoded, "%{byte:02X}").expect("a String takes everything"),
        }
    }
    encoded
}

impl PartialEq for Scope {
    fn eq(&self, other: &Self) -> bool {
        self.type_key == other.type_key && self.namespace == other.namespace
    }
}

impl Eq for Scope {}

impl Hash for Scope {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.type_key.hash(state);
        self.namespace.hash(state);
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            None => write!(f, "{}", self.type_key),
            Some(namespace) => write!(f, "{} in {namespace}", self.type_key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(group: &str, resource: &str, namespace: Option<&str>) -> Scope {
        Scope {
            type_key: TypeKey::new(group, "v1", resource).unwrap(),
            kind: String::new(),
            namespace: namespace.map(str::to_owned),
        }
    }

    #[test]
    fn every_scope_has_its_path() {
        for (scope, path) in [
            (scope("", "pods", None), "/api/v1/pods"),
            (scope("", "pods", Some("a")), "/api/v1/namespaces/a/pods"),
            (
                scope("apps", "deployments", None),
                "/apis/apps/v1/deployments",
            ),
            (
                scope("apps", "deployments", Some("a")),
                "/apis/apps/v1/namespaces/a/deployments",
            ),
            (
                scope("", "pods", Some("../x?y")),
                "/api/v1/namespaces/%2E%2E%2Fx%3Fy/pods",
            ),
        ] {
            assert_eq!(scope.path(), path);
        }
    }

    #[test]
    fn the_kind_does_not_tell_scopes_apart() {
        let one = scope("", "pods", None);
        let mut other = one.clone();
        other.kind = "Pod".to_owned();
        assert_eq!(one, other);
        assert_ne!(one, scope("", "pods", Some("a")));
    }
}
