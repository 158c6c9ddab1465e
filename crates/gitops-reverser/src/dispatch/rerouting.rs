//! What follows from a new routing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use reverser_core::labels::Labels;
use reverser_core::object_key::TypeKey;
use reverser_core::plan::{DeleteProof, Withdrawn};

use super::knowledge::prunable;
use super::sent::{Effect, ToWriter, selected_destinations, together, writes};
use super::unreadable::Gaps;
use super::{Dispatcher, remove, usable};
use crate::identity::Id;
use crate::routing::{Destination, Need, Routing};

impl Dispatcher {
    /// Takes a new routing. `serves` tells whether a type is still served: a type that is not proves
    /// nothing about its objects.
    pub fn route(
        &mut self,
        routing: &Arc<Routing>,
        namespaces: Arc<BTreeMap<String, Labels>>,
        serves: impl Fn(&TypeKey) -> bool,
    ) -> Vec<Effect> {
        let old = std::mem::replace(&mut self.routing, routing.clone());
        self.namespaces = namespaces;
        let mut effects = Vec::new();
        for (id, destination) in usable(routing) {
            let before = old.destinations.get(id);
            if !matches!(before, Some(Ok(before)) if before == destination) {
                effects.push(Effect::Writer(
                    destination.target.clone(),
                    id.clone(),
                    ToWriter::Settings(Box::new(destination.clone())),
                ));
                // Whether the branch holds what is wanted by now has to be found out anew.
                self.knowledge.remove(id);
            }
        }
        let mut forgotten = Vec::new();
        for (id, destination) in usable(&old) {
            let now = routing.destinations.get(id);
            if !matches!(now, Some(Ok(now)) if now.target == destination.target) {
                // Its files stay; only nobody writes there any more.
                effects.push(Effect::Writer(
                    destination.target.clone(),
                    id.clone(),
                    ToWriter::Forget,
                ));
                self.knowledge.remove(id);
                forgotten.push(id);
            }
        }
        if !forgotten.is_empty() {
            let types = self.types.values_mut();
            for object in types.flat_map(|state| state.objects.values_mut()) {
                for id in &forgotten {
                    object.forget_destination(id);
                }
            }
        }
        let deletion = self.one_rule_was_deleted(&old);
        let mut removals = self.withdraw(&old, &serves, deletion);
        let known: BTreeSet<TypeKey> = self.types.keys().cloned().collect();
        for type_key in known {
            let needed = routing.needs.contains_key(&type_key);
            if !needed && !serves(&type_key) {
                self.give_up(&type_key, &mut removals);
                continue;
            }
            let mut lacking = self.reconsider(&type_key, deletion, &mut removals);
            if !needed {
                self.types.remove(&type_key);
                continue;
            }
            let changed = changed_forms(&old, routing, &type_key);
            let routes = |routing: &Routing| {
                let need = routing.needs.get(&type_key);
                need.map(|need| need.routes.clone())
            };
            let now = !changed.is_empty() || routes(&old) != routes(routing);
            lacking.extend(changed);
            self.ask_for_list(&type_key, lacking, now, &mut effects);
        }
        let destinations: Vec<Id> = usable(routing).map(|(id, _)| id.clone()).collect();
        self.tell_destinations(destinations, &mut effects);
        // A file that nobody wants any more without proof must not meet the knowledge of before,
        // which could still say that it is absent.
        effects.append(&mut together(removals));
        effects
    }

    /// Has a type listed for destinations that want what they were not sent. Until then not
    /// everything is known for them. A list that was asked for is not begun again for the same
    /// destinations, unless what they want has changed `now`.
    pub(super) fn ask_for_list(
        &mut self,
        type_key: &TypeKey,
        lacking: BTreeSet<Id>,
        now: bool,
        effects: &mut Vec<Effect>,
    ) {
        let Some(state) = self.types.get_mut(type_key) else {
            return;
        };
        if lacking.is_empty() {
            return;
        }
        if !now && lacking.is_subset(&state.asked) {
            state.ask_again = true;
            return;
        }
        for proof in state.complete.iter() {
            for id in &lacking {
                state.awaiting.insert((proof.scope().clone(), id.clone()));
            }
        }
        state.asked.extend(lacking);
        effects.push(Effect::ListAgain(type_key.clone()));
    }

    /// Takes out of destinations what no rule selects any more. Gives the destinations that want
    /// what they were not sent.
    pub(super) fn reconsider(
        &mut self,
        type_key: &TypeKey,
        deletion: bool,
        effects: &mut Vec<Effect>,
    ) -> BTreeSet<Id> {
        let routing = self.routing.clone();
        let mut lacking = BTreeSet::new();
        let Some(state) = self.types.get_mut(type_key) else {
            return lacking;
        };
        let need = routing.needs.get(type_key);
        let unfollowed = unfollowed(&routing, type_key);
        let writes_type = |id: &Id| {
            let destination = routing.destinations.get(id);
            matches!(destination, Some(Ok(destination)) if writes(&destination.form, type_key))
        };
        for (name, object) in &mut state.objects {
            let selected = need.map_or_else(BTreeMap::new, |need| {
                selected_destinations(need, object, name.namespace(), &self.namespaces)
            });
            for (id, operations) in &selected {
                let sent = object.sent.get(id).map(|(_, operations)| operations);
                if sent != Some(operations) && !lacking.contains(id) && writes_type(id) {
                    lacking.insert(id.clone());
                }
            }
            let dropped: Vec<Id> = object
                .sent
                .iter()
                .map(|(id, _)| id)
                .filter(|id| !selected.contains_key(*id))
                .cloned()
                .collect();
            for id in dropped {
                let Some(Ok(destination)) = routing.destinations.get(&id) else {
                    continue;
                };
                let (Some((_, operations)), Some(path)) =
                    (object.sent.remove(&id), name.path(type_key))
                else {
                    continue;
                };
                let proof = unselected(deletion);
                let kept = routing.kept.contain(&id, type_key, name.namespace());
                let keeps = kept || unfollowed.contains(&id);
                let deletes = operations.delete && !keeps;
                effects.push(remove(destination, &id, &path, deletes, proof, None));
            }
        }
        lacking
    }

    /// The types that destinations have lost all rules for. Their objects that were seen are taken out
    /// one by one; this is about files whose objects were not seen yet, because the list that would
    /// have shown them was still running.
    fn withdraw(
        &self,
        old: &Routing,
        serves: impl Fn(&TypeKey) -> bool,
        deletion: bool,
    ) -> Vec<Effect> {
        let proof = unselected(deletion);
        let mut effects = Vec::new();
        for (type_key, need) in old.needs.iter().filter(|(type_key, _)| serves(type_key)) {
            let new = self.routing.needs.get(type_key);
            let unfollowed = unfollowed(&self.routing, type_key);
            let destinations: BTreeSet<&Id> = need
                .routes
                .iter()
                .map(|route| &route.destination)
                .filter(|id| new.is_none_or(|need| need.routes_to(id).next().is_none()))
                .filter(|id| !unfollowed.contains(*id))
                .collect();
            for id in destinations {
                let (Some(Ok(before)), Some(Ok(now))) =
                    (old.destinations.get(id), self.routing.destinations.get(id))
                else {
                    continue;
                };
                let place = |destination: &Destination| {
                    (destination.target.clone(), destination.folder.clone())
                };
                if place(before) != place(now) || self.is_unknown(need, id) {
                    continue;
                }
                let kept = old.kept.parts_of(id, &need.served);
                let kept = kept.chain(self.routing.kept.parts_of(id, &need.served));
                if let Some(reached) = prunable(need, id, kept) {
                    let message =
                        ToWriter::Withdraw(type_key.clone(), Withdrawn { reached, proof });
                    effects.push(Effect::Writer(now.target.clone(), id.clone(), message));
                }
            }
        }
        effects
    }

    /// Whether a scope of that type could not be listed for a destination: then its files stay.
    fn is_unknown(&self, need: &Need, id: &Id) -> bool {
        let Some(state) = self.types.get(&need.served.key) else {
            return false;
        };
        let lost = state.lost.keys().map(|scope| scope.namespace.as_deref());
        let gaps = state.gaps.values().flat_map(Gaps::keys);
        let mut unknown = lost.chain(gaps.map(|namespace| Some(namespace.as_str())));
        unknown.any(|namespace| {
            namespace.is_none_or(|namespace| self.reach(need.routes_to(id), namespace))
        })
    }

    /// A type is not served any more. That proves nothing about its objects, but nobody wants their
    /// files at these places any more.
    fn give_up(&mut self, type_key: &TypeKey, effects: &mut Vec<Effect>) {
        let objects = self.types.remove(type_key).unwrap_or_default().objects;
        for (name, object) in objects {
            let Some(path) = name.path(type_key) else {
                continue;
            };
            for (id, _) in object.sent.iter() {
                if let Some(Ok(destination)) = self.routing.destinations.get(id) {
                    let unproven = false;
                    effects.push(remove(
                        destination,
                        id,
                        &path,
                        unproven,
                        DeleteProof::TypeGone,
                        None,
                    ));
                }
            }
        }
    }

    /// Whether the routing changed by one rule having been deleted, which a person did on purpose. A
    /// rule that is missing although nobody saw it go proves no purpose.
    fn one_rule_was_deleted(&self, old: &Routing) -> bool {
        let rules = old.rules.keys();
        let mut missing = rules.filter(|id| !self.routing.rules.contains_key(*id));
        let (first, second) = (missing.next(), missing.next());
        second.is_none() && first.is_some_and(|id| self.routing.deleted_rules.contains(id))
    }
}

fn unselected(deletion: bool) -> DeleteProof {
    if deletion {
        DeleteProof::RuleDeleted
    } else {
        DeleteProof::Deselected
    }
}

/// The destinations whose rules still mean a type that is not followed: it is one too many, or its
/// objects are followed in another version. Only the list of that one tells which files may go.
fn unfollowed(routing: &Routing, type_key: &TypeKey) -> BTreeSet<Id> {
    let rules = routing.rules.values().flatten();
    let over_limit = rules
        .filter(|rule| rule.over_limit.contains(type_key))
        .map(|rule| rule.destination.clone());
    let other_versions = routing
        .needs
        .iter()
        .filter(|(other, _)| other.is_other_version_of(type_key));
    let elsewhere = other_versions
        .flat_map(|(_, need)| &need.routes)
        .map(|route| route.destination.clone());
    over_limit.chain(elsewhere).collect()
}

/// The destinations of a type that are written in another form or to another place than before.
fn changed_forms(old: &Routing, new: &Routing, type_key: &TypeKey) -> BTreeSet<Id> {
    let form = |routing: &Routing, id: &Id| match routing.destinations.get(id) {
        Some(Ok(destination)) => Some((destination.form.clone(), destination.target.clone())),
        _ => None,
    };
    let routes = new.needs.get(type_key).into_iter();
    let routes = routes.flat_map(|need| &need.routes);
    routes
        .map(|route| &route.destination)
        .filter(|id| form(old, id).is_some() && form(old, id) != form(new, id))
        .cloned()
        .collect()
}
