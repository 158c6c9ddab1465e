//! What is known about objects that are gone, and what follows for their files.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Wanted;
use crate::definitions::GoneTypes;
use crate::object_key::TypeKey;
use crate::repo_path::{PathIdentity, RepoPath};
use crate::scope::CompleteScopes;
use crate::selection::Reach;

/// Why a file may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeleteProof {
    /// The object was seen to be deleted.
    Deleted,
    /// A complete list of its scope lacks it.
    AbsentFromList,
    /// The object was seen, and no rule selects it any more.
    Deselected,
    /// The same, because a person deleted the one rule that selected it.
    RuleDeleted,
    /// Its type is not served any more: its CRD is gone, and no APIService serves its group.
    TypeGone,
    /// The same object lives at another path now.
    Moved,
}

impl DeleteProof {
    /// Whether it follows from what was not seen, and not from what was.
    #[must_use]
    pub fn is_inferred(self) -> bool {
        match self {
            Self::AbsentFromList | Self::Deselected => true,
            Self::Deleted | Self::RuleDeleted | Self::TypeGone | Self::Moved => false,
        }
    }
}

/// Everything that is known about objects that are gone.
#[derive(Clone, Debug, Default)]
pub struct Proofs {
    /// Scopes of which everything is known.
    pub complete: CompleteScopes,
    /// Types for which a rule of this destination lets files go, and where.
    pub deletable: HashMap<TypeKey, Prunable>,
    /// Files of which it is known one by one.
    pub of_file: HashMap<RepoPath, DeleteProof>,
    /// Types that a rule of this destination selects, whether or not all is known of them.
    pub needed: HashSet<TypeKey>,
    /// Types that are not served any more.
    pub gone_types: GoneTypes,
    /// Types that a rule of this destination was seen to select, and none does any more.
    pub withdrawn: HashMap<TypeKey, Withdrawn>,
}

/// A type that the last rule of a destination has let go of. What is there of it goes without a list:
/// an object that exists is not selected any more, and one that does not is gone anyway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withdrawn {
    /// Where its rules reached, and let files go.
    pub reached: Prunable,
    /// How it came.
    pub proof: DeleteProof,
}

/// Where files of a type may go when a complete list lacks them: only where every rule that reaches
/// there lets them go. A rule without DELETE keeps its files, whatever its neighbours say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prunable {
    namespaced: bool,
    everywhere: Option<bool>,
    namespaces: BTreeMap<String, bool>,
}

impl Prunable {
    /// Of a type whose objects live in namespaces, or in none.
    #[must_use]
    pub fn new(namespaced: bool) -> Self {
        Self {
            namespaced,
            ..Self::default()
        }
    }

    /// A rule reaches there, and lets files go or not.
    pub fn add(&mut self, reach: &Reach, deletes: bool) {
        match reach {
            Reach::Namespace(namespace) => {
                let known = self.namespaces.entry(namespace.clone()).or_insert(true);
                *known &= deletes;
            }
            // Which namespaces a selector reaches changes; it may be any.
            Reach::Namespaces(_) | Reach::Cluster => {
                *self.everywhere.get_or_insert(true) &= deletes;
            }
        }
    }

    /// Whether there is a place where files may go.
    #[must_use]
    pub fn lets_any_go(&self) -> bool {
        let here = self.namespaces.values().any(|deletes| *deletes);
        self.everywhere.unwrap_or(here)
    }

    fn allows(&self, namespace: Option<&str>) -> bool {
        let here = namespace
            .and_then(|namespace| self.namespaces.get(namespace))
            .copied();
        self.fits(namespace) && self.everywhere.unwrap_or(true) && here.unwrap_or(true)
    }

    /// Whether a rule reaches there.
    fn reaches(&self, namespace: Option<&str>) -> bool {
        let here = namespace.is_some_and(|namespace| self.namespaces.contains_key(namespace));
        self.everywhere.is_some() || here
    }

    /// Whether an object of this type could have such a path.
    fn fits(&self, namespace: Option<&str>) -> bool {
        namespace.is_some() == self.namespaced
    }
}

impl Proofs {
    /// Whether no object of this type has such a path: one in a namespace where there are none, or
    /// the other way round.
    pub(super) fn is_foreign(&self, identity: &PathIdentity) -> bool {
        let prunable = self.deletable.get(&identity.type_key);
        prunable.is_some_and(|prunable| !prunable.fits(identity.namespace.as_deref()))
    }

    /// Whether lists show which files may go there, without anything being known of them one by one.
    #[must_use]
    pub fn show(&self, type_key: &TypeKey, namespace: Option<&str>) -> bool {
        let prunable = self.deletable.get(type_key);
        prunable.is_some_and(|prunable| prunable.allows(namespace))
            && self.complete.covers(type_key, namespace)
    }

    /// Why a file that nobody wants may go.
    pub(super) fn of(&self, path: &RepoPath, identity: &PathIdentity) -> Option<DeleteProof> {
        if let Some(proof) = self.of_file.get(path) {
            return Some(*proof);
        }
        let type_key = &identity.type_key;
        if self
            .gone_types
            .contain(type_key, identity.namespace.as_deref())
        {
            return Some(DeleteProof::TypeGone);
        }
        let lacks = |type_key: &TypeKey| self.show(type_key, identity.namespace.as_deref());
        // All versions of a resource show the same objects: where the file's own is not followed
        // any more, the list of another one tells as much.
        let absent = if self.needed.contains(type_key) {
            lacks(type_key)
        } else {
            lacks(type_key) || self.other_versions(type_key).any(lacks)
        };
        let absent = absent.then_some(DeleteProof::AbsentFromList);
        absent.or_else(|| self.of_withdrawn(identity))
    }

    /// Why a file of a type that no rule selects any more may go.
    fn of_withdrawn(&self, identity: &PathIdentity) -> Option<DeleteProof> {
        let Withdrawn { reached, proof } = self.withdrawn.get(&identity.type_key)?;
        let namespace = identity.namespace.as_deref();
        let selected = self.needed.contains(&identity.type_key);
        (!selected && reached.reaches(namespace) && reached.allows(namespace)).then_some(*proof)
    }

    fn other_versions(&self, type_key: &TypeKey) -> impl Iterator<Item = &TypeKey> {
        let needed = self.needed.iter();
        needed.filter(move |other| other.is_other_version_of(type_key))
    }

    /// Where the object of a file is wanted in another version.
    pub(super) fn moved_to<'w>(
        &self,
        path: &str,
        type_key: &TypeKey,
        wanted: &'w BTreeMap<RepoPath, Wanted>,
    ) -> Option<&'w RepoPath> {
        let mut components = path.splitn(3, '/');
        let (Some(group), Some(_), Some(rest)) =
            (components.next(), components.next(), components.next())
        else {
            return None;
        };
        self.other_versions(type_key).find_map(|other| {
            let path = format!("{group}/{}/{rest}", other.version());
            wanted.get_key_value(&*path).map(|(path, _)| path)
        })
    }
}
