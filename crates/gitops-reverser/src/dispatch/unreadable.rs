//! Objects that cannot be read: they are named, their files stay, and nothing about their namespace
//! counts as known until a list goes better; where not even the namespace can be read, nothing about
//! their scope does.

use std::collections::BTreeMap;
use std::fmt;

use reverser_core::scope::ScopeKey;
use serde::Deserialize;

use super::{Dispatcher, Effect, Loss, TypeState};

/// How what status says of a scope with such objects begins.
pub(super) const PARTLY_READ: &str = "objects could not be decoded";

/// So many of them are named.
const NAMED: usize = 5;

/// Why an object cannot be read, and what of it can.
pub(super) struct Bad {
    name: Option<(Option<String>, String)>,
    why: String,
}

impl Bad {
    pub(super) fn new(name: Option<(Option<String>, String)>, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { name, why }
    }

    /// One of which there is this text.
    pub(super) fn object(json: &str, why: impl Into<String>) -> Self {
        Self::new(name_in(json), why)
    }

    /// One that is said to be gone, which needs more than a name to be believed.
    pub(super) fn deleted(json: &str, why: &str) -> Self {
        Self::object(json, format!("its deletion: {why}"))
    }

    fn namespace(&self) -> Option<&str> {
        self.name.as_ref()?.0.as_deref()
    }
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = &self.why;
        match &self.name {
            Some((Some(namespace), name)) => write!(f, "{namespace}/{name} ({why})"),
            Some((None, name)) => write!(f, "{name} ({why})"),
            None => write!(f, "one without a readable name ({why})"),
        }
    }
}

/// What cannot be read in each namespace of a scope.
pub(super) type Gaps = BTreeMap<String, String>;

/// The objects of a list that cannot be read: those of each namespace, and those of who knows where.
#[derive(Debug, Default)]
pub(super) struct OfList {
    namespaces: BTreeMap<String, Unreadable>,
    elsewhere: Unreadable,
}

impl OfList {
    fn add(&mut self, bad: &Bad) {
        let unreadable = match bad.namespace() {
            Some(namespace) => self.namespaces.entry(namespace.to_owned()).or_default(),
            None => &mut self.elsewhere,
        };
        unreadable.add(bad.to_string());
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        let named = self.namespaces.values().map(Unreadable::count);
        named.sum::<usize>() + self.elsewhere.count()
    }

    /// All of them as one.
    pub(super) fn whole(self) -> Unreadable {
        let mut whole = self.elsewhere;
        for unreadable in self.namespaces.into_values() {
            whole.append(unreadable);
        }
        whole
    }

    /// What is said of each namespace.
    pub(super) fn gaps(&self) -> Gaps {
        let namespaces = self.namespaces.iter();
        namespaces
            .map(|(namespace, unreadable)| (namespace.clone(), unreadable.to_string()))
            .collect()
    }
}

/// Objects that cannot be read, a few of them by name.
#[derive(Debug, Default)]
pub(super) struct Unreadable {
    named: Vec<String>,
    others: usize,
}

impl Unreadable {
    fn add(&mut self, sentence: String) {
        if self.named.len() < NAMED {
            self.named.push(sentence);
        } else {
            self.others += 1;
        }
    }

    fn count(&self) -> usize {
        self.named.len() + self.others
    }

    fn append(&mut self, other: Self) {
        for sentence in other.named {
            self.add(sentence);
        }
        self.others += other.others;
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PARTLY_READ)?;
        if !self.named.is_empty() {
            write!(f, ": {}", self.named.join(", "))?;
        }
        match self.others {
            0 => Ok(()),
            others => write!(f, " and {others} more"),
        }
    }
}

impl Dispatcher {
    /// Takes note of an object that cannot be read. In a list it tells at its end; otherwise at once:
    /// how the object is, and whether it still is, nobody knows.
    pub(super) fn cannot_read(&mut self, key: &ScopeKey, bad: &Bad, effects: &mut Vec<Effect>) {
        let state = self.types.entry(key.type_key.clone()).or_default();
        if let Some(underway) = state.listings.get_mut(key) {
            underway.listing.skip_undecodable(bad.namespace());
            underway.unreadable.add(bad);
            return;
        }
        let mut unreadable = Unreadable::default();
        unreadable.add(bad.to_string());
        let sentence = unreadable.to_string();
        if let Some(namespace) = bad.namespace().filter(|_| key.namespace.is_none()) {
            state.complete.leave_out(key, namespace);
            let gaps = state.gaps.entry(key.clone()).or_default();
            gaps.insert(namespace.to_owned(), sentence.clone());
        } else {
            state.complete.revoke(key);
            let loss = Loss::unreadable(sentence.clone());
            state.lost.insert(key.clone(), loss);
        }
        effects.push(Effect::Unreadable(key.clone(), sentence));
        effects.push(Effect::ListSoon(key.type_key.clone()));
        self.tell_knowledge(&key.type_key, effects);
    }

    /// An object was seen to change where others could not be read: it may be one of them.
    pub(super) fn may_be_repaired(
        state: &TypeState,
        key: &ScopeKey,
        namespace: Option<&str>,
        effects: &mut Vec<Effect>,
    ) {
        let gaps = state.gaps.get(key).zip(namespace);
        if gaps.is_some_and(|(gaps, namespace)| gaps.contains_key(namespace)) {
            effects.push(Effect::ListSoon(key.type_key.clone()));
        }
    }
}

/// Namespace and name, as far as they can be read.
fn name_in(json: &str) -> Option<(Option<String>, String)> {
    #[derive(Deserialize)]
    struct Head {
        metadata: Names,
    }
    #[derive(Deserialize)]
    struct Names {
        name: String,
        namespace: Option<String>,
    }
    let head: Head = serde_json::from_str(json).ok()?;
    Some((head.metadata.namespace, head.metadata.name))
}
