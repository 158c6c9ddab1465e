//! Which object it is.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A type of objects as the API serves it: group, version and plural name. Cheap to clone: each of
/// its objects is asked about by it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(
    into = "(String, String, String)",
    try_from = "(String, String, String)"
)]
pub struct TypeKey(Arc<TypeNames>);

#[derive(PartialEq, Eq, Hash, PartialOrd, Ord)]
struct TypeNames {
    group: String,
    version: String,
    resource: String,
}

/// One object: its type, its namespace if it has one, and its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    type_key: TypeKey,
    namespace: Option<String>,
    name: String,
}

/// Why something is not the identity of an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not a DNS name such as `apps` or `networking.k8s.io`.
    #[error("{0:?} is not an API group: write a DNS name such as `apps`, or nothing for core")]
    Group(String),
    /// Not a DNS label such as `v1beta1`.
    #[error("{0:?} is not an API version: write one such as `v1`")]
    Version(String),
    /// Not a DNS label such as `deployments`.
    #[error("{0:?} is not a resource: write the lower-case plural such as `deployments`")]
    Resource(String),
    /// Not a DNS label.
    #[error("{0:?} is not the name of a namespace")]
    Namespace(String),
    /// Empty.
    #[error("the object has no name")]
    Name,
}

impl TypeKey {
    /// The core group is the empty one.
    pub fn new(
        group: impl Into<String>,
        version: impl Into<String>,
        resource: impl Into<String>,
    ) -> Result<Self, KeyError> {
        let (group, version, resource) = (group.into(), version.into(), resource.into());
        if !group.is_empty() && !is_dns_name(&group) {
            return Err(KeyError::Group(group));
        }
        if !is_dns_label(&version) {
            return Err(KeyError::Version(version));
        }
        if !is_dns_label(&resource) {
            return Err(KeyError::Resource(resource));
        }
        Ok(Self(Arc::new(TypeNames {
            group,
            version,
            resource,
        })))
    }

    /// The API group; empty for core.
    #[must_use]
    pub fn group(&self) -> &str {
        &self.0.group
    }

    /// The API version.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.0.version
    }

    /// Whether it is the same resource in another version: both show the same objects.
    #[must_use]
    pub fn is_other_version_of(&self, other: &Self) -> bool {
        self.resource() == other.resource()
            && self.group() == other.group()
            && self.version() != other.version()
    }

    /// The plural name.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.0.resource
    }
}

impl From<TypeKey> for (String, String, String) {
    fn from(key: TypeKey) -> Self {
        let TypeNames {
            group,
            version,
            resource,
        } = &*key.0;
        (group.clone(), version.clone(), resource.clone())
    }
}

impl TryFrom<(String, String, String)> for TypeKey {
    type Error = KeyError;

    fn try_from((group, version, resource): (String, String, String)) -> Result<Self, KeyError> {
        Self::new(group, version, resource)
    }
}

impl ObjectKey {
    /// A name may be anything but empty: RBAC allows nearly everything.
    pub fn new(
        type_key: TypeKey,
        namespace: Option<String>,
        name: impl Into<String>,
    ) -> Result<Self, KeyError> {
        if let Some(namespace) = namespace
            .as_ref()
            .filter(|namespace| !is_dns_label(namespace))
        {
            return Err(KeyError::Namespace(namespace.clone()));
        }
        let name = name.into();
        if name.is_empty() {
            return Err(KeyError::Name);
        }
        Ok(Self {
            type_key,
            namespace,
            name,
        })
    }

    /// The type.
    #[must_use]
    pub fn type_key(&self) -> &TypeKey {
        &self.type_key
    }

    /// The namespace, unless the type has none.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for TypeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TypeNames {
            group,
            version,
            resource,
        } = &*self.0;
        if group.is_empty() {
            write!(f, "{version}/{resource}")
        } else {
            write!(f, "{group}/{version}/{resource}")
        }
    }
}

impl fmt::Debug for TypeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TypeKey({self})")
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.type_key)?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}

fn is_dns_label(text: &str) -> bool {
    text.len() <= 63
        && !text.starts_with('-')
        && !text.ends_with('-')
        && !text.is_empty()
        && text
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

fn is_dns_name(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_label)
}

/// The plural that a kind most likely has, when no server is there to tell. Right for every built-in
/// kind and for most custom ones.
#[must_use]
pub fn guess_resource(kind: &str) -> String {
    let kind = kind.to_ascii_lowercase();
    if kind == "endpoints" {
        return kind;
    }
    match kind.as_bytes() {
        [.., b's'] => kind + "es",
        [.., b'a' | b'e' | b'o' | b'u', b'y'] => kind + "s",
        [.., b'y'] => kind[..kind.len() - 1].to_owned() + "ies",
        _ => kind + "s",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_identity_is_refused_with_what_to_write() {
        let type_key = |group, version, resource| TypeKey::new(group, version, resource);
        assert!(type_key("", "v1", "pods").is_ok());
        assert!(type_key("networking.k8s.io", "v1", "ingresses").is_ok());
        assert_eq!(
            type_key("A", "v1", "pods"),
            Err(KeyError::Group("A".into()))
        );
        assert_eq!(
            type_key("a/b", "v1", "pods"),
            Err(KeyError::Group("a/b".into()))
        );
        assert_eq!(
            type_key("..", "v1", "pods"),
            Err(KeyError::Group("..".into()))
        );
        assert_eq!(
            type_key("", "", "pods"),
            Err(KeyError::Version(String::new()))
        );
        assert_eq!(
            type_key("", "v1", "pods/log"),
            Err(KeyError::Resource("pods/log".into()))
        );
        let pods = type_key("", "v1", "pods").unwrap();
        assert_eq!(ObjectKey::new(pods.clone(), None, ""), Err(KeyError::Name));
        let dots = ObjectKey::new(pods, Some("..".into()), "x");
        assert_eq!(dots, Err(KeyError::Namespace("..".into())));
    }

    #[test]
    fn plurals_are_guessed_as_english_has_them() {
        for (kind, plural) in [
            ("Pod", "pods"),
            ("Ingress", "ingresses"),
            ("Gateway", "gateways"),
            ("NetworkPolicy", "networkpolicies"),
            ("Endpoints", "endpoints"),
            ("StorageClass", "storageclasses"),
        ] {
            assert_eq!(guess_resource(kind), plural);
        }
    }
}
