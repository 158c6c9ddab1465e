//! From observations to what each destination should hold.
//!
//! One owner of everything that is known about objects: it takes observations and changes of the
//! routing, and says what follows for writers and watches. It does nothing itself, so that every
//! sequence of events can be tested without a cluster.
//!
//! Of an object it keeps what selection asks and the id of what was sent, never its content. A rule
//! that comes to select more has its types listed again.

mod knowledge;
mod object_state;
mod origins;
mod rerouting;
mod rule_scopes;
mod sent;
mod telling;
mod unreadable;
#[cfg(test)]
mod origin_tests;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use reverser_core::attribution::Origin;
use reverser_core::canon::canonicalise;
use reverser_core::definitions::Definitions;
use reverser_core::noise::NoiseFilter;
use reverser_core::object::{Object, TypeMeta};
use reverser_core::object_key::{ObjectKey, TypeKey};
use reverser_core::plan::DeleteProof;
use reverser_core::redaction::RedactionKey;
use reverser_core::repo_path::RepoPath;
use reverser_core::scope::{CompleteScopes, Listed, Listing, ScopeKey};
use reverser_core::selection::Reach;

pub use self::knowledge::Knowledge;
use self::object_state::{ListNumber, Name, ObjectState};
use self::origins::{Sight, Written};
pub use self::rule_scopes::{Loss, RuleScopes};
use self::sent::{Content, selected_destinations, together};
pub use self::sent::{Effect, ToWriter};
use self::telling::Telling;
use self::unreadable::{Bad, Gaps, OfList};
use crate::attribution::Attribution;
use crate::identity::Id;
use crate::routing::{Destination, Need, Route, Routing};
use crate::watch::{ListOutcome, Observation, Scope};

/// What is known, and where it goes.
pub struct Dispatcher {
    noise: NoiseFilter,
    attribution: Attribution,
    /// Where Secrets are to be redacted.
    redaction: Option<RedactionKey>,
    routing: Arc<Routing>,
    namespaces: Arc<BTreeMap<String, reverser_core::labels::Labels>>,
    types: HashMap<TypeKey, TypeState>,
    knowledge: BTreeMap<Id, Knowledge>,
    /// How many rounds of lists there were, of all destinations.
    rounds: u64,
    definitions: Option<Arc<Definitions>>,
}

/// One type.
#[derive(Default)]
struct TypeState {
    /// Boxed, because a table has up to twice as many places as it holds.
    objects: HashMap<Name, Box<ObjectState>>,
    listings: HashMap<ScopeKey, Underway>,
    /// The number of the last list that began.
    lists: ListNumber,
    complete: CompleteScopes,
    /// Why nothing is known of a scope.
    lost: BTreeMap<ScopeKey, Loss>,
    /// Why nothing is known of some namespaces of a scope that is known otherwise.
    gaps: BTreeMap<ScopeKey, Gaps>,
    /// The scopes that are watched; nothing until that is decided.
    watched: Option<BTreeSet<ScopeKey>>,
    /// Destinations that want what they were not sent, because its content is not kept: until the
    /// next list of the scope, not everything is known for them.
    awaiting: BTreeSet<(ScopeKey, Id)>,
    /// Destinations for which a list was asked for that has not come to its end.
    asked: BTreeSet<Id>,
    /// Whether what is wanted has changed since it was asked for.
    ask_again: bool,
    /// Destinations to which everything is sent again by a list that has not come to its end.
    resending: BTreeSet<Id>,
}

/// A list that is under way.
struct Underway {
    listing: Listing,
    number: ListNumber,
    unreadable: OfList,
    /// After a loss the cluster may have gone back in time (a restored backup): then the list is
    /// true as it is, although its versions are older than those that were known.
    accepts_older: bool,
}

impl Dispatcher {
    /// Knows nothing yet.
    #[must_use]
    pub fn new(noise: NoiseFilter, attribution: Attribution) -> Self {
        Self {
            noise,
            attribution,
            redaction: None,
            routing: Arc::default(),
            namespaces: Arc::default(),
            types: HashMap::new(),
            knowledge: BTreeMap::new(),
            rounds: 0,
            definitions: None,
        }
    }

    /// Redacts Secrets with this key from now on.
    pub fn redact_with(&mut self, key: RedactionKey) {
        self.redaction = Some(key);
    }

    /// Takes what was seen of a scope.
    pub fn observe(&mut self, scope: &Scope, observation: Observation) -> Vec<Effect> {
        let mut effects = Vec::new();
        let key = ScopeKey::from(scope);
        let state = self.types.entry(scope.type_key.clone()).or_default();
        match observation {
            Observation::ListStarted => {
                let underway = Underway {
                    listing: Listing::start(key.clone()),
                    number: state.lists.next(),
                    unreadable: OfList::default(),
                    accepts_older: state.lost.contains_key(&key),
                };
                state.listings.insert(key, underway);
            }
            Observation::Seen {
                object,
                live,
                added,
            } => {
                let sight = match (live, added) {
                    (true, true) => Sight::Added,
                    (true, false) => Sight::Modified,
                    (false, _) => Sight::Listed,
                };
                self.see(scope, &key, &object, sight, &mut effects);
            }
            Observation::Gone { object } => self.forget(scope, &key, &object, &mut effects),
            Observation::Undecodable { name, reason } => {
                self.cannot_read(&key, &Bad::new(name, reason), &mut effects);
            }
            Observation::Listed(outcome) => self.end_list(key, outcome, &mut effects),
            Observation::Lost { reason, message } => {
                state.listings.remove(&key);
                state.complete.revoke(&key);
                state.awaiting.retain(|(scope, _)| *scope != key);
                state.gaps.remove(&key);
                state.lost.insert(key.clone(), Loss::new(reason, message));
                self.tell_knowledge(&key.type_key, &mut effects);
            }
        }
        effects
    }

    /// Takes what defines types; nothing until that is known.
    pub fn define(&mut self, definitions: Option<Arc<Definitions>>) {
        self.definitions = definitions;
    }

    /// Forgets everything, as if it had just started: nothing that was known before proves anything.
    pub fn start_anew(&mut self) -> Vec<Effect> {
        let Self {
            noise: _,
            rounds: _,
            attribution: _,
            redaction: _,
            routing,
            namespaces,
            types,
            knowledge,
            definitions: _,
        } = self;
        let old = std::mem::take(routing);
        *namespaces = Arc::default();
        types.clear();
        knowledge.clear();
        let forget = usable(&old).map(|(id, destination)| {
            Effect::Writer(destination.target.clone(), id.clone(), ToWriter::Forget)
        });
        forget.collect()
    }

    /// Types of which some objects could not be read: a later list may go better.
    #[must_use]
    pub fn partly_read(&self) -> BTreeSet<TypeKey> {
        let partial = self.types.iter().filter(|(_, state)| {
            let mut losses = state.lost.values();
            !state.gaps.is_empty()
                || losses.any(|loss| loss.why.starts_with(unreadable::PARTLY_READ))
        });
        partial.map(|(type_key, _)| type_key.clone()).collect()
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
                Some(namespaces) if one_by_one.contains(type_key) && need.served.namespaced => {
                    scopes.extend(
                        namespaces
                            .iter()
                            .map(|namespace| scope(need, Some(namespace))),
                    );
                }
                // Where it may not be watched everywhere, the namespaces that are meant are enough. With
                // none known, the one list that was refused says why.
                None if one_by_one.contains(type_key)
                    && need.served.namespaced
                    && !self.namespaces.is_empty() =>
                {
                    let meant = self.namespaces.keys();
                    let meant = meant.filter(|namespace| self.reach(&need.routes, namespace));
                    scopes.extend(meant.map(|namespace| scope(need, Some(namespace))));
                }
                _ => {
                    scopes.insert(scope(need, None));
                }
            }
        }
        scopes
    }

    /// Whether one of these rules means objects of that namespace.
    fn reach<'r>(&self, routes: impl IntoIterator<Item = &'r Route>, namespace: &str) -> bool {
        let labels = self.namespaces.get(namespace);
        let label = |key: &str| {
            labels
                .and_then(|labels| labels.get(key))
                .map(String::as_str)
        };
        let mut routes = routes.into_iter();
        routes.any(|route| match &route.part.reach {
            Reach::Namespaces(selector) => selector.selects(label),
            reach => reach.may_be(Some(namespace)),
        })
    }

    /// A destination lacks contents that nobody keeps: its types are listed again, and everything is
    /// sent again. It waits meanwhile; a list that does so already is left to come to its end.
    pub fn send_again(&mut self, id: &Id) -> Vec<Effect> {
        let mut effects = Vec::new();
        for (type_key, need) in &self.routing.needs {
            if need.routes_to(id).next().is_none() {
                continue;
            }
            let Some(state) = self.types.get_mut(type_key) else {
                continue;
            };
            if !state.resending.insert(id.clone()) {
                continue;
            }
            for proof in state.complete.iter() {
                state.awaiting.insert((proof.scope().clone(), id.clone()));
            }
            for object in state.objects.values_mut() {
                object.send_again(id);
            }
            effects.push(Effect::ListAgain(type_key.clone()));
        }
        self.tell_destinations([id.clone()], &mut effects);
        effects
    }

    /// Whether everything is known of a scope.
    #[must_use]
    pub fn knows(&self, scope: &Scope) -> bool {
        let key = ScopeKey::from(scope);
        let state = self.types.get(&scope.type_key);
        state.is_some_and(|state| state.complete.contains(&key))
    }

    /// How many scopes could not be listed completely.
    #[must_use]
    pub fn unknown_scopes(&self) -> usize {
        let of_type = |state: &TypeState| {
            let gaps = state.gaps.values().map(Gaps::len);
            state.lost.len() + gaps.sum::<usize>()
        };
        self.types.values().map(of_type).sum()
    }

    /// Scopes that are not watched any more are not known any more.
    pub fn stop_watching(&mut self, scope: &Scope) -> Vec<Effect> {
        let key = ScopeKey::from(scope);
        let mut effects = Vec::new();
        if let Some(state) = self.types.get_mut(&key.type_key) {
            state.listings.remove(&key);
            state.complete.revoke(&key);
            state.awaiting.retain(|(scope, _)| *scope != key);
            state.lost.remove(&key);
            state.gaps.remove(&key);
            self.tell_knowledge(&key.type_key, &mut effects);
        }
        effects
    }

    fn see(
        &mut self,
        scope: &Scope,
        key: &ScopeKey,
        json: &str,
        sight: Sight,
        effects: &mut Vec<Effect>,
    ) {
        let api_version = scope.api_version();
        let item_of = Some(TypeMeta {
            api_version: &api_version,
            kind: &scope.kind,
        });
        let read = Object::from_json(json, item_of).map_err(|error| error.to_string());
        let read = read.and_then(|object| {
            let namespace = object.namespace().map(str::to_owned);
            let identity = ObjectKey::new(key.type_key.clone(), namespace, object.name());
            let identity = identity.map_err(|error| error.to_string())?;
            Ok((object, identity))
        });
        let (object, identity) = match read {
            Ok(read) => read,
            Err(why) => {
                return self.cannot_read(key, &Bad::object(json, why), effects);
            }
        };
        let state = self.types.entry(key.type_key.clone()).or_default();
        let name = Name::of(&object);
        if sight != Sight::Listed {
            Self::may_be_repaired(state, key, name.namespace(), effects);
        }
        let new = ObjectState::of(&object, self.noise.judge(&object));
        let known = state.objects.entry(name).or_default();
        let mut accepts_older = false;
        if let Some(underway) = state.listings.get(key) {
            known.note_listed(underway.number);
            accepts_older = underway.accepts_older && sight == Sight::Listed;
        }
        if new.is_older_than(known) && !accepts_older {
            return;
        }
        let before = known.replace_facts(new);
        let need = self.routing.needs.get(&key.type_key);
        let selected = need.map_or_else(BTreeMap::new, |need| {
            selected_destinations(need, known, identity.namespace(), &self.namespaces)
        });
        let follows = !selected.is_empty() || !before.sent.is_empty();
        let written = Written::read(&object, sight, &before, follows, &self.attribution);
        let was_absent = state.complete.covers(&key.type_key, object.namespace());
        known.past = written.past(&before, &self.attribution);
        if !follows {
            return;
        }
        let who_deletes = known.past.deleter.clone();
        let mut content = Content::new(canonicalise(object));
        let origin = written.origin(&before, who_deletes.as_ref(), was_absent, &self.attribution);
        let mut telling = Telling {
            routing: &self.routing,
            redaction: self.redaction.as_ref(),
            identity: &identity,
            path: RepoPath::of(&identity),
            origin,
            effects,
        };
        known.sent = telling.send(&selected, &before.sent, &mut content);
        telling.take_back(&before.sent, &known.sent, &mut content);
        written.keep_form(known, &before, &content);
    }

    fn forget(&mut self, scope: &Scope, key: &ScopeKey, json: &str, effects: &mut Vec<Effect>) {
        let api_version = scope.api_version();
        let item_of = Some(TypeMeta {
            api_version: &api_version,
            kind: &scope.kind,
        });
        let object = match Object::from_json(json, item_of) {
            Ok(object) => object,
            Err(error) => {
                let bad = Bad::deleted(json, &error.to_string());
                return self.cannot_read(key, &bad, effects);
            }
        };
        let Some(state) = self.types.get_mut(&key.type_key) else {
            return;
        };
        let name = Name::of(&object);
        // A late event about an object whose name is another's by now.
        let Some(known) = state
            .objects
            .get(&name)
            .filter(|known| known.has_uid(object.uid()))
        else {
            return;
        };
        let origin = origins::of_deletion(known, &object, &self.attribution);
        let proof = DeleteProof::Deleted;
        self.drop_object(&key.type_key, &name, proof, origin.as_ref(), effects);
    }

    fn end_list(&mut self, key: ScopeKey, outcome: ListOutcome, effects: &mut Vec<Effect>) {
        let type_key = key.type_key.clone();
        let Some(state) = self.types.get_mut(&type_key) else {
            return;
        };
        let Some(underway) = state.listings.remove(&key) else {
            return;
        };
        let Underway {
            listing,
            number,
            unreadable,
            accepts_older: _,
        } = underway;
        state.complete.revoke(&key);
        state.awaiting.retain(|(scope, _)| *scope != key);
        state.resending.clear();
        state.gaps.remove(&key);
        let all_told = match outcome {
            ListOutcome::Complete => true,
            ListOutcome::Partial { undecodable } => undecodable <= unreadable.count(),
        };
        match listing.finish() {
            Listed::Complete(proof) if all_told => {
                state.lost.remove(&key);
                let gaps = unreadable.gaps();
                if !gaps.is_empty() {
                    let sentence = unreadable.whole().to_string();
                    effects.push(Effect::Unreadable(key.clone(), sentence));
                    state.gaps.insert(key.clone(), gaps);
                }
                let in_scope = |name: &Name| {
                    let there =
                        key.namespace.is_none() || name.namespace() == key.namespace.as_deref();
                    there && !proof.leaves_out(name.namespace())
                };
                let gone: Vec<Name> = state
                    .objects
                    .iter()
                    .filter(|(name, object)| in_scope(name) && !object.is_listed_since(number))
                    .map(|(name, _)| name.clone())
                    .collect();
                state.complete.insert(proof);
                state.asked.clear();
                let ask_again = std::mem::take(&mut state.ask_again);
                let mut removals = Vec::new();
                for name in gone {
                    let proof = DeleteProof::AbsentFromList;
                    self.drop_object(&type_key, &name, proof, None, &mut removals);
                }
                if ask_again {
                    let lacking = self.reconsider(&type_key, false, &mut removals);
                    self.ask_for_list(&type_key, lacking, true, effects);
                }
                effects.append(&mut together(removals));
            }
            Listed::Complete(_) | Listed::Partial { .. } => {
                let sentence = unreadable.whole().to_string();
                let loss = Loss::unreadable(sentence.clone());
                state.lost.insert(key.clone(), loss);
                effects.push(Effect::Unreadable(key, sentence));
            }
        }
        self.tell_knowledge(&type_key, effects);
    }

    fn drop_object(
        &mut self,
        type_key: &TypeKey,
        name: &Name,
        proof: DeleteProof,
        origin: Option<&Arc<Origin>>,
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
        for (id, (_, operations)) in object.sent.iter() {
            if let Some(Ok(destination)) = self.routing.destinations.get(id) {
                let (deletes, origin) = (operations.delete, origin.cloned());
                effects.push(remove(destination, id, &path, deletes, proof, origin));
            }
        }
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
    origin: Option<Arc<Origin>>,
) -> Effect {
    let message = ToWriter::Remove {
        path: path.clone(),
        proof: deletes.then_some(proof),
        origin,
    };
    Effect::Writer(destination.target.clone(), id.clone(), message)
}
