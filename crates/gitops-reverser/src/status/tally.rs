//! How many objects are not Ready, for those who look from outside.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use reverser_api::conditions::condition;

use crate::routing::OwnKind;
use crate::telemetry::Telemetry;
use crate::telemetry::facts::ObjectsNotReady;

type Counts = BTreeMap<(OwnKind, String), usize>;

/// Counts the objects of a round by kind and reason.
#[derive(Default)]
pub(super) struct Tally {
    counted: Counts,
    told: Counts,
}

impl Tally {
    /// One more object, with these conditions.
    pub(super) fn count(&mut self, kind: OwnKind, conditions: &[Condition]) {
        let ready = conditions.iter().find(|one| one.type_ == condition::READY);
        if let Some(ready) = ready.filter(|ready| ready.status != "True") {
            let key = (kind, ready.reason.clone());
            *self.counted.entry(key).or_default() += 1;
        }
    }

    /// The round is over.
    pub(super) fn tell(&mut self, telemetry: &Telemetry) {
        let counted = std::mem::take(&mut self.counted);
        let told = std::mem::replace(&mut self.told, counted);
        let gone = told.keys().filter(|key| !self.told.contains_key(key));
        let gone = gone.map(|key| (key, 0));
        let there = self.told.iter().map(|(key, objects)| (key, *objects));
        for ((kind, reason), objects) in there.chain(gone) {
            telemetry.emit(ObjectsNotReady {
                kind: kind.name(),
                reason,
                objects,
            });
        }
    }
}
