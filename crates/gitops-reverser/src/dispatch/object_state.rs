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
    uid: Uid,
    version: Version,
    /// Keys and values in turn, with NUL between them, which none of them can hold.
    labels: Box<str>,
    pub(super) noise: Noise,
    /// The last list of its type that has named it.
    listed: ListNumber,
    /// What each destination was sent last.
    pub(super) sent: Sent,
    /// What its next change is compared with, to find out whose that is.
    pub(super) past: Past,
}

/// The lists of a type are numbered as they begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListNumber(u32);

impl ListNumber {
    /// Of the list that begins now.
    pub(super) fn next(&mut self) -> Self {
        self.0 += 1;
        *self
    }
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
pub(super) enum Sent {
    #[default]
    Nowhere,
    Once((Id, What)),
    More(Vec<(Id, What)>),
}

/// Which content, and what may be done about differences.
type What = (BlobId, Operations);

impl Sent {
    pub(super) fn get(&self, id: &Id) -> Option<&What> {
        self.iter()
            .find(|(other, _)| *other == id)
            .map(|(_, what)| what)
    }

    pub(super) fn insert(&mut self, id: Id, what: What) {
        let known = self.slice_mut().iter_mut().find(|(other, _)| *other == id);
        if let Some((_, known)) = known {
            *known = what;
            return;
        }
        *self = match std::mem::take(self) {
            Self::Nowhere => Self::Once((id, what)),
            Self::Once(first) => Self::More(vec![first, (id, what)]),
            Self::More(mut all) => {
                all.push((id, what));
                Self::More(all)
            }
        };
    }

    pub(super) fn remove(&mut self, id: &Id) -> Option<What> {
        let at = self.iter().position(|(other, _)| other == id)?;
        match self {
            Self::Nowhere => None,
            Self::Once((_, what)) => {
                let what = *what;
                *self = Self::Nowhere;
                Some(what)
            }
            Self::More(all) => Some(all.remove(at).1),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slice().is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Id, &What)> {
        self.slice().iter().map(|(id, what)| (id, what))
    }

    fn slice(&self) -> &[(Id, What)] {
        match self {
            Self::Nowhere => &[],
            Self::Once(one) => std::slice::from_ref(one),
            Self::More(all) => all,
        }
    }

    fn slice_mut(&mut self) -> &mut [(Id, What)] {
        match self {
            Self::Nowhere => &mut [],
            Self::Once(one) => std::slice::from_mut(one),
            Self::More(all) => all,
        }
    }
}

/// The id that no other object has: a UUID, unless the API server gives out something else.
#[derive(PartialEq, Eq)]
enum Uid {
    Uuid([u8; 16]),
    Other(Box<str>),
}

impl Uid {
    fn read(text: &str) -> Self {
        uuid(text).map_or_else(|| Self::Other(text.into()), Self::Uuid)
    }
}

/// The bytes of a UUID in the one form that stands for it.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    let mut digits = 0;
    if text.len() != 36 {
        return None;
    }
    for (at, byte) in text.bytes().enumerate() {
        let digit = match (byte, at) {
            (b'-', 8 | 13 | 18 | 23) => continue,
            (_, 8 | 13 | 18 | 23) => return None,
            (b'0'..=b'9', _) => byte - b'0',
            (b'a'..=b'f', _) => byte - b'a' + 10,
            _ => return None,
        };
        bytes[digits / 2] = bytes[digits / 2] << 4 | digit;
        digits += 1;
    }
    Some(bytes)
}

/// A resource version: a number, unless the API server gives out something else.
#[derive(PartialEq, Eq)]
enum Version {
    Number(u64),
    Other(Box<str>),
}

impl Version {
    fn read(text: &str) -> Self {
        // What else stands for the same number is another version.
        let is_plain = text == "0" || text.starts_with(|first| matches!(first, '1'..='9'));
        let number = text.parse().ok().filter(|_| is_plain);
        number.map_or_else(|| Self::Other(text.into()), Self::Number)
    }
}

impl Default for ObjectState {
    fn default() -> Self {
        Self {
            uid: Uid::read(""),
            version: Version::read(""),
            labels: "".into(),
            noise: Noise::No,
            listed: ListNumber::default(),
            sent: Sent::default(),
            past: Past::default(),
        }
    }
}

impl ObjectState {
    pub(super) fn of(object: &Object<'_>, noise: Noise) -> Self {
        Self {
            uid: Uid::read(object.uid()),
            version: Version::read(object.resource_version()),
            labels: joined(object.labels()),
            noise,
            listed: ListNumber::default(),
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
        self.uid == Uid::read(uid)
    }

    pub(super) fn version(&self) -> Box<str> {
        match &self.version {
            Version::Number(number) => number.to_string().into(),
            Version::Other(text) => text.clone(),
        }
    }

    pub(super) fn is_at_version(&self, version: &str) -> bool {
        self.version == Version::read(version)
    }

    pub(super) fn is_at_version_of(&self, other: &Self) -> bool {
        self.version == other.version
    }

    /// Whether it is an earlier state of the same object: servers that lag behind tell such.
    pub(super) fn is_older_than(&self, known: &Self) -> bool {
        match (&self.version, &known.version) {
            (Version::Number(new), Version::Number(old)) => new < old && self.uid == known.uid,
            _ => false,
        }
    }

    /// A list names it.
    pub(super) fn note_listed(&mut self, number: ListNumber) {
        self.listed = self.listed.max(number);
    }

    /// Whether a list has named it, or one that began later. An object has one scope: no two lists that
    /// are under way could name it, of which the later one would speak for the earlier.
    pub(super) fn is_listed_since(&self, number: ListNumber) -> bool {
        self.listed >= number
    }

    /// Takes newer facts; gives back what was known before.
    pub(super) fn replace_facts(&mut self, new: Self) -> Self {
        let listed = self.listed;
        std::mem::replace(self, Self { listed, ..new })
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

    #[test]
    fn two_texts_are_the_same_uid_or_version_only_if_they_are_the_same_text() {
        let uids = [
            "",
            "0",
            "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
            "6BA7B810-9dad-11d1-80b4-00c04fd430c8",
            "6ba7b8109-dad-11d1-80b4-00c04fd430c8",
            "6ba7b810-9dad-11d1-80b4-00c04fd430c9",
            "6ba7b810-9dad-11d1-80b4-00c04fd430c",
            "-6ba7b810-9dad-11d1-80b4-00c04fd430c",
        ];
        let versions = [
            "",
            "0",
            "00",
            "7",
            "07",
            "+7",
            "-7",
            "7 ",
            "18446744073709551616",
        ];
        for (at, one) in uids.iter().enumerate() {
            let same = |other: &&str| Uid::read(one) == Uid::read(other);
            assert_eq!(uids.iter().position(same), Some(at), "{one}");
        }
        for (at, one) in versions.iter().enumerate() {
            let state = ObjectState {
                version: Version::read(one),
                ..ObjectState::default()
            };
            let same = |other: &&str| state.is_at_version(other);
            assert_eq!(versions.iter().position(same), Some(at), "{one}");
            assert_eq!(*state.version(), **one);
        }
    }

    #[test]
    fn what_was_sent_is_known_of_each_destination_by_itself() {
        let id = |name: &str| Id::new("shop", name);
        let operations = Operations {
            create: true,
            update: true,
            delete: true,
        };
        let what = |byte| (BlobId::from_bytes([byte; 20]), operations);
        let mut sent = Sent::default();
        assert!(sent.is_empty() && sent.remove(&id("a")).is_none());
        for (byte, name) in [(1, "a"), (2, "b"), (3, "c"), (4, "b")] {
            sent.insert(id(name), what(byte));
        }
        let all = |sent: &Sent| {
            let all = sent.iter().map(|(id, what)| (id.name.clone(), *what));
            all.collect::<Vec<_>>()
        };
        let named = |name: &str, byte| (name.to_owned(), what(byte));
        assert_eq!(all(&sent), [named("a", 1), named("b", 4), named("c", 3)]);
        assert_eq!(sent.remove(&id("b")), Some(what(4)));
        assert_eq!(sent.get(&id("c")), Some(&what(3)));
        assert_eq!(sent.remove(&id("a")), Some(what(1)));
        assert_eq!(sent.remove(&id("c")), Some(what(3)));
        assert!(sent.is_empty());
    }

    #[test]
    fn an_object_takes_few_bytes() {
        assert!(
            size_of::<ObjectState>() <= 136,
            "{}",
            size_of::<ObjectState>()
        );
    }
}
