//! Objects that cannot be read: they are named, their files stay, and nothing about their scope counts
//! as known until a list of it goes better.

use std::fmt;

use reverser_core::scope::ScopeKey;
use serde::Deserialize;

use super::{Dispatcher, Effect};

/// How what status says of a scope with such objects begins.
pub(super) const PARTLY_READ: &str = "objects could not be decoded";

/// So many of them are named.
const NAMED: usize = 5;

/// The objects of a list that cannot be read.
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
    pub(super) fn cannot_read(
        &mut self,
        key: &ScopeKey,
        sentence: String,
        effects: &mut Vec<Effect>,
    ) {
        let state = self.types.entry(key.type_key.clone()).or_default();
        if let Some(underway) = state.listings.get_mut(key) {
            underway.listing.skip_undecodable();
            underway.unreadable.add(sentence);
            return;
        }
        let mut unreadable = Unreadable::default();
        unreadable.add(sentence);
        let sentence = unreadable.to_string();
        state.complete.revoke(key);
        state.lost.insert(key.clone(), sentence.clone());
        effects.push(Effect::Unreadable(key.clone(), sentence));
        self.tell_knowledge(&key.type_key, effects);
    }
}

/// Which object it is, and why it cannot be read.
pub(super) fn sentence(name: Option<(Option<String>, String)>, why: &str) -> String {
    match name {
        Some((Some(namespace), name)) => format!("{namespace}/{name} ({why})"),
        Some((None, name)) => format!("{name} ({why})"),
        None => format!("one without a readable name ({why})"),
    }
}

/// Namespace and name, as far as they can be read.
pub(super) fn name_in(json: &str) -> Option<(Option<String>, String)> {
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
