//! What is kept of an object: what selection asks, and what was sent.

use std::sync::Arc;

use reverser_core::attribution::Origin;
use reverser_core::blob_id::BlobId;
use reverser_core::noise::Noise;
use reverser_core::object::Object;
use reverser_core::object_key::{ObjectKey, TypeKey};
use reverser_core::plan::Operations;
use reverser_core::repo_path::RepoPath;

use crate::identity::Id;

/// Namespace and name of an object, within its type: `namespace/name`, or `/name` where there is no
/// namespace. Neither of them can hold a slash.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name(Box<str>);

impl Name {
    pub(super) fn of(object: &Object<'_>) -> Self {
        let namespace = object.namespace().unwrap_or_default();
        Self([namespace, "/", object.name()].concat().into())
    }

    pub(super) fn namespace(&self) -> Option<&str> {
        Some(self.parts().0).filter(|namespace| !namespace.is_empty())
    }

    fn parts(&self) -> (&str, &str) {
        self.0.split_once('/').unwrap_or(("", &self.0))
    }

    pub(super) fn path(&self, type_key: &TypeKey) -> Option<RepoPath> {
        let namespace = self.namespace().map(str::to_owned);
        let key = ObjectKey::new(type_key.clone(), namespace, self.parts().1).ok()?;
        Some(RepoPath::of(&key))
    }
}

/// One object, in as few bytes as possible: there may be a hundred thousand of them.
pub(super) struct ObjectState {
    uid: Box<str>,
    version: Box<str>,
    /// Keys and values in turn, with NUL between them, which none of them can hold.
    labels: Box<str>,
    pub(super) noise: Noise,
    /// What each destination was sent last.
    pub(super) sent: Sent,
    /// What its next change is compared with, to find out whose that is.
    pub(super) past: Past,
}

/// What is kept of an object to find out who changes it.
#[derive(Clone, Debug, Default)]
pub(super) struct Past {
    /// Its form when it was sent last.
    pub(super) form: Option<BlobId>,
    /// The replicas of that form.
    pub(super) replicas: Option<i32>,
    /// Who asked for its deletion, once somebody has.
    pub(super) deleter: Option<Arc<Origin>>,
}

/// What an object's destinations were sent: hardly ever more than one of them.
#[derive(Debug, Default)]
pub(super) struct Sent(Vec<(Id, (BlobId, Operations))>);

impl Sent {
    pub(super) fn get(&self, id: &Id) -> Option<&(BlobId, Operations)> {
        self.iter()
            .find(|(other, _)| *other == id)
            .map(|(_, what)| what)
    }

    pub(super) fn insert(&mut self, id: Id, what: (BlobId, Operations)) {
        if let Some((_, known)) = self.0.iter_mut().find(|(other, _)| *other == id) {
            *known = what;
        } else {
            self.0.reserve_exact(1);
            self.0.push((id, what));
        }
    }

    pub(super) fn remove(&mut self, id: &Id) -> Option<(BlobId, Operations)> {
        let at = self.0.iter().position(|(other, _)| other == id)?;
        Some(self.0.remove(at).1)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Id, &(BlobId, Operations))> {
        self.0.iter().map(|(id, what)| (id, what))
    }
}

impl Default for ObjectState {
    fn default() -> Self {
        Self {
            uid: "".into(),
            version: "".into(),
            labels: "".into(),
            noise: Noise::No,
            sent: Sent::default(),
            past: Past::default(),
        }
    }
}

impl ObjectState {
    pub(super) fn of(object: &Object<'_>, noise: Noise) -> Self {
        Self {
            uid: object.uid().into(),
            version: object.resource_version().into(),
            labels: joined(object.labels()),
            noise,
            sent: Sent::default(),
            past: Past::default(),
        }
    }

    pub(super) fn label(&self, key: &str) -> Option<&str> {
        let mut texts = self.labels.split('\0');
        while let (Some(other), Some(value)) = (texts.next(), texts.next()) {
            if other == key {
                return Some(value);
            }
        }
        None
    }

    pub(super) fn has_uid(&self, uid: &str) -> bool {
        *self.uid == *uid
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// Whether it is an earlier state of the same object: servers that lag behind tell such.
    pub(super) fn is_older_than(&self, known: &Self) -> bool {
        let number = |version: &str| version.parse::<u64>().ok();
        self.uid == known.uid
            && number(&self.version)
                .zip(number(&known.version))
                .is_some_and(|(new, known)| new < known)
    }

    /// Takes newer facts; gives back what was known before.
    pub(super) fn replace_facts(&mut self, new: Self) -> Self {
        std::mem::replace(self, new)
    }

    /// Its content counts as not sent, although the file is wanted.
    pub(super) fn send_again(&mut self, id: &Id) {
        if let Some((_, operations)) = self.sent.get(id).copied() {
            let unsent = BlobId::from_bytes([0; 20]);
            self.sent.insert(id.clone(), (unsent, operations));
        }
    }

    pub(super) fn forget_destination(&mut self, id: &Id) {
        self.sent.remove(id);
    }
}

fn joined<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>) -> Box<str> {
    let mut text = String::new();
    for (key, value) in labels {
        for part in [key, value] {
            if !text.is_empty() {
                text.push('\0');
            }
            text.push_str(part);
        }
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_found_by_their_key_and_never_by_a_value() {
        let json = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web","namespace":"shop",
            "uid":"u","resourceVersion":"1","labels":{"a":"","app":"web","web":"app"}}}"#;
        let object = Object::from_json(json, None).unwrap();
        let state = ObjectState::of(&object, Noise::No);
        let label = |key| state.label(key);
        assert_eq!((label("a"), label("app")), (Some(""), Some("web")));
        assert_eq!((label("web"), label("")), (Some("app"), None));
        let name = Name::of(&object);
        assert_eq!((name.namespace(), name.parts().1), (Some("shop"), "web"));
    }
}
