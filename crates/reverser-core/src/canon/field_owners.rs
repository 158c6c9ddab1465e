//! Who set which field, as `metadata.managedFields` tells it.
//!
//! What the API server chooses by itself (a cluster IP, a node port) belongs to nobody there, which
//! is how it can be told from what a person wrote.

use crate::json_read;
use crate::object::ManagedFields;
use crate::value::{Map, Value};

/// The managers of an object's fields.
#[derive(Default)]
pub(super) struct FieldOwners<'a>(Vec<Value<'a>>);

/// One manager's share: what it set, and how.
#[derive(Clone, Copy)]
pub(super) struct Owner<'o, 'a> {
    entry: &'o Map<'a>,
}

impl<'a> FieldOwners<'a> {
    /// Reads what is there. What cannot be read counts as absent: then nobody is known to have
    /// set anything.
    pub(super) fn read(managed_fields: &ManagedFields<'a>) -> Self {
        let value = match managed_fields {
            ManagedFields::Absent => None,
            ManagedFields::Unread(raw) => raw.read().ok(),
            ManagedFields::Read(value) => Some(value.clone()),
        };
        match value {
            Some(Value::List(entries)) => Self(entries),
            _ => Self::default(),
        }
    }

    /// Each manager's share.
    pub(super) fn iter(&self) -> impl Iterator<Item = Owner<'_, 'a>> {
        self.0
            .iter()
            .filter_map(Value::as_map)
            .map(|entry| Owner { entry })
    }

    /// Whether anybody set the field at the end of this path of field names.
    pub(super) fn any_set(&self, path: &[&str]) -> bool {
        self.iter().any(|owner| owner.fields(path).is_some())
    }
}

impl<'o, 'a> Owner<'o, 'a> {
    /// The name that the client gave itself, for instance `kubectl-edit`.
    pub(super) fn manager(self) -> &'o str {
        self.entry.text("manager").unwrap_or_default()
    }

    /// Whether nobody would take it for a person: its name says what it is. An unknown name counts as
    /// a person's tool, so that nothing that a person meant is lost.
    pub(super) fn is_controller(self) -> bool {
        const WORDS: [&str; 7] = [
            "autoscaler",
            "cert-manager",
            "certgen",
            "controller",
            "injector",
            "keda",
            "operator",
        ];
        let manager = self.manager();
        !manager.starts_with("kubectl") && WORDS.iter().any(|word| manager.contains(word))
    }

    /// The subresource through which it wrote, for instance `scale`.
    pub(super) fn subresource(self) -> &'o str {
        self.entry.text("subresource").unwrap_or_default()
    }

    /// What it set below a path of field names; nothing if it set nothing there.
    pub(super) fn fields(self, path: &[&str]) -> Option<&'o Map<'a>> {
        let fields = self.entry.get("fieldsV1")?.as_map()?;
        path.iter().try_fold(fields, |fields, name| {
            fields
                .iter()
                .find_map(|(key, value)| match key.strip_prefix("f:") {
                    Some(field) if field == *name => value.as_map(),
                    _ => None,
                })
        })
    }

    /// What it set in the item of a list whose keys have these values, for instance the port 80
    /// of the protocol TCP.
    pub(super) fn item(
        self,
        list: &[&str],
        is_key: impl Fn(&Map<'_>) -> bool,
    ) -> Option<&'o Map<'a>> {
        self.fields(list)?.iter().find_map(|(key, value)| {
            let item = json_read::read(key.strip_prefix("k:")?).ok()?;
            is_key(item.as_map()?).then(|| value.as_map()).flatten()
        })
    }
}
