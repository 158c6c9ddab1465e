//! What those see who look from outside.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use reverser_core::catalogue::{Catalogue, ServedType};
use reverser_core::object::{Object, TypeMeta};
use reverser_git::{PushListener, PushProgress};
use tokio::sync::watch;

use super::discovering::Served;
use crate::telemetry::Telemetry;
use crate::telemetry::facts::{EventProcessed, ObjectListed};
use crate::telemetry::labels::{Gvk, ObjectScope, TypeLabels};
use crate::telemetry::state::OperatorState;
use crate::watch::{Observation, Scope};
use crate::writer::{Common, TypeNames};

/// How far the operator's loop has come; can be read from anywhere at any time.
#[derive(Debug, Default)]
pub struct Progress {
    watched_types: AtomicUsize,
    unknown_scopes: AtomicUsize,
    scopes: AtomicUsize,
    ended_lists: AtomicUsize,
    listed_objects: AtomicUsize,
    last_round: Mutex<Option<Instant>>,
    pushed: Mutex<Option<PushProgress>>,
}

impl Progress {
    /// The loop goes round.
    pub(super) fn round(&self) {
        *locked(&self.last_round) = Some(Instant::now());
    }

    fn last_round(&self) -> Option<Instant> {
        *locked(&self.last_round)
    }

    /// How many lists are needed: one for each type, or for each type and namespace.
    #[must_use]
    pub fn lists(&self) -> usize {
        self.scopes.load(Ordering::Relaxed)
    }

    /// How many lists have come to an end, either way.
    #[must_use]
    pub fn ended_lists(&self) -> usize {
        self.ended_lists.load(Ordering::Relaxed)
    }

    /// How many objects were in them.
    #[must_use]
    pub fn listed_objects(&self) -> usize {
        self.listed_objects.load(Ordering::Relaxed)
    }

    /// How far the push is that is under way, or the last one was.
    #[must_use]
    pub fn pushed(&self) -> Option<PushProgress> {
        locked(&self.pushed).clone()
    }

    /// Hears how far pushes are.
    #[must_use]
    pub fn push_listener(self: &Arc<Self>) -> PushListener {
        let this = self.clone();
        PushListener::new(move |progress| *locked(&this.pushed) = Some(progress))
    }

    pub(super) fn set_watched(&self, types: usize, scopes: usize) {
        self.watched_types.store(types, Ordering::Relaxed);
        self.scopes.store(scopes, Ordering::Relaxed);
    }

    pub(super) fn set_unknown(&self, scopes: usize) {
        self.unknown_scopes.store(scopes, Ordering::Relaxed);
    }

    pub(super) fn note(&self, observation: &Observation) {
        let counter = match observation {
            Observation::Seen { live: false, .. } => &self.listed_objects,
            Observation::Listed(_) | Observation::Lost { .. } => &self.ended_lists,
            _ => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets a scrape read how things stand.
pub(super) fn show_state(telemetry: &Telemetry, common: &Arc<Common>, progress: Arc<Progress>) {
    // The telemetry keeps this closure, and the writers keep the telemetry.
    let common = Arc::downgrade(common);
    telemetry.read_state_from(move || {
        let common = common.upgrade();
        OperatorState {
            watched_types: progress.watched_types.load(Ordering::Relaxed),
            unknown_scopes: progress.unknown_scopes.load(Ordering::Relaxed),
            active_workers: common.as_ref().map_or(0, |common| common.active_workers()),
            branches: common.map(|common| common.branches()).unwrap_or_default(),
            last_round: progress.last_round(),
        }
    });
}

/// How types are called in metrics, as far as the cluster serves them.
pub(super) fn type_names(served: watch::Receiver<Option<Served>>) -> TypeNames {
    Box::new(move |key| {
        let served = served.borrow();
        served.as_ref()?.catalogue.get(key).map(labels_of)
    })
}

fn labels_of(served: &ServedType) -> TypeLabels {
    let scope = if served.namespaced {
        ObjectScope::Namespaced
    } else {
        ObjectScope::Cluster
    };
    let gvk = Gvk::new(served.key.group(), served.key.version(), &served.kind);
    TypeLabels::new(gvk, scope)
}

/// Counts what a watch tells.
pub(super) fn note(
    telemetry: &Telemetry,
    catalogue: &Catalogue,
    scope: &Scope,
    observation: &Observation,
) {
    let Some(of) = catalogue.get(&scope.type_key).map(labels_of) else {
        return;
    };
    let (event, json) = match observation {
        Observation::Seen { live: false, .. } => {
            return telemetry.emit(ObjectListed { of: &of });
        }
        Observation::Seen { object, added, .. } => {
            (if *added { "ADDED" } else { "MODIFIED" }, object)
        }
        Observation::Gone { object } => ("DELETED", object),
        Observation::ListStarted
        | Observation::Undecodable { .. }
        | Observation::Listed(_)
        | Observation::Lost { .. } => return,
    };
    // The name is only for the log, and reading the object a second time is not worth it.
    let (namespace, name) = if EventProcessed::is_logged() {
        name_in(scope, json)
    } else {
        (None, String::new())
    };
    telemetry.emit(EventProcessed {
        of: &of,
        event,
        namespace: namespace.as_deref(),
        name: &name,
    });
}

fn name_in(scope: &Scope, json: &str) -> (Option<String>, String) {
    let api_version = scope.api_version();
    let item_of = Some(TypeMeta {
        api_version: &api_version,
        kind: &scope.kind,
    });
    let Ok(object) = Object::from_json(json, item_of) else {
        return (None, String::new());
    };
    let namespace = object.namespace().map(str::to_owned);
    (namespace, object.name().to_owned())
}
