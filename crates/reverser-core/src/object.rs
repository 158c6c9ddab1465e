//! A live object: a value with an API version, a kind and a name, and who set which field.

mod managers;

use std::borrow::Cow;

pub use self::managers::{Managers, ManagersId};
use crate::json_read::{self, RawJson, ReadError};
use crate::value::{Map, Number, Value};

/// An object as the API gives it, or as a person wrote it.
pub struct Object<'a> {
    pub(crate) root: Map<'a>,
    pub(crate) managed_fields: ManagedFields<'a>,
}

/// `metadata.managedFields`, taken out of the object: unread where it comes from JSON.
pub(crate) enum ManagedFields<'a> {
    Absent,
    Unread(RawJson<'a>),
    Read(Value<'a>),
}

impl ManagedFields<'_> {
    /// Whether anybody wrote through `/scale`; cheap, so that most objects need not be asked more.
    pub(crate) fn mention_scale(&self) -> bool {
        match self {
            Self::Absent => false,
            Self::Unread(raw) => raw.mentions("\"scale\""),
            Self::Read(_) => true,
        }
    }
}

/// API version and kind for the items of a list, which do not carry their own.
#[derive(Clone, Copy, Debug)]
pub struct TypeMeta<'a> {
    /// For instance `apps/v1`.
    pub api_version: &'a str,
    /// For instance `Deployment`.
    pub kind: &'a str,
}

/// Why something is not an object of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// Not readable at all.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A list, a number, a text or nothing.
    #[error("expected an object (a map with apiVersion, kind and metadata)")]
    NotAMap,
    /// A name space that is a number or a word like `y`, written without quotes.
    #[error("`metadata.namespace` is not text: quote it")]
    Namespace,
    /// More than a group and a version.
    #[error("`apiVersion` is neither a version nor a group and a version")]
    ApiVersion,
    /// A field without which it has no identity.
    #[error("`{0}` is missing, or is not text")]
    Missing(&'static str),
}

impl<'a> Object<'a> {
    /// Reads the JSON of one object. A list's items get the type that the list is of.
    pub fn from_json(text: &'a str, item_of: Option<TypeMeta<'a>>) -> Result<Self, ObjectError> {
        let (value, managed_fields) = json_read::read_object(text)?;
        let managed_fields = managed_fields.map_or(ManagedFields::Absent, ManagedFields::Unread);
        Self::new(value, managed_fields, item_of)
    }

    /// An object from a value that was read before.
    pub fn from_value(
        mut value: Value<'a>,
        item_of: Option<TypeMeta<'a>>,
    ) -> Result<Self, ObjectError> {
        let managed_fields = value
            .as_map_mut()
            .and_then(|root| root.map_at_mut(&["metadata"]))
            .and_then(|metadata| metadata.remove("managedFields"))
            .map_or(ManagedFields::Absent, ManagedFields::Read);
        Self::new(value, managed_fields, item_of)
    }

    fn new(
        value: Value<'a>,
        managed_fields: ManagedFields<'a>,
        item_of: Option<TypeMeta<'a>>,
    ) -> Result<Self, ObjectError> {
        let Value::Map(mut root) = value else {
            return Err(ObjectError::NotAMap);
        };
        if let Some(TypeMeta { api_version, kind }) = item_of {
            for (key, text) in [("apiVersion", api_version), ("kind", kind)] {
                if root.get(key).is_none() {
                    root.insert(key, Value::String(Cow::Borrowed(text)));
                }
            }
        }
        for key in ["apiVersion", "kind"] {
            if root.text(key).is_none_or(str::is_empty) {
                return Err(ObjectError::Missing(key));
            }
        }
        if root
            .at(&["metadata", "name"])
            .and_then(Value::as_str)
            .is_none_or(str::is_empty)
        {
            return Err(ObjectError::Missing("metadata.name"));
        }
        if !matches!(
            root.at(&["metadata", "namespace"]),
            None | Some(Value::Null | Value::String(_))
        ) {
            return Err(ObjectError::Namespace);
        }
        if root
            .text("apiVersion")
            .is_some_and(|version| version.matches('/').nth(1).is_some())
        {
            return Err(ObjectError::ApiVersion);
        }
        Ok(Self {
            root,
            managed_fields,
        })
    }

    /// For instance `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> &str {
        self.root.text("apiVersion").unwrap_or_default()
    }

    /// The API group; empty for core.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version()
            .split_once('/')
            .map_or("", |(group, _)| group)
    }

    /// The API version without its group.
    #[must_use]
    pub fn version(&self) -> &str {
        self.api_version().rsplit('/').next().unwrap_or_default()
    }

    /// For instance `Deployment`.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.root.text("kind").unwrap_or_default()
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata("name").unwrap_or_default()
    }

    /// The namespace, if it is in one.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.metadata("namespace")
            .filter(|namespace| !namespace.is_empty())
    }

    /// The id that no other object ever has.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.metadata("uid").unwrap_or_default()
    }

    /// The version that the server gave it last.
    #[must_use]
    pub fn resource_version(&self) -> &str {
        self.metadata("resourceVersion").unwrap_or_default()
    }

    /// The labels, as pairs; none if it has none.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let labels = self
            .root
            .at(&["metadata", "labels"])
            .and_then(Value::as_map);
        labels
            .into_iter()
            .flat_map(Map::iter)
            .filter_map(|(key, value)| Some((key, value.as_str()?)))
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.root.at(&["metadata", "labels", key])?.as_str()
    }

    /// Whether another object controls it, and would make it again.
    #[must_use]
    pub fn is_controlled(&self) -> bool {
        let owners = self
            .root
            .at(&["metadata", "ownerReferences"])
            .and_then(Value::as_list);
        let is_controller = |owner: &Value<'_>| {
            owner.as_map().and_then(|owner| owner.get("controller")) == Some(&Value::Bool(true))
        };
        owners.into_iter().flatten().any(is_controller)
    }

    /// Whether somebody has asked for it to be deleted.
    #[must_use]
    pub fn is_being_deleted(&self) -> bool {
        self.metadata("deletionTimestamp").is_some()
    }

    /// The uids of the objects that own it.
    pub fn owner_uids(&self) -> impl Iterator<Item = &str> {
        let owners = self
            .root
            .at(&["metadata", "ownerReferences"])
            .and_then(Value::as_list);
        let owners = owners.into_iter().flatten();
        owners.filter_map(|owner| owner.as_map()?.text("uid"))
    }

    /// How many replicas it asks for, if it has any such number.
    #[must_use]
    pub fn replicas(&self) -> Option<i64> {
        replicas_in(&self.root)
    }

    fn metadata(&self, key: &str) -> Option<&str> {
        self.root.at(&["metadata", key])?.as_str()
    }
}

pub(crate) fn replicas_in(root: &Map<'_>) -> Option<i64> {
    match root.at(&["spec", "replicas"]) {
        Some(Value::Number(Number::Int(replicas))) => Some(*replicas),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_a_list_get_the_type_of_the_list() {
        let item_of = Some(TypeMeta {
            api_version: "apps/v1",
            kind: "Deployment",
        });
        let text = r#"{"metadata":{"name":"web","namespace":"shop"}}"#;
        let object = Object::from_json(text, item_of).unwrap();
        assert_eq!(
            (object.group(), object.version(), object.kind()),
            ("apps", "v1", "Deployment")
        );
        assert_eq!((object.namespace(), object.name()), (Some("shop"), "web"));
    }

    #[test]
    fn what_has_no_identity_is_refused() {
        let refuse = |text: &str| Object::from_json(text, None).err().unwrap().to_string();
        assert_eq!(refuse("{}"), "`apiVersion` is missing, or is not text");
        assert_eq!(
            refuse(r#"{"apiVersion":"v1","kind":1}"#),
            "`kind` is missing, or is not text"
        );
        assert_eq!(
            refuse(r#"{"apiVersion":"v1","kind":"A","metadata":{}}"#),
            "`metadata.name` is missing, or is not text"
        );
        let with = |version: &str, namespace: &str| {
            format!(
                r#"{{"apiVersion":"{version}","kind":"A","metadata":{{"name":"x","namespace":{namespace}}}}}"#
            )
        };
        assert!(refuse(&with("v1", "true")).contains("`metadata.namespace` is not text"));
        assert!(refuse(&with("a/b/c", "\"x\"")).contains("`apiVersion` is neither"));
        assert!(refuse("[]").contains("expected an object"));
        assert!(matches!(
            Object::from_value(Value::Null, None).err(),
            Some(ObjectError::NotAMap)
        ));
    }
}
