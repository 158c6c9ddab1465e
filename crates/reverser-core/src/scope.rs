//! What is known about a type in a namespace: everything, or not everything.
//!
//! That a file's object is gone can be concluded from a list only if the list was complete. So the
//! proof is a value, [`CompleteScope`], which only a list that ended gives out. Namespaces with objects
//! that cannot be read are left out of it, and where even the namespace is not known there is no proof:
//!
//! ```compile_fail,E0451
//! # use reverser_core::{object_key::TypeKey, scope::*};
//! let scope = ScopeKey { type_key: TypeKey::new("", "v1", "pods").unwrap(), namespace: None };
//! let forged = CompleteScope { scope, left_out: Default::default() };
//! ```
//!
//! ```compile_fail,E0308
//! # use reverser_core::{object_key::TypeKey, scope::*};
//! let scope = ScopeKey { type_key: TypeKey::new("", "v1", "pods").unwrap(), namespace: None };
//! let mut listing = Listing::start(scope);
//! listing.skip_undecodable(None);
//! let mut proofs = CompleteScopes::default();
//! // What a list with a gap gives is `Listed`, and a proof only if it turns out to be one.
//! proofs.insert(listing.finish());
//! ```

use std::collections::{BTreeSet, HashMap};

use crate::object_key::TypeKey;

/// A type in one namespace, or everywhere.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScopeKey {
    /// The type.
    pub type_key: TypeKey,
    /// The namespace; nothing for all of them, and for types that live in none.
    pub namespace: Option<String>,
}

/// A list that is under way.
#[derive(Debug)]
pub struct Listing {
    scope: ScopeKey,
    undecodable: usize,
    left_out: BTreeSet<String>,
}

/// A list that has come to its end.
#[derive(Debug)]
#[must_use = "a list may have gaps"]
pub enum Listed {
    /// Every object of the scope was read, but for those of namespaces that are left out.
    Complete(CompleteScope),
    /// So many objects could not be read: nobody knows where they are.
    Partial {
        /// How many.
        undecodable: usize,
    },
}

/// The proof that every object of a scope has been seen, but for those of some namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompleteScope {
    scope: ScopeKey,
    left_out: BTreeSet<String>,
}

/// The scopes of which everything is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompleteScopes(HashMap<ScopeKey, CompleteScope>);

impl Listing {
    /// A list begins.
    #[must_use]
    pub fn start(scope: ScopeKey) -> Self {
        Self {
            scope,
            undecodable: 0,
            left_out: BTreeSet::new(),
        }
    }

    /// An object of the list cannot be read. Where at least its namespace can, the others are known.
    pub fn skip_undecodable(&mut self, namespace: Option<&str>) {
        match namespace {
            Some(namespace) if self.scope.namespace.is_none() => {
                self.left_out.insert(namespace.to_owned());
            }
            _ => self.undecodable += 1,
        }
    }

    /// The server has sent the last object.
    pub fn finish(self) -> Listed {
        match self.undecodable {
            0 => Listed::Complete(CompleteScope {
                scope: self.scope,
                left_out: self.left_out,
            }),
            undecodable => Listed::Partial { undecodable },
        }
    }
}

impl CompleteScope {
    /// The scope of which everything is known.
    #[must_use]
    pub fn scope(&self) -> &ScopeKey {
        &self.scope
    }

    /// Whether it says nothing of this namespace.
    #[must_use]
    pub fn leaves_out(&self, namespace: Option<&str>) -> bool {
        namespace.is_some_and(|namespace| self.left_out.contains(namespace))
    }
}

impl CompleteScopes {
    /// Everything is known of this scope now.
    pub fn insert(&mut self, proof: CompleteScope) {
        self.0.insert(proof.scope.clone(), proof);
    }

    /// Not everything is known of this scope any more.
    pub fn revoke(&mut self, scope: &ScopeKey) {
        self.0.remove(scope);
    }

    /// Not everything is known of a namespace of this scope any more.
    pub fn leave_out(&mut self, scope: &ScopeKey, namespace: &str) {
        if let Some(complete) = self.0.get_mut(scope) {
            complete.left_out.insert(namespace.to_owned());
        }
    }

    /// Whether there is a proof for exactly this scope.
    #[must_use]
    pub fn contains(&self, scope: &ScopeKey) -> bool {
        self.0.contains_key(scope)
    }

    /// The proofs.
    pub fn iter(&self) -> impl Iterator<Item = &CompleteScope> {
        self.0.values()
    }

    /// Whether every object of this type in this namespace is known.
    #[must_use]
    pub fn covers(&self, type_key: &TypeKey, namespace: Option<&str>) -> bool {
        let known = |of: Option<&str>| {
            let scope = ScopeKey {
                type_key: type_key.clone(),
                namespace: of.map(str::to_owned),
            };
            let proof = self.0.get(&scope);
            proof.is_some_and(|proof| !proof.leaves_out(namespace))
        };
        known(None) || (namespace.is_some() && known(namespace))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods() -> TypeKey {
        TypeKey::new("", "v1", "pods").unwrap()
    }

    fn complete(namespace: Option<&str>) -> CompleteScope {
        let scope = ScopeKey {
            type_key: pods(),
            namespace: namespace.map(str::to_owned),
        };
        match Listing::start(scope).finish() {
            Listed::Complete(proof) => proof,
            Listed::Partial { .. } => panic!("nothing was skipped"),
        }
    }

    #[test]
    fn a_list_with_a_gap_proves_nothing() {
        let mut listing = Listing::start(ScopeKey {
            type_key: pods(),
            namespace: None,
        });
        listing.skip_undecodable(None);
        assert!(matches!(
            listing.finish(),
            Listed::Partial { undecodable: 1 }
        ));
    }

    #[test]
    fn a_gap_in_one_namespace_says_nothing_of_that_one_and_all_of_the_others() {
        let scope = |namespace: Option<&str>| ScopeKey {
            type_key: pods(),
            namespace: namespace.map(str::to_owned),
        };
        let mut listing = Listing::start(scope(None));
        listing.skip_undecodable(Some("shop"));
        let Listed::Complete(proof) = listing.finish() else {
            panic!("the others were read");
        };
        let mut scopes = CompleteScopes::default();
        scopes.insert(proof);
        assert!(!scopes.covers(&pods(), Some("shop")));
        assert!(scopes.covers(&pods(), Some("other")));
        scopes.leave_out(&scope(None), "other");
        assert!(!scopes.covers(&pods(), Some("other")));
        assert!(scopes.covers(&pods(), Some("third")));

        // A list of one namespace is all or nothing.
        let mut listing = Listing::start(scope(Some("shop")));
        listing.skip_undecodable(Some("shop"));
        assert!(matches!(listing.finish(), Listed::Partial { .. }));
    }

    #[test]
    fn a_list_of_everything_covers_each_namespace_and_not_the_reverse() {
        let mut scopes = CompleteScopes::default();
        scopes.insert(complete(Some("shop")));
        assert!(scopes.covers(&pods(), Some("shop")));
        assert!(!scopes.covers(&pods(), Some("other")));
        assert!(!scopes.covers(&pods(), None));
        scopes.insert(complete(None));
        assert!(scopes.covers(&pods(), Some("other")));
        scopes.revoke(&ScopeKey {
            type_key: pods(),
            namespace: None,
        });
        assert!(!scopes.covers(&pods(), Some("other")));
        assert!(scopes.covers(&pods(), Some("shop")));
    }
}
