//! What is kept of an object: what selection asks, and what was sent.

use std::collections::BTreeMap;

use reverser_core::blob_id::BlobId;
use reverser_core::noise::Noise;
use reverser_core::object::Object;
use reverser_core::object_key::{ObjectKey, TypeKey};
use reverser_core::plan::Operations;
use reverser_core::repo_path::RepoPath;

use crate::identity::Id;

/// Namespace and name of an object, within its type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name {
    namespace: Option<Box<str>>,
    name: Box<str>,
}

impl Name {
    pub(super) fn of(object: &Object<'_>) -> Self {
        Self {
            namespace: object.namespace().map(Into::into),
            name: object.name().into(),
        }
    }

    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    pub(super) fn path(&self, type_key: &TypeKey) -> Option<RepoPath> {
        let namespace = self.namespace.as_deref().map(str::to_owned);
        let key = ObjectKey::new(type_key.clone(), namespace, &*self.name).ok()?;
        Some(RepoPath::of(&key))
    }
}

/// One object.
pub(super) struct ObjectState {
    uid: Box<str>,
    version: Box<str>,
    labels: Box<[(Box<str>, Box<str>)]>,
    pub(super) noise: Noise,
    /// What each destination was sent last.
    pub(super) sent: BTreeMap<Id, (BlobId, Operations)>,
}

impl Default for ObjectState {
    fn default() -> Self {
        Self {
            uid: "".into(),
            version: "".into(),
            labels: Box::default(),
            noise: Noise::No,
            sent: BTreeMap::new(),
        }
    }
}

impl ObjectState {
    pub(super) fn of(object: &Object<'_>, noise: Noise) -> Self {
        Self {
            uid: object.uid().into(),
            version: object.resource_version().into(),
            labels: object
                .labels()
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
            noise,
            sent: BTreeMap::new(),
        }
    }

    pub(super) fn label(&self, key: &str) -> Option<&str> {
        self.labels
            .iter()
            .find(|(other, _)| **other == *key)
            .map(|(_, value)| &**value)
    }

    pub(super) fn has_uid(&self, uid: &str) -> bool {
        *self.uid == *uid
    }

    /// Whether it is an earlier state of the same object: servers that lag behind tell such.
    pub(super) fn is_older_than(&self, known: &Self) -> bool {
        let number = |version: &str| version.parse::<u64>().ok();
        self.uid == known.uid
            && number(&self.version)
                .zip(number(&known.version))
                .is_some_and(|(new, known)| new < known)
    }

    /// Takes newer facts; gives back what was sent before.
    pub(super) fn replace_facts(&mut self, new: Self) -> BTreeMap<Id, (BlobId, Operations)> {
        std::mem::replace(self, new).sent
    }

    /// Its content counts as not sent, although the file is wanted.
    pub(super) fn send_again(&mut self, id: &Id) {
        if let Some((blob, _)) = self.sent.get_mut(id) {
            *blob = BlobId::from_bytes([0; 20]);
        }
    }

    pub(super) fn forget_destination(&mut self, id: &Id) {
        self.sent.remove(id);
    }
}
