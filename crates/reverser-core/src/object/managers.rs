//! Who set fields of an object, and when, as a digest and as a name.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha1::{Digest as _, Sha1};

use super::{ManagedFields, Object};
use crate::blob_id::BlobId;

/// A digest of who set which field and when, without the entries of `/status`.
///
/// The server makes it part of the object before it asks webhooks, and stores it as it is: the same
/// change has the same digest at admission and in the watch, and the same content written by somebody
/// else, with another tool or a second later has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ManagersId(BlobId);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    #[serde(borrow, default)]
    manager: Cow<'a, str>,
    #[serde(borrow, default)]
    operation: Cow<'a, str>,
    #[serde(borrow, default)]
    time: Cow<'a, str>,
    #[serde(borrow, default)]
    subresource: Cow<'a, str>,
    #[serde(borrow, default, rename = "fieldsV1")]
    fields: Option<&'a RawValue>,
}

/// Who set fields of an object.
pub struct Managers<'a>(Vec<Entry<'a>>);

impl Managers<'_> {
    /// The digest of who set which field and when.
    #[must_use]
    pub fn id(&self) -> ManagersId {
        let mut hash = Sha1::new();
        for entry in self.0.iter().filter(|entry| entry.subresource != "status") {
            let fields = entry.fields.map_or("", RawValue::get);
            let Entry {
                manager,
                operation,
                time,
                subresource,
                fields: _,
            } = entry;
            for part in [manager, operation, time, subresource, fields] {
                hash.update(part.len().to_le_bytes());
                hash.update(part);
            }
        }
        ManagersId(BlobId::from_bytes(hash.finalize().into()))
    }

    /// The name that the client gave itself which wrote last, apart from those that report status.
    #[must_use]
    pub fn newest(&self) -> Option<String> {
        // Times are in one format, so that the later is the larger; of equal ones, the last.
        let newest = self
            .0
            .iter()
            .max_by_key(|entry| (entry.subresource != "status", &entry.time))?;
        Some(newest.manager.clone().into_owned()).filter(|name| !name.is_empty())
    }
}

impl Object<'_> {
    /// Who set its fields; nothing where the server does not keep that.
    #[must_use]
    pub fn managers(&self) -> Option<Managers<'_>> {
        match &self.managed_fields {
            ManagedFields::Unread(raw) => serde_json::from_str(raw.text()).ok().map(Managers),
            ManagedFields::Absent | ManagedFields::Read(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(managed_fields: &str) -> String {
        format!(
            r#"{{"apiVersion":"v1","kind":"A","metadata":{{"name":"a","managedFields":{managed_fields}}}}}"#
        )
    }

    fn id(managed_fields: &str) -> Option<ManagersId> {
        let json = object(managed_fields);
        let object = Object::from_json(&json, None).unwrap();
        object.managers().as_ref().map(Managers::id)
    }

    const ALICE: &str = r#"{"manager":"kubectl","operation":"Update","time":"2026-01-01T00:00:01Z","fieldsV1":{"f:data":{}}}"#;
    const STATUS: &str = r#"{"manager":"kcm","operation":"Update","time":"2026-01-01T00:00:09Z","subresource":"status","fieldsV1":{}}"#;

    #[test]
    fn who_wrote_when_and_what_is_told_apart_and_status_is_not() {
        let alice = id(&format!("[{ALICE}]"));
        assert!(alice.is_some());
        assert_eq!(alice, id(&format!("[{ALICE},{STATUS}]")));
        for other in [
            ALICE.replace("kubectl", "kubectl-edit"),
            ALICE.replace(":01Z", ":02Z"),
            ALICE.replace("f:data", "f:spec"),
            ALICE.replace("Update", "Apply"),
        ] {
            assert_ne!(alice, id(&format!("[{other}]")), "{other}");
        }
        assert_eq!(id("{}"), None, "what cannot be read tells nothing");
    }

    #[test]
    fn the_newest_manager_is_not_the_one_that_reports_status() {
        let json = object(&format!(
            "[{},{ALICE},{STATUS}]",
            ALICE.replace("kubectl", "helm").replace(":01Z", ":00Z")
        ));
        let object = Object::from_json(&json, None).unwrap();
        assert_eq!(
            object.managers().unwrap().newest().as_deref(),
            Some("kubectl")
        );
        let only_status = self::object(&format!("[{STATUS}]"));
        let object = Object::from_json(&only_status, None).unwrap();
        assert_eq!(object.managers().unwrap().newest().as_deref(), Some("kcm"));
    }
}
