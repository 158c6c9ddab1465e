//! What to do about a lease, decided from its document and a clock of our own.
//!
//! ## Guarantees
//! - A lease is taken from another holder only after it was not renewed, as seen from here, for as
//!   long as the document says.
//! - What is held ends a margin before anybody else may take it: it counts from the start of the
//!   request that renewed it, and others count from when they saw the result.
//! - Times in the document are not read at all.

use std::time::Duration;

use super::boot_time::BootTime;

/// A lease as the API server has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Another one with each renewal; nobody reads a time in it.
    pub renewal: String,
    /// Who holds it; nobody after a release.
    pub holder: Option<String>,
    /// How long it lasts after a renewal; nothing if it does not say.
    pub length: Option<Duration>,
    /// Who asks for a turn.
    pub wanted_by: Option<String>,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// There is no document: make one that names us.
    Create,
    /// Write our name into it, if it is still of the version that was seen: takes or renews it.
    Take,
    /// Ask its holder for a turn.
    Ask,
    /// Let go, because another asks for a turn.
    Yield,
    /// Nothing for now.
    Wait,
}

/// One who wants a lease, and what is known of it here.
#[derive(Debug)]
pub struct Claim {
    identity: String,
    length: Duration,
    /// Whether holders take turns; otherwise one holds on until it ends.
    turns: bool,
    /// The document as it was seen last, and when its holder and renewal were first seen so.
    seen: Option<(Document, BootTime)>,
    held: Option<Held>,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    since: BootTime,
    until: BootTime,
}

/// So many parts of six of a lease's length its holder uses.
const USED: u32 = 5;
/// A turn lasts at least this part of a lease's length, so that it is worth having.
const SHORTEST_TURN: u32 = 12;

impl Claim {
    /// One that holds nothing.
    #[must_use]
    pub fn new(identity: impl Into<String>, length: Duration, turns: bool) -> Self {
        Self {
            identity: identity.into(),
            length,
            turns,
            seen: None,
            held: None,
        }
    }

    /// The name under which it is held.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Until when it is held; nothing if it is not.
    #[must_use]
    pub fn held_until(&self, now: BootTime) -> Option<BootTime> {
        let held = self.held.filter(|held| now < held.until)?;
        Some(held.until)
    }

    /// Who else holds it, as far as is known.
    #[must_use]
    pub fn other_holder(&self) -> Option<&str> {
        let (document, _) = self.seen.as_ref()?;
        let holder = document.holder.as_deref()?;
        (holder != self.identity).then_some(holder)
    }

    /// Whether another holds it or asks for it.
    #[must_use]
    pub fn is_contended(&self) -> bool {
        let asker = self
            .seen
            .as_ref()
            .and_then(|(document, _)| document.wanted_by.as_deref());
        self.other_holder().is_some() || asker.is_some_and(|asker| asker != self.identity)
    }

    /// What to do, given the document as it was just read, whether there is anything to write, and
    /// whether it is being written at this moment.
    pub fn decide(
        &mut self,
        document: Option<Document>,
        wants: bool,
        writing: bool,
        now: BootTime,
    ) -> Move {
        let Some(document) = document else {
            self.seen = None;
            return if wants || self.held.is_some() {
                Move::Create
            } else {
                Move::Wait
            };
        };
        let silent_for = self.see(&document, now);
        let asked_by_other = self.turns
            && document
                .wanted_by
                .as_deref()
                .is_some_and(|asker| asker != self.identity);
        let expired = silent_for >= document.length.unwrap_or(self.length);
        match document.holder.as_deref() {
            Some(holder) if holder == self.identity => {
                let turn = self.held.map(|held| now.since(held.since));
                let over = turn.is_none_or(|turn| turn >= self.length / SHORTEST_TURN);
                if asked_by_other && over && !writing {
                    Move::Yield
                } else {
                    Move::Take
                }
            }
            None if wants && (!asked_by_other || expired) => Move::Take,
            Some(_) if wants && expired => {
                self.held = None;
                Move::Take
            }
            Some(_) => {
                self.held = None;
                if self.turns && wants && document.wanted_by.is_none() {
                    Move::Ask
                } else {
                    Move::Wait
                }
            }
            None => {
                self.held = None;
                Move::Wait
            }
        }
    }

    /// Remembers the document; tells for how long it has not been renewed.
    fn see(&mut self, document: &Document, now: BootTime) -> Duration {
        let first = match &self.seen {
            Some((seen, first))
                if seen.holder == document.holder && seen.renewal == document.renewal =>
            {
                *first
            }
            _ => now,
        };
        self.seen = Some((document.clone(), first));
        now.since(first)
    }

    /// The API server confirmed what [`Move::Create`] or [`Move::Take`] wrote, with a request that was
    /// begun at this time.
    pub fn taken(&mut self, document: Document, begun: BootTime) {
        let until = begun + self.length * USED / 6;
        let since = self
            .held_until(begun)
            .and(self.held)
            .map_or(begun, |held| held.since);
        self.held = Some(Held { since, until });
        self.seen = Some((document, begun));
    }

    /// It is let go: nothing is held from here on, whatever becomes of the request that says so.
    pub fn let_go(&mut self) {
        self.held = None;
    }
}

#[cfg(test)]
mod tests;
