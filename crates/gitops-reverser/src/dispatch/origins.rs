//! Whose change it is that was seen of an object.
//!
//! Asked once for each event, and only if something follows from it for some destination: every destination has the
//! same answer.

use std::cell::OnceCell;
use std::sync::Arc;

use reverser_core::admission_record::FormId;
use reverser_core::attribution::{Before, Origin, Transition};
use reverser_core::object::{Managers, ManagersId, Object};

use super::object_state::{ObjectState, Past};
use super::sent::Content;
use crate::attribution::Attribution;

/// How an object was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// It was made just now.
    Added,
    /// It changed just now.
    Modified,
    /// A list named it.
    Listed,
}

/// What an object says about who wrote it, read before its canonical form drops that.
pub(super) struct Written {
    uid: Box<str>,
    namespace: Option<Box<str>>,
    sight: Sight,
    /// Whether the same object was known before.
    known: bool,
    changed: bool,
    managers: Option<ManagersId>,
    manager: Option<String>,
    replicas: Option<i64>,
    /// Who owns it, if it is being deleted.
    deleting: Option<Box<[Box<str>]>>,
}

impl Written {
    pub(super) fn read(
        object: &Object<'_>,
        sight: Sight,
        before: &ObjectState,
        follows: bool,
        attribution: &Attribution,
    ) -> Self {
        let known = before.has_uid(object.uid()) && !object.uid().is_empty();
        let changed = !known || !before.is_at_version(object.resource_version());
        // Most objects of a list are told for the first time, and nobody has touched them.
        let asks = match sight {
            Sight::Added | Sight::Modified => follows,
            Sight::Listed => follows && changed && (known || attribution.knows(object.uid())),
        };
        let managers = if asks { object.managers() } else { None };
        let owners = || object.owner_uids().map(Into::into).collect();
        Self {
            uid: object.uid().into(),
            namespace: object.namespace().map(Into::into),
            sight,
            known,
            changed: changed && asks,
            managers: managers.as_ref().map(Managers::id),
            manager: managers.as_ref().and_then(Managers::newest),
            replicas: object.replicas(),
            deleting: object.is_being_deleted().then(owners),
        }
    }

    /// What is kept: the one who asked for its deletion stays with the object until it is gone.
    pub(super) fn past(&self, before: &ObjectState, attribution: &Attribution) -> Past {
        let deleter = match (&self.deleting, &before.past.deleter) {
            (None, _) => None,
            (Some(_), Some(deleter)) if self.known => Some(deleter.clone()),
            (Some(owners), _) if self.known && self.sight == Sight::Modified => {
                let transition = Transition::Deleting {
                    version: before.version(),
                    owners: owners.clone(),
                    namespace: self.namespace.clone(),
                };
                Some(attribution.attribute(&self.uid, transition, None))
            }
            // Whoever it was, it was not seen.
            _ => Some(Arc::new(Origin::unseen(None))),
        };
        Past {
            deleter,
            ..Past::default()
        }
    }

    /// Whose change it is, if anybody asks.
    pub(super) fn origin<'w>(
        &'w self,
        before: &'w ObjectState,
        deleter: Option<&Arc<Origin>>,
        was_absent: bool,
        attribution: &'w Attribution,
    ) -> Asked<'w> {
        // What asks for a deletion may change finalizers along with it.
        let begins = before.past.deleter.is_none() && self.sight == Sight::Modified;
        let deleter = deleter.filter(|_| begins && self.known);
        Asked {
            written: self,
            before,
            was_absent,
            attribution,
            answer: deleter.map_or_else(OnceCell::new, |deleter| Some(deleter.clone()).into()),
        }
    }

    /// Keeps the form that was sent, for the next change.
    pub(super) fn keep_form(
        &self,
        now: &mut ObjectState,
        before: &ObjectState,
        content: &Content<'_>,
    ) {
        if let Some(form) = content.known_form() {
            now.past.form = Some(form);
            let replicas = content.manifest().replicas();
            now.past.replicas = replicas.and_then(|replicas| i32::try_from(replicas).ok());
        } else if self.known && before.is_at_version_of(now) {
            now.past.form = before.past.form;
            now.past.replicas = before.past.replicas;
        }
    }
}

/// A question that is answered once.
pub(super) struct Asked<'w> {
    written: &'w Written,
    before: &'w ObjectState,
    was_absent: bool,
    attribution: &'w Attribution,
    answer: OnceCell<Option<Arc<Origin>>>,
}

impl Asked<'_> {
    /// Whose change it is; nothing if no change was seen.
    pub(super) fn of(&self, content: &mut Content<'_>) -> Option<Arc<Origin>> {
        self.answer.get_or_init(|| self.ask(content)).clone()
    }

    fn ask(&self, content: &mut Content<'_>) -> Option<Arc<Origin>> {
        let Written {
            uid,
            namespace: _,
            sight,
            known,
            changed,
            managers,
            manager,
            replicas,
            deleting: _,
        } = self.written;
        if !changed {
            return None;
        }
        let new = FormId {
            blob: content.form(),
            managers: *managers,
        };
        let version = || self.before.version();
        let transition = match (sight, known) {
            (Sight::Added, false) => Transition::Created { new },
            (Sight::Added | Sight::Modified, true) => Transition::Updated {
                replaced: version(),
                new,
                scaled_to: replicas.filter(|_| self.is_only_scaled(content)),
            },
            (Sight::Listed, true) => Transition::Listed {
                before: match self.before.past.form {
                    Some(blob) => Before::Form {
                        blob,
                        version: version(),
                    },
                    // What it was like is not known, and so neither is who made it so.
                    None => return Some(Arc::new(Origin::unseen(manager.clone()))),
                },
                new,
            },
            (Sight::Listed, false) if self.was_absent => Transition::Listed {
                before: Before::Absent,
                new,
            },
            (Sight::Modified | Sight::Listed, false) => Transition::Listed {
                before: Before::Unknown,
                new,
            },
        };
        Some(self.attribution.attribute(uid, transition, manager.clone()))
    }

    /// Whether nothing but the number of replicas is different.
    fn is_only_scaled(&self, content: &Content<'_>) -> bool {
        let Past { form, replicas, .. } = &self.before.past;
        let (Some(form), replicas) = (form, replicas.map(i64::from)) else {
            return false;
        };
        replicas != content.manifest().replicas()
            && content.manifest().blob_id_with_replicas(replicas) == *form
    }
}

/// Who deleted an object that is gone.
pub(super) fn of_deletion(
    known: &ObjectState,
    object: &Object<'_>,
    attribution: &Attribution,
) -> Option<Arc<Origin>> {
    if known.sent.is_empty() {
        return None;
    }
    if let Some(deleter) = &known.past.deleter {
        return Some(deleter.clone());
    }
    let transition = Transition::Deleting {
        version: known.version(),
        owners: object.owner_uids().map(Into::into).collect(),
        namespace: object.namespace().map(Into::into),
    };
    Some(attribution.attribute(object.uid(), transition, None))
}
