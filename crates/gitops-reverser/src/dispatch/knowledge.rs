//! What a destination is told about how much is known.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use reverser_core::definitions::GoneTypes;
use reverser_core::object_key::TypeKey;
use reverser_core::plan::Prunable;
use reverser_core::scope::{CompleteScopes, ScopeKey};
use reverser_core::selection::RulePart;

use super::sent::{Effect, ToWriter};
use super::{Dispatcher, TypeState};
use crate::identity::Id;
use crate::routing::{Need, Route};
use crate::watch::Scope;

/// What is known about the types of a destination.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Knowledge {
    /// Scopes of which everything is known.
    pub complete: CompleteScopes,
    /// Types whose files may go, and where.
    pub deletable: HashMap<TypeKey, Prunable>,
    /// Types that a rule of the destination selects.
    pub needed: HashSet<TypeKey>,
    /// Types that nothing defines any more.
    pub gone: GoneTypes,
    /// Scopes of which not everything is known, and why.
    pub unknown: BTreeMap<ScopeKey, String>,
    /// Types whose list has not ended, either way.
    pub pending: BTreeSet<TypeKey>,
    /// Which round of lists that is: a later one has begun whenever there is more to list.
    pub round: u64,
}

impl Knowledge {
    /// Adds one type. Scopes that wait for a list of what the destination was not sent yet count as
    /// not listed.
    fn add(
        &mut self,
        type_key: &TypeKey,
        id: &Id,
        prunable: Option<Prunable>,
        reaches: impl Fn(&str) -> bool,
        state: Option<&TypeState>,
    ) {
        self.needed.insert(type_key.clone());
        let Some(state) = state else {
            self.pending.insert(type_key.clone());
            return;
        };
        if let Some(prunable) = prunable {
            self.deletable.insert(type_key.clone(), prunable);
        }
        let concerns = |scope: &ScopeKey| scope.namespace.as_deref().is_none_or(&reaches);
        let mut waits = state.has_unlisted(concerns);
        for proof in state.complete.iter() {
            if state
                .awaiting
                .contains(&(proof.scope().clone(), id.clone()))
            {
                waits = true;
            } else {
                self.complete.insert(proof.clone());
            }
        }
        let unknown = state.unknown(type_key, &reaches).into_iter();
        self.unknown
            .extend(unknown.map(|(scope, loss)| (scope, loss.why)));
        if waits {
            self.pending.insert(type_key.clone());
        }
    }
}

impl Dispatcher {
    /// Tells every destination of a type what is known, if that has changed.
    pub(super) fn tell_knowledge(&mut self, type_key: &TypeKey, effects: &mut Vec<Effect>) {
        let of_type = |need: &Need| {
            need.routes
                .iter()
                .map(|route| route.destination.clone())
                .collect::<BTreeSet<Id>>()
        };
        let need = self.routing.needs.get(type_key);
        let mut concerned = need.map(of_type).unwrap_or_default();
        concerned.extend(
            self.knowledge
                .iter()
                .filter(|(_, known)| known.needed.contains(type_key))
                .map(|(id, _)| id.clone()),
        );
        self.tell_destinations(concerned, effects);
    }

    /// Tells these destinations what is known, if that has changed.
    pub(super) fn tell_destinations(
        &mut self,
        concerned: impl IntoIterator<Item = Id>,
        effects: &mut Vec<Effect>,
    ) {
        let routing = self.routing.clone();
        for id in concerned {
            let Some(Ok(destination)) = routing.destinations.get(&id) else {
                continue;
            };
            let mut knowledge = self.knowledge_of(&id);
            let old = self.knowledge.get(&id);
            knowledge.round = old.map_or(0, |old| old.round);
            if old != Some(&knowledge) {
                let listed_before = old.map(|old| &old.pending);
                if !listed_before.is_some_and(|old| knowledge.pending.is_subset(old)) {
                    self.rounds += 1;
                    knowledge.round = self.rounds;
                }
                self.knowledge.insert(id.clone(), knowledge.clone());
                let message = ToWriter::Knowledge(Box::new(knowledge));
                effects.push(Effect::Writer(destination.target.clone(), id, message));
            }
        }
    }

    /// Takes which scopes are watched: until each of those was listed, not everything is known.
    pub fn watch(&mut self, scopes: &HashSet<Scope>) -> Vec<Effect> {
        let mut watched: HashMap<&TypeKey, BTreeSet<ScopeKey>> = HashMap::new();
        for scope in scopes {
            let key = ScopeKey::from(scope);
            watched.entry(&scope.type_key).or_default().insert(key);
        }
        let mut effects = Vec::new();
        let needed: Vec<TypeKey> = self.routing.needs.keys().cloned().collect();
        for type_key in needed {
            let watched = watched.remove(&type_key).unwrap_or_default();
            let state = self.types.entry(type_key.clone()).or_default();
            if state.watched.as_ref() != Some(&watched) {
                state.watched = Some(watched);
                self.tell_knowledge(&type_key, &mut effects);
            }
        }
        effects
    }

    /// The round of lists that each destination has to have written to hold all that it is to hold.
    #[must_use]
    pub fn rounds(&self) -> BTreeMap<Id, u64> {
        let known = self.knowledge.iter();
        known
            .map(|(id, knowledge)| (id.clone(), knowledge.round))
            .collect()
    }

    fn knowledge_of(&self, id: &Id) -> Knowledge {
        let mut knowledge = Knowledge::default();
        let kept = &self.routing.kept;
        for (type_key, need) in &self.routing.needs {
            let routes: Vec<&Route> = need.routes_to(id).collect();
            if routes.is_empty() {
                continue;
            }
            let prunable = prunable(need, id, kept.parts_of(id, &need.served));
            let reaches = |namespace: &str| self.reach(routes.iter().copied(), namespace);
            knowledge.add(type_key, id, prunable, reaches, self.types.get(type_key));
        }
        let rules = self.routing.rules.values().flatten();
        let parts = rules
            .filter(|rule| rule.destination == *id)
            .flat_map(|rule| &rule.parts)
            .chain(kept.parts(id));
        knowledge.gone = GoneTypes::new(self.definitions.clone(), parts.cloned().collect());
        knowledge
    }
}

/// Where files of a type may go, if a rule of the destination lets any go: not where refused rules may
/// have written them.
pub(super) fn prunable<'k>(
    need: &'k Need,
    id: &Id,
    kept: impl Iterator<Item = &'k RulePart>,
) -> Option<Prunable> {
    let mut prunable = Prunable::new(need.served.namespaced);
    for part in need.routes_to(id).map(|route| &route.part).chain(kept) {
        prunable.add(&part.reach, part.operations.delete);
    }
    prunable.lets_any_go().then_some(prunable)
}
