//! What destinations are told of an object that was seen.

use std::collections::BTreeMap;

use reverser_core::object_key::ObjectKey;
use reverser_core::plan::{DeleteProof, Operations, Wanted};
use reverser_core::redaction::RedactionKey;
use reverser_core::repo_path::RepoPath;

use super::object_state::Sent;
use super::origins::Asked;
use super::remove;
use super::sent::{Content, Effect, ToWriter};
use crate::identity::Id;
use crate::routing::{Destination, Routing};

/// One object, and all that is needed to tell of it.
pub(super) struct Telling<'d> {
    pub(super) routing: &'d Routing,
    pub(super) redaction: Option<&'d RedactionKey>,
    pub(super) identity: &'d ObjectKey,
    pub(super) path: RepoPath,
    pub(super) origin: Asked<'d>,
    pub(super) effects: &'d mut Vec<Effect>,
}

impl Telling<'_> {
    /// Sends it to those who want it, if it is news to them. Gives what each of them has now.
    pub(super) fn send(
        &mut self,
        selected: &BTreeMap<Id, Operations>,
        before: &Sent,
        content: &mut Content<'_>,
    ) -> Sent {
        let mut sent = Sent::default();
        for (id, operations) in selected {
            let Some(destination) = self.destination(id) else {
                continue;
            };
            let Some((blob, text)) = content.in_form(&destination.form, self.redaction) else {
                continue;
            };
            let what = (blob, *operations);
            sent.insert(id.clone(), what);
            if before.get(id) == Some(&what) {
                continue;
            }
            let put = ToWriter::Put {
                path: self.path.clone(),
                wanted: Wanted {
                    blob,
                    operations: *operations,
                },
                content: text.into_owned().into(),
                origin: self.origin.of(content),
            };
            let target = destination.target.clone();
            self.effects.push(Effect::Writer(target, id.clone(), put));
        }
        sent
    }

    /// Takes it out of those who had it and want it no more.
    pub(super) fn take_back(&mut self, before: &Sent, now: &Sent, content: &mut Content<'_>) {
        let dropped = before.iter().filter(|(id, _)| now.get(id).is_none());
        for (id, (_, operations)) in dropped {
            let Some(destination) = self.destination(id) else {
                continue;
            };
            let (type_key, namespace) = (self.identity.type_key(), self.identity.namespace());
            let kept = self.routing.kept.contain(id, type_key, namespace);
            let deletes = operations.delete && !kept;
            let proof = DeleteProof::Deselected;
            let origin = self.origin.of(content);
            let removal = remove(destination, id, &self.path, deletes, proof, origin);
            self.effects.push(removal);
        }
    }

    fn destination(&self, id: &Id) -> Option<&Destination> {
        self.routing.destinations.get(id)?.as_ref().ok()
    }
}
