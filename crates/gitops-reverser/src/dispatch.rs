//! From observations to what each destination should hold.
//!
//! One owner of everything that is known about objects: it takes observations and changes of the
//! routing, and says what follows for writers and watches. It does nothing itself, so that every
//! sequence of events can be tested without a cluster.
//!
//! Of an object it keeps what selection asks and the id of what was sent, never its content. A rule
//! that comes to select more has its types listed again.

mod object_state;
mod sent;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use reverser_core::canon::canonicalise;
use reverser_core::noise::NoiseFilter;
use reverser_core::object::{Object, TypeMeta};
use reverser_core::object_key::{ObjectKey, TypeKey};
use reverser_core::plan::{DeleteProof, Wanted};
use reverser_core::redaction::RedactionKey;
use reverser_core::repo_path::RepoPath;
use reverser_core::scope::{CompleteScopes, Listed, Listing, ScopeKey};

use self::object_state::{Name, ObjectState};
use self::sent::{Content, selected_destinations};
pub use self::sent::{Effect, Knowledge, ToWriter};
use crate::identity::Id;
use crate::routing::{Destination, Need, Routing};
use crate::watch::{ListOutcome, Observation, Scope};

/// What is known, and where it goes.
pub struct Dispatcher {
    noise: NoiseFilter,
    /// Where Secrets are to be redacted.
    redaction: Option<RedactionKey>,
    routing: Arc<Routing>,
    namespaces: Arc<BTreeMap<String, reverser_core::labels::Labels>>,
    types: HashMap<TypeKey, TypeState>,
    knowledge: BTreeMap<Id, Knowledge>,
}

/// One type.
#[derive(Default)]
struct TypeState {
    objects: HashMap<Name, ObjectState>,
    listings: HashMap<ScopeKey, Underway>,
    complete: CompleteScopes,
    /// Why nothing is known of a scope.
    lost: BTreeMap<ScopeKey, String>,
}

/// A list that is under way.
struct Underway {
    listing: Listing,
    seen: HashSet<Name>,
}

impl Dispatcher {
    /// Knows nothing yet.
    #[must_use]
    pub fn new(noise: NoiseFilter) -> Self {
        Self {
            noise,
            redaction: None,
            routing: Arc::default(),
            namespaces: Arc::default(),
            types: HashMap::new(),
            knowledge: BTreeMap::new(),
        }
    }

    /// Redacts Secrets with this key from now on.
    pub fn redact_with(&mut self, key: RedactionKey) {
        self.redaction = Some(key);
    }

    /// Takes what was seen of a scope.
    pub fn observe(&mut self, scope: &Scope, observation: Observation) -> Vec<Effect> {
        let mut effects = Vec::new();
        let key = ScopeKey {
            type_key: scope.type_key.clone(),
            namespace: scope.namespace.clone(),
        };
        let state = self.types.entry(scope.type_key.clone()).or_default();
        match observation {
            Observation::ListStarted => {
                let underway = Underway {
                    listing: Listing::start(key.clone()),
                    seen: HashSet::new(),
                };
                state.listings.insert(key, underway);
            }
            Observation::Seen { object, .. } => self.see(scope, &key, &object, &mut effects),
            Observation::Gone { object } => self.forget(scope, &key, &object, &mut effects),
            Observation::Undecodable { .. } => {
                if let Some(underway) = state.listings.get_mut(&key) {
                    underway.listing.skip_undecodable();
                }
            }
            Observation::Listed(outcome) => self.end_list(key, outcome, &mut effects),
            Observation::Lost { message, .. } => {
                state.listings.remove(&key);
                state.complete.revoke(&key);
                state.lost.insert(key.clone(), message);
                self.tell_knowledge(&key.type_key, &mut effects);
            }
        }
        effects
    }

    /// Takes a new routing. `serves` tells whether a type is still served: a type that is not proves
    /// nothing about its objects.
    pub fn route(
        &mut self,
        routing: &Arc<Routing>,
        namespaces: Arc<BTreeMap<String, reverser_core::labels::Labels>>,
        serves: impl Fn(&TypeKey) -> bool,
    ) -> Vec<Effect> {
        let old = std::mem::replace(&mut self.routing, routing.clone());
        self.namespaces = namespaces;
        let mut effects = Vec::new();
        for (id, destination) in usable(routing) {
            if usable(&old)
                .find(|(other, _)| *other == id)
                .map(|(_, old)| old)
                != Some(destination)
            {
                effects.push(Effect::Writer(
                    destination.target.clone(),
                    id.clone(),
                    ToWriter::Settings(Box::new(destination.clone())),
                ));
            }
        }
        for (id, destination) in usable(&old) {
            let still =
                usable(routing).any(|(other, new)| other == id && new.target == destination.target);
            if !still {
                // Its files stay; only nobody writes there any more.
                effects.push(Effect::Writer(
                    destination.target.clone(),
                    id.clone(),
                    ToWriter::Forget,
                ));
                self.knowledge.remove(id);
                for object in self
                    .types
                    .values_mut()
                    .flat_map(|state| state.objects.values_mut())
                {
                    object.forget_destination(id);
                }
            }
        }
        let deletion = self.one_rule_was_deleted(&old);
        let known: BTreeSet<TypeKey> = self.types.keys().cloned().collect();
        for type_key in known {
            if !routing.needs.contains_key(&type_key) && !serves(&type_key) {
                self.types.remove(&type_key);
                continue;
            }
            self.reconsider(&type_key, deletion, &mut effects);
            if !routing.needs.contains_key(&type_key) {
                self.types.remove(&type_key);
            }
        }
        for (type_key, need) in &routing.needs {
            let before = old.needs.get(type_key);
            let same_forms = need.routes.iter().all(|route| {
                let form = |routing: &Routing| match routing.destinations.get(&route.destination) {
                    Some(Ok(destination)) => {
                        Some((destination.form.clone(), destination.target.clone()))
                    }
                    _ => None,
                };
                form(&old) == form(routing)
            });
            if before.is_some_and(|before| before.routes != need.routes || !same_forms) {
                effects.push(Effect::ListAgain(type_key.clone()));
            }
            self.tell_knowledge(type_key, &mut effects);
        }
        for type_key in old
            .needs
            .keys()
            .filter(|key| !routing.needs.contains_key(*key))
        {
            self.tell_knowledge(type_key, &mut effects);
        }
        effects
    }

    /// The scopes that are needed: a type everywhere, or in each namespace where it may not be
    /// watched everywhere.
    #[must_use]
    pub fn scopes(&self, one_by_one: &HashSet<TypeKey>) -> HashSet<Scope> {
        let scope = |need: &Need, namespace: Option<&String>| Scope {
            type_key: need.served.key.clone(),
            kind: need.served.kind.clone(),
            namespace: namespace.cloned(),
        };
        let mut scopes = HashSet::new();
        for (type_key, need) in &self.routing.needs {
            match &need.namespaces {
                Some(namespaces) if one_by_one.contains(type_key) => {
                    scopes.extend(
                        namespaces
                            .iter()
                            .map(|namespace| scope(need, Some(namespace))),
                    );
                }
                None if one_by_one.contains(type_key) && need.served.namespaced => {
                    let all = self.namespaces.keys();
                    scopes.extend(all.map(|namespace| scope(need, Some(namespace))));
                }
                _ => {
                    scopes.insert(scope(need, None));
                }
            }
        }
        scopes
    }

    /// A destination lacks contents that nobody keeps: its types are listed again, and everything is
    /// sent again.
    pub fn send_again(&mut self, id: &Id) -> Vec<Effect> {
        let mut effects = Vec::new();
        for (type_key, need) in &self.routing.needs {
            if need.routes.iter().any(|route| route.destination == *id) {
                effects.push(Effect::ListAgain(type_key.clone()));
            }
        }
        for object in self
            .types
            .values_mut()
            .flat_map(|state| state.objects.values_mut())
        {
            object.send_again(id);
        }
        effects
    }

    /// How many scopes could not be listed completely.
    #[must_use]
    pub fn unknown_scopes(&self) -> usize {
        self.types.values().map(|state| state.lost.len()).sum()
    }

    /// Scopes that are not watched any more are not known any more.
    pub fn stop_watching(&mut self, scope: &Scope) -> Vec<Effect> {
        let key = ScopeKey {
            type_key: scope.type_key.clone(),
            namespace: scope.namespace.clone(),
        };
        let mut effects = Vec::new();
        if let Some(state) = self.types.get_mut(&key.type_key) {
            state.listings.remove(&key);
            state.complete.revoke(&key);
            state.lost.remove(&key);
            self.tell_knowledge(&key.type_key, &mut effects);
        }
        effects
    }

    fn see(&mut self, scope: &Scope, key: &ScopeKey, json: &str, effects: &mut Vec<Effect>) {
        let api_version = scope.api_version();
        let item_of = Some(TypeMeta {
            api_version: &api_version,
            kind: &scope.kind,
        });
        let state = self.types.entry(key.type_key.clone()).or_default();
        let read = Object::from_json(json, item_of).ok().and_then(|object| {
            let namespace = object.namespace().map(str::to_owned);
            let identity = ObjectKey::new(key.type_key.clone(), namespace, object.name()).ok()?;
            Some((object, identity))
        });
        let Some((object, identity)) = read else {
            // One bad object: the list that contains it proves nothing, and its file stays.
            if let Some(underway) = state.listings.get_mut(key) {
                underway.listing.skip_undecodable();
            }
            return;
        };
        let name = Name::of(&object);
        if let Some(underway) = state.listings.get_mut(key) {
            underway.seen.insert(name.clone());
        }
        let new = ObjectState::of(&object, self.noise.judge(&object));
        let known = state.objects.entry(name).or_default();
        if new.is_older_than(known) {
            return;
        }
        let sent = known.replace_facts(new);
        let path = RepoPath::of(&identity);
        let Some(need) = self.routing.needs.get(&key.type_key) else {
            return;
        };
        let selected = selected_destinations(need, known, identity.namespace(), &self.namespaces);
        let mut content = Content::new(canonicalise(object));
        for (id, operations) in &selected {
            let Some(Ok(destination)) = self.routing.destinations.get(id) else {
                continue;
            };
            let Some((blob, text)) = content.in_form(&destination.form, self.redaction.as_ref())
            else {
                continue;
            };
            known.sent.insert(id.clone(), (blob, *operations));
            if sent.get(id) != Some(&(blob, *operations)) {
                let put = ToWriter::Put {
                    path: path.clone(),
                    wanted: Wanted {
                        blob,
                        operations: *operations,
                    },
                    content: text,
                };
                effects.push(Effect::Writer(destination.target.clone(), id.clone(), put));
            }
        }
        for (id, (blob, operations)) in sent {
            if known.sent.contains_key(&id) {
                continue;
            }
            let Some(Ok(destination)) = self.routing.destinations.get(&id) else {
                continue;
            };
            if destination.keeps_unselected && !selected.contains_key(&id) {
                known.sent.insert(id, (blob, operations));
                continue;
            }
            effects.push(remove(
                destination,
                &id,
                &path,
                operations.delete,
                DeleteProof::Deselected,
            ));
        }
    }

    fn forget(&mut self, scope: &Scope, key: &ScopeKey, json: &str, effects: &mut Vec<Effect>) {
        let api_version = scope.api_version();
        let item_of = Some(TypeMeta {
            api_version: &api_version,
            kind: &scope.kind,
        });
        let Ok(object) = Object::from_json(json, item_of) else {
            return;
        };
        let Some(state) = self.types.get_mut(&key.type_key) else {
            return;
        };
        let name = Name::of(&object);
        if let Some(underway) = state.listings.get_mut(key) {
            underway.seen.remove(&name);
        }
        // A late event about an object whose name is another's by now.
        if state
            .objects
            .get(&name)
            .is_none_or(|known| !known.has_uid(object.uid()))
        {
            return;
        }
        self.drop_object(&key.type_key, &name, DeleteProof::Deleted, effects);
    }

    fn end_list(&mut self, key: ScopeKey, outcome: ListOutcome, effects: &mut Vec<Effect>) {
        let type_key = key.type_key.clone();
        let Some(state) = self.types.get_mut(&type_key) else {
            return;
        };
        let Some(Underway { listing, seen }) = state.listings.remove(&key) else {
            return;
        };
        state.complete.revoke(&key);
        match (outcome, listing.finish()) {
            (ListOutcome::Complete, Listed::Complete(proof)) => {
                state.complete.insert(proof);
                state.lost.remove(&key);
                let in_scope = |name: &Name| {
                    key.namespace.is_none() || name.namespace() == key.namespace.as_deref()
                };
                let gone: Vec<Name> = state
                    .objects
                    .keys()
                    .filter(|name| in_scope(name) && !seen.contains(*name))
                    .cloned()
                    .collect();
                for name in gone {
                    self.drop_object(&type_key, &name, DeleteProof::AbsentFromList, effects);
                }
            }
            (ListOutcome::Partial { .. }, _) | (_, Listed::Partial { .. }) => {
                state
                    .lost
                    .insert(key, "objects could not be decoded".to_owned());
            }
        }
        self.tell_knowledge(&type_key, effects);
    }

    fn drop_object(
        &mut self,
        type_key: &TypeKey,
        name: &Name,
        proof: DeleteProof,
        effects: &mut Vec<Effect>,
    ) {
        let Some(state) = self.types.get_mut(type_key) else {
            return;
        };
        let Some(object) = state.objects.remove(name) else {
            return;
        };
        let Some(path) = name.path(type_key) else {
            return;
        };
        for (id, (_, operations)) in &object.sent {
            if let Some(Ok(destination)) = self.routing.destinations.get(id) {
                effects.push(remove(destination, id, &path, operations.delete, proof));
            }
        }
    }

    /// Takes out of destinations what no rule selects any more.
    fn reconsider(&mut self, type_key: &TypeKey, deletion: bool, effects: &mut Vec<Effect>) {
        let routing = self.routing.clone();
        let Some(state) = self.types.get_mut(type_key) else {
            return;
        };
        let need = routing.needs.get(type_key);
        for (name, object) in &mut state.objects {
            let selected = need.map_or_else(BTreeMap::new, |need| {
                selected_destinations(need, object, name.namespace(), &self.namespaces)
            });
            let dropped: Vec<Id> = object
                .sent
                .keys()
                .filter(|id| !selected.contains_key(*id))
                .cloned()
                .collect();
            for id in dropped {
                let Some(Ok(destination)) = routing.destinations.get(&id) else {
                    continue;
                };
                if destination.keeps_unselected {
                    continue;
                }
                let (Some((_, operations)), Some(path)) =
                    (object.sent.remove(&id), name.path(type_key))
                else {
                    continue;
                };
                let proof = if deletion {
                    DeleteProof::RuleDeleted
                } else {
                    DeleteProof::Deselected
                };
                effects.push(remove(destination, &id, &path, operations.delete, proof));
            }
        }
    }

    /// Whether the routing changed by one rule having been deleted, which a person did on purpose.
    fn one_rule_was_deleted(&self, old: &Routing) -> bool {
        let deleted = old
            .rules
            .keys()
            .filter(|id| !self.routing.rules.contains_key(*id))
            .count();
        deleted == 1
    }

    /// Tells every destination of a type what is known, if that has changed.
    fn tell_knowledge(&mut self, type_key: &TypeKey, effects: &mut Vec<Effect>) {
        let routing = self.routing.clone();
        let of_type = |need: &Need| {
            need.routes
                .iter()
                .map(|route| route.destination.clone())
                .collect::<BTreeSet<Id>>()
        };
        let mut concerned = routing.needs.get(type_key).map(of_type).unwrap_or_default();
        concerned.extend(
            self.knowledge
                .iter()
                .filter(|(_, known)| known.mentions(type_key))
                .map(|(id, _)| id.clone()),
        );
        for id in concerned {
            let Some(Ok(destination)) = routing.destinations.get(&id) else {
                continue;
            };
            let knowledge = self.knowledge_of(&id, destination);
            if self.knowledge.get(&id) != Some(&knowledge) {
                self.knowledge.insert(id.clone(), knowledge.clone());
                let message = ToWriter::Knowledge(Box::new(knowledge));
                effects.push(Effect::Writer(destination.target.clone(), id, message));
            }
        }
    }

    fn knowledge_of(&self, id: &Id, destination: &Destination) -> Knowledge {
        let mut knowledge = Knowledge::default();
        for (type_key, need) in &self.routing.needs {
            let mut routes = need
                .routes
                .iter()
                .filter(|route| route.destination == *id)
                .peekable();
            if routes.peek().is_none() {
                continue;
            }
            let deletes = routes.any(|route| route.part.operations.delete);
            let state = self.types.get(type_key);
            knowledge.add(
                type_key,
                deletes && !destination.keeps_unselected,
                state.map(|state| (&state.complete, &state.lost)),
            );
        }
        knowledge
    }
}

fn usable(routing: &Routing) -> impl Iterator<Item = (&Id, &Destination)> {
    routing
        .destinations
        .iter()
        .filter_map(|(id, destination)| Some((id, destination.as_ref().ok()?)))
}

/// A file is not wanted any more. Without the operation it stays where it is.
fn remove(
    destination: &Destination,
    id: &Id,
    path: &RepoPath,
    deletes: bool,
    proof: DeleteProof,
) -> Effect {
    let message = ToWriter::Remove {
        path: path.clone(),
        proof: deletes.then_some(proof),
    };
    Effect::Writer(destination.target.clone(), id.clone(), message)
}
