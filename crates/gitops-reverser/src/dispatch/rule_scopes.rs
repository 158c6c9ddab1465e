//! How much is known of what each rule selects.

use std::collections::{BTreeMap, BTreeSet};

use reverser_core::object_key::TypeKey;
use reverser_core::scope::ScopeKey;

use super::{Dispatcher, TypeState};
use crate::identity::RuleId;
use crate::routing::Route;
use crate::watch::LossReason;

/// Why nothing is known of a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// A sentence.
    pub why: String,
    /// Whether it lasts until somebody gives the operator a right.
    pub forbidden: bool,
}

impl Loss {
    pub(super) fn new(reason: LossReason, why: String) -> Self {
        Self {
            why,
            forbidden: reason == LossReason::Forbidden,
        }
    }

    pub(super) fn unreadable(why: String) -> Self {
        Self {
            why,
            forbidden: false,
        }
    }
}

/// What is not known of the types of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleScopes {
    /// Types whose first list has not ended, either way.
    pub pending: BTreeSet<TypeKey>,
    /// Scopes of which not everything is known, and why.
    pub unknown: BTreeMap<ScopeKey, Loss>,
}

impl RuleScopes {
    /// Whether somebody has to give the operator a right before all is known.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.unknown.values().any(|loss| loss.forbidden)
    }
}

impl TypeState {
    /// What is not known of those of its objects that are in namespaces which somebody means.
    pub(super) fn unknown(
        &self,
        type_key: &TypeKey,
        reaches: impl Fn(&str) -> bool,
    ) -> BTreeMap<ScopeKey, Loss> {
        let concerns = |scope: &ScopeKey| scope.namespace.as_deref().is_none_or(&reaches);
        let lost = self.lost.iter().filter(|(scope, _)| concerns(scope));
        let mut unknown: BTreeMap<ScopeKey, Loss> = lost
            .map(|(scope, loss)| (scope.clone(), loss.clone()))
            .collect();
        for (namespace, why) in self.gaps.values().flatten() {
            if reaches(namespace) {
                let scope = ScopeKey {
                    type_key: type_key.clone(),
                    namespace: Some(namespace.clone()),
                };
                unknown.insert(scope, Loss::unreadable(why.clone()));
            }
        }
        unknown
    }

    /// Whether one of these scopes was listed neither with success nor without.
    pub(super) fn has_unlisted(&self, concerns: impl Fn(&ScopeKey) -> bool) -> bool {
        let Some(watched) = &self.watched else {
            return self.complete.iter().next().is_none() && self.lost.is_empty();
        };
        watched.iter().any(|scope| {
            let settled = self.complete.contains(scope) || self.lost.contains_key(scope);
            !settled && concerns(scope)
        })
    }
}

impl Dispatcher {
    /// The rules of which not everything is known, and what that is.
    #[must_use]
    pub fn rule_scopes(&self) -> BTreeMap<RuleId, RuleScopes> {
        let mut rules: BTreeMap<RuleId, RuleScopes> = BTreeMap::new();
        for (type_key, need) in &self.routing.needs {
            let mut by_rule: BTreeMap<&RuleId, Vec<&Route>> = BTreeMap::new();
            for route in &need.routes {
                by_rule.entry(&route.rule).or_default().push(route);
            }
            let state = self.types.get(type_key);
            for (rule, routes) in by_rule {
                let reaches = |namespace: &str| self.reach(routes.iter().copied(), namespace);
                let concerns = |scope: &ScopeKey| scope.namespace.as_deref().is_none_or(reaches);
                let is_pending = state.is_none_or(|state| state.has_unlisted(concerns));
                let unknown = state.map(|state| state.unknown(type_key, reaches));
                let unknown = unknown.unwrap_or_default();
                if !is_pending && unknown.is_empty() {
                    continue;
                }
                let known = rules.entry(rule.clone()).or_default();
                known.pending.extend(is_pending.then(|| type_key.clone()));
                known.unknown.extend(unknown);
            }
        }
        rules
    }
}
