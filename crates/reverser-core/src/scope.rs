//! What is known about a type in a namespace: everything, or not everything.
//!
//! That a file's object is gone can be concluded from a list only if the list was complete. So the
//! proof is a value, [`CompleteScope`], which only a list that ended without a gap gives out:
//!
//! ```compile_fail,E0451
//! # use reverser_core::{object_key::TypeKey, scope::*};
//! let scope = ScopeKey { type_key: TypeKey::new("", "v1", "pods").unwrap(), namespace: None };
//! let forged = CompleteScope { scope };
//! ```
//!
//! ```compile_fail,E0308
//! # use reverser_core::{object_key::TypeKey, scope::*};
//! let scope = ScopeKey { type_key: TypeKey::new("", "v1", "pods").unwrap(), namespace: None };
//! let mut listing = Listing::start(scope);
//! listing.skip_undecodable();
//! let mut proofs = CompleteScopes::default();
//! // What a list with a gap gives is `Listed`, and a proof only if it turns out to be one.
//! proofs.insert(listing.finish());
//! ```

use std::collections::HashSet;

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
}

/// A list that has come to its end.
#[derive(Debug)]
#[must_use = "a list may have gaps"]
pub enum Listed {
    /// Every object of the scope was read.
    Complete(CompleteScope),
    /// So many objects could not be read: nobody knows which.
    Partial {
        /// How many.
        undecodable: usize,
    },
}

/// The proof that every object of a scope has been seen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CompleteScope {
    scope: ScopeKey,
}

/// The scopes of which everything is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompleteScopes(HashSet<CompleteScope>);

impl Listing {
    /// A list begins.
    #[must_use]
    pub fn start(scope: ScopeKey) -> Self {
        Self {
            scope,
            undecodable: 0,
        }
    }

    /// An object of the list cannot be read.
    pub fn skip_undecodable(&mut self) {
        self.undecodable += 1;
    }

    /// The server has sent the last object.
    pub fn finish(self) -> Listed {
        match self.undecodable {
            0 => Listed::Complete(CompleteScope { scope: self.scope }),
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
}

impl CompleteScopes {
    /// Everything is known of this scope now.
    pub fn insert(&mut self, proof: CompleteScope) {
        self.0.insert(proof);
    }

    /// Not everything is known of this scope any more.
    pub fn revoke(&mut self, scope: &ScopeKey) {
        self.0.retain(|complete| complete.scope != *scope);
    }

    /// The proofs.
    pub fn iter(&self) -> impl Iterator<Item = &CompleteScope> {
        self.0.iter()
    }

    /// Whether every object of this type in this namespace is known.
    #[must_use]
    pub fn covers(&self, type_key: &TypeKey, namespace: Option<&str>) -> bool {
        let contains = |namespace: Option<&str>| {
            let scope = ScopeKey {
                type_key: type_key.clone(),
                namespace: namespace.map(str::to_owned),
            };
            self.0.contains(&CompleteScope { scope })
        };
        contains(None) || (namespace.is_some() && contains(namespace))
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
        listing.skip_undecodable();
        assert!(matches!(
            listing.finish(),
            Listed::Partial { undecodable: 1 }
        ));
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
