//! Who tried what: what the API server tells a webhook before it stores a change.
//!
//! Admission shows attempts. Whether one came true, only the watch shows; so a record never says
//! that something happened, it only gives a name to what the watch has shown.

mod review;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub use self::review::{NoRecord, Review, ReviewError, read_review};
use crate::blob_id::BlobId;
use crate::object::ManagersId;
use crate::object_key::TypeKey;

/// The longest name of a user that is kept as it is. No identity provider comes near it.
pub const LONGEST_NAME: usize = 1024;

/// One attempt to change one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmissionRecord {
    /// What type the object is of, in the version that is watched.
    #[serde(rename = "type")]
    pub type_key: TypeKey,
    /// Where it is, unless its type has no namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// The id that no other object ever has.
    pub uid: String,
    /// What was to become of it.
    pub change: AdmittedChange,
    /// Who asked.
    pub user: Requester,
}

/// What was to become of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AdmittedChange {
    /// It was to be made.
    Create {
        /// In this form.
        new: FormId,
    },
    /// It was to be changed.
    Update {
        /// The version that it had.
        replaced: String,
        /// The form that it had.
        old: BlobId,
        /// The form that it was to get.
        new: FormId,
    },
    /// It was to be scaled through `/scale`, where nobody sees its form.
    Scale {
        /// The version that it had.
        replaced: String,
        /// How many replicas were asked for.
        replicas: i64,
    },
    /// It was to be deleted.
    Delete {
        /// The version that it had.
        version: String,
    },
}

impl AdmittedChange {
    /// The version that the object had, if there was one.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        match self {
            Self::Create { .. } => None,
            Self::Update { replaced, .. } | Self::Scale { replaced, .. } => Some(replaced),
            Self::Delete { version } => Some(version),
        }
    }

    /// Whether it says what the object is to be like, so that it can be told from another that was not
    /// stored.
    #[must_use]
    pub fn has_content(&self) -> bool {
        matches!(self, Self::Create { .. } | Self::Update { .. })
    }
}

/// What tells one state of an object from another: its canonical form, and who had set which field
/// when. Two people who write the same are told apart by the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FormId {
    /// The id of the canonical YAML, which is the id of the file in Git where a destination leaves
    /// nothing out.
    pub blob: BlobId,
    /// Who set which field when, where the server keeps that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managers: Option<ManagersId>,
}

/// Who asked the API server for something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requester {
    /// The name that the API server knows; raw, it may hold anything.
    name: String,
    /// How people call them, if the identity provider says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Their e-mail address, if the identity provider says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
}

impl Requester {
    /// A user of whom only the name is known. A name that is too long is cut, and ends in a hash, so
    /// that two of them stay two users.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: shortened(name),
            display_name: None,
            email: None,
        }
    }

    /// The name that the API server knows; raw, it may hold anything.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Namespace and name, if it is a service account.
    #[must_use]
    pub fn service_account(&self) -> Option<(&str, &str)> {
        let rest = self.name.strip_prefix("system:serviceaccount:")?;
        let (namespace, name) = rest.split_once(':')?;
        let is_name = |text: &str| {
            let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
            !text.is_empty() && text.bytes().all(allowed)
        };
        (is_name(namespace) && is_name(name)).then_some((namespace, name))
    }
}

fn shortened(name: &str) -> String {
    if name.len() <= LONGEST_NAME {
        return name.to_owned();
    }
    let mut end = LONGEST_NAME;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let mut short = name[..end].to_owned();
    // Longer than what is kept as it is, and so no other user's name.
    short.push_str(&".".repeat(LONGEST_NAME - end));
    short.push_str(" sha256:");
    for byte in Sha256::digest(name.as_bytes()) {
        let _ = write!(short, "{byte:02x}");
    }
    short
}

impl AdmissionRecord {
    /// About how much memory it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let version = self.change.version().map_or(0, str::len);
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let key = &self.type_key;
        let texts = key.group().len()
            + key.version().len()
            + key.resource().len()
            + length(&self.namespace)
            + self.name.len()
            + self.uid.len()
            + version
            + self.user.name.len()
            + length(&self.user.display_name)
            + length(&self.user.email);
        size_of::<Self>() + texts
    }
}
