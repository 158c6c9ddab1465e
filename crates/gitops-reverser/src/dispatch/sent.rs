//! What follows from what was seen.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use reverser_api::git_destination::SecretsMode;
use reverser_core::attribution::Origin;
use reverser_core::blob_id::BlobId;
use reverser_core::canon::Manifest;
use reverser_core::labels::Labels;
use reverser_core::object_key::TypeKey;
use reverser_core::plan::{DeleteProof, Operations, Wanted, Withdrawn};
use reverser_core::redaction::RedactionKey;
use reverser_core::repo_path::RepoPath;
use reverser_core::scope::ScopeKey;
use reverser_core::selection::Facts;

use super::knowledge::Knowledge;
use super::object_state::ObjectState;
use crate::identity::Id;
use crate::routing::{Destination, Form, Need, Target};

/// What is to be done.
#[derive(Debug)]
pub enum Effect {
    /// Tell the writer of a branch about one of its destinations.
    Writer(Target, Id, ToWriter),
    /// List a type again: contents are needed that are not kept.
    ListAgain(TypeKey),
    /// Something happened where objects of a type cannot be read: it may have been their repair.
    ListSoon(TypeKey),
    /// Say which objects of a scope cannot be read.
    Unreadable(ScopeKey, String),
}

/// What a writer is told about a destination.
#[derive(Debug)]
pub enum ToWriter {
    /// How it is to be written from now on.
    Settings(Box<Destination>),
    /// It is not written any more.
    Forget,
    /// A file should have this content.
    Put {
        /// Where.
        path: RepoPath,
        /// What.
        wanted: Wanted,
        /// The content.
        content: Box<str>,
        /// Whose change it is; nothing where no change was seen.
        origin: Option<Arc<Origin>>,
    },
    /// A file is not wanted any more.
    Remove {
        /// Where.
        path: RepoPath,
        /// Why it may go; without a reason it stays.
        proof: Option<DeleteProof>,
        /// Whose change it is; nothing where no change was seen.
        origin: Option<Arc<Origin>>,
    },
    /// What is known about the types of this destination.
    Knowledge(Box<Knowledge>),
    /// The last rule that selected a type does not do so any more.
    Withdraw(TypeKey, Withdrawn),
    /// These became true at once: to act on some of them before the others are known would hide how
    /// much goes.
    Together(Vec<ToWriter>),
}

/// Lets each destination hear at once what is here for it, in the same order. Only what writers are
/// told may be here.
pub(super) fn together(effects: Vec<Effect>) -> Vec<Effect> {
    let mut others = Vec::new();
    let mut of_destinations: BTreeMap<(Target, Id), Vec<ToWriter>> = BTreeMap::new();
    for effect in effects {
        match effect {
            Effect::Writer(target, id, message) => {
                let messages = of_destinations.entry((target, id)).or_default();
                messages.push(message);
            }
            other => others.push(other),
        }
    }
    let joined = of_destinations
        .into_iter()
        .map(|((target, id), messages)| Effect::Writer(target, id, ToWriter::Together(messages)));
    others.into_iter().chain(joined).collect()
}

/// The destinations that want an object, and what may be done about differences.
pub(super) fn selected_destinations(
    need: &Need,
    object: &ObjectState,
    namespace: Option<&str>,
    namespaces: &BTreeMap<String, Labels>,
) -> BTreeMap<Id, Operations> {
    let labels = namespace.and_then(|namespace| namespaces.get(namespace));
    let namespace_label = |key: &str| {
        labels
            .and_then(|labels| labels.get(key))
            .map(String::as_str)
    };
    let facts = Facts {
        namespace,
        noise: object.noise,
    };
    let mut selected: BTreeMap<Id, Operations> = BTreeMap::new();
    for route in &need.routes {
        if route
            .part
            .selects(facts, route.named_although_excluded, namespace_label)
            && route.selector.selects(|key| object.label(key))
        {
            let operations = route.part.operations;
            selected
                .entry(route.destination.clone())
                .and_modify(|known| *known = known.or(operations))
                .or_insert(operations);
        }
    }
    selected
}

/// An object's manifest, written once for each form that is asked for.
pub(super) struct Content<'a> {
    manifest: Manifest<'a>,
    plain: Option<(BlobId, String)>,
}

impl<'a> Content<'a> {
    pub(super) fn new(manifest: Manifest<'a>) -> Self {
        Self {
            manifest,
            plain: None,
        }
    }

    pub(super) fn manifest(&self) -> &Manifest<'a> {
        &self.manifest
    }

    /// The id of the form in which nothing is left out.
    pub(super) fn form(&mut self) -> BlobId {
        self.plain.get_or_insert_with(|| written(&self.manifest)).0
    }

    /// The same, if it was asked for before.
    pub(super) fn known_form(&self) -> Option<BlobId> {
        self.plain.as_ref().map(|(blob, _)| *blob)
    }

    /// The content in a destination's form; nothing if it does not want the object at all.
    pub(super) fn in_form(
        &mut self,
        form: &Form,
        redaction: Option<&RedactionKey>,
    ) -> Option<(BlobId, Cow<'_, str>)> {
        let redaction = match form.secrets {
            _ if !self.manifest.is_secret() => None,
            SecretsMode::AsIs => None,
            SecretsMode::Skip => return None,
            // Without the key nothing may be written at all.
            SecretsMode::Redact => Some(redaction?),
        };
        if form.ignored.is_empty() && redaction.is_none() {
            let (blob, text) = self.plain.get_or_insert_with(|| written(&self.manifest));
            return Some((*blob, Cow::Borrowed(text)));
        }
        let mut manifest = self.manifest.clone();
        form.ignored.remove_from(&mut manifest);
        if let Some(redaction) = redaction {
            redaction.redact(&mut manifest);
        }
        let (blob, text) = written(&manifest);
        Some((blob, Cow::Owned(text)))
    }
}

/// Whether a destination wants the objects of a type at all.
pub(super) fn writes(form: &Form, type_key: &TypeKey) -> bool {
    let secrets = type_key.group().is_empty() && type_key.resource() == "secrets";
    !secrets || form.secrets != SecretsMode::Skip
}

fn written(manifest: &Manifest<'_>) -> (BlobId, String) {
    let text = manifest.to_yaml();
    (BlobId::of(text.as_bytes()), text)
}
