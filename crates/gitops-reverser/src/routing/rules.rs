//! Which rules are in effect, and which types they need.

use std::collections::BTreeSet;

use reverser_api::cluster_watch_rule::{ClusterResourceRule, ClusterWatchRuleSpec, Scope};
use reverser_api::conditions::{reason, reference_reason};
use reverser_api::watch_rule::{Operation, ResourceRule, WatchRuleSpec};
use reverser_core::catalogue::Catalogue;
use reverser_core::labels::{BadRequirement, LabelSelector};
use reverser_core::object_key::TypeKey;
use reverser_core::plan::Operations;
use reverser_core::selection::{Names, Reach, ResourceName, RulePart, SelectedType};

use super::access::{label_selector, lets_in};
use super::{Configuration, Need, OwnKind, Refusal, Route, Routing, RoutingOptions, Rule};
use crate::identity::{Id, RuleId};

/// A rule as it is written, with nothing looked up yet.
struct Written {
    destination: Id,
    selector: LabelSelector,
    parts: Vec<RulePart>,
}

pub(super) fn resolve(
    routing: &mut Routing,
    configuration: &Configuration,
    catalogue: &Catalogue,
    options: &RoutingOptions,
) {
    let watch = configuration
        .watch_rules
        .iter()
        .map(|(id, rule)| (RuleId::Watch(id.clone()), written(id, &rule.spec, options)));
    let cluster = configuration.cluster_rules.iter().map(|(name, rule)| {
        (
            RuleId::Cluster(name.clone()),
            written_for_cluster(&rule.spec, options),
        )
    });
    for (id, written) in watch.chain(cluster) {
        let resolved = match written {
            Ok(written) => match check_access(&id, &written, routing, configuration) {
                Ok(()) => Ok(add_needs(routing, &id, written, catalogue, options)),
                Err(refusal) => {
                    routing.kept.add(&written.destination, written.parts);
                    Err(refusal)
                }
            },
            Err(error) => {
                if let Some(destination) = destination_of(&id, configuration) {
                    routing.kept.add_all_of(&destination, &id);
                }
                Err(Refusal {
                    reason: reason::INVALID_SPEC,
                    message: error.to_string(),
                })
            }
        };
        routing.rules.insert(id, resolved);
    }
}

fn destination_of(id: &RuleId, configuration: &Configuration) -> Option<Id> {
    match id {
        RuleId::Watch(id) => {
            let reference = &configuration.watch_rules.get(id)?.spec.destination_ref;
            let namespace = reference.namespace.as_ref().unwrap_or(&id.namespace);
            Some(Id::new(namespace, &reference.name))
        }
        RuleId::Cluster(name) => {
            let reference = &configuration.cluster_rules.get(name)?.spec.destination_ref;
            Some(Id::new(&reference.namespace, &reference.name))
        }
    }
}

fn written(
    id: &Id,
    spec: &WatchRuleSpec,
    options: &RoutingOptions,
) -> Result<Written, BadRequirement> {
    let namespace = spec
        .destination_ref
        .namespace
        .as_ref()
        .unwrap_or(&id.namespace);
    let reach = || Reach::Namespace(id.namespace.clone());
    let parts = spec.rules.iter().map(|rule| part(rule, reach(), options));
    Ok(Written {
        destination: Id::new(namespace, &spec.destination_ref.name),
        selector: label_selector(spec.object_selector.as_ref())?,
        parts: parts.collect(),
    })
}

fn written_for_cluster(
    spec: &ClusterWatchRuleSpec,
    options: &RoutingOptions,
) -> Result<Written, BadRequirement> {
    let reach = |rule: &ClusterResourceRule| match rule.scope {
        Scope::Cluster => Ok(Reach::Cluster),
        Scope::Namespaced => {
            label_selector(rule.namespace_selector.as_ref()).map(Reach::Namespaces)
        }
    };
    let parts = spec
        .rules
        .iter()
        .map(|rule| Ok(part(&rule.selection, reach(rule)?, options)));
    Ok(Written {
        destination: Id::new(&spec.destination_ref.namespace, &spec.destination_ref.name),
        selector: label_selector(spec.object_selector.as_ref())?,
        parts: parts.collect::<Result<_, _>>()?,
    })
}

fn part(rule: &ResourceRule, reach: Reach, options: &RoutingOptions) -> RulePart {
    let ResourceRule {
        operations,
        api_groups,
        api_versions,
        resources,
        include_owned,
    } = rule;
    let follows = |operation| {
        operations.is_empty()
            || operations
                .iter()
                .any(|written| *written == operation || *written == Operation::All)
    };
    let mut names: Vec<ResourceName> = resources
        .iter()
        .map(|name| ResourceName::parse(name))
        .collect();
    if names.is_empty() && options.watch_all {
        names.push(ResourceName::Every);
    }
    RulePart {
        operations: Operations {
            create: follows(Operation::Create),
            update: follows(Operation::Update),
            delete: follows(Operation::Delete),
        },
        groups: Names::from_list(api_groups),
        versions: Names::from_list(api_versions),
        resources: names,
        include_owned: *include_owned,
        reach,
    }
}

/// A rule must be let in by the destination and by the repository behind it.
fn check_access(
    id: &RuleId,
    written: &Written,
    routing: &Routing,
    configuration: &Configuration,
) -> Result<(), Refusal> {
    let destination_id = &written.destination;
    if let Some(unreadable) = configuration.unreadable(OwnKind::Destination, destination_id) {
        return Err(Refusal {
            reason: reference_reason::REFERENCE_NOT_READY,
            message: format!(
                "GitDestination {destination_id}: {}",
                unreadable.refusal().message
            ),
        });
    }
    let destination = configuration.destinations.get(destination_id).ok_or_else(|| Refusal {
        reason: reference_reason::REFERENCE_NOT_FOUND,
        message: format!(
            "GitDestination {destination_id} does not exist: create it, or change spec.destinationRef"
        ),
    })?;
    let denied = |message: String| Refusal {
        reason: reference_reason::ACCESS_DENIED,
        message,
    };
    let policy = &destination.spec.access_policy;
    let repo_id = Id::new(
        destination
            .spec
            .repo_ref
            .namespace
            .as_ref()
            .unwrap_or(&destination_id.namespace),
        &destination.spec.repo_ref.name,
    );
    let repo = configuration.repos.get(&repo_id);
    match id {
        RuleId::Watch(id) => {
            if !lets_in(
                &policy.namespaced_rules,
                &destination_id.namespace,
                &id.namespace,
                configuration,
            ) {
                return Err(denied(format!(
                    "GitDestination {destination_id} does not let in namespace {}: \
                     its spec.accessPolicy.namespacedRules would",
                    id.namespace
                )));
            }
            let repo_policy = repo.map(|repo| &repo.spec.access_policy.namespaced_rules);
            let refused = repo_policy.is_some_and(|policy| {
                !lets_in(policy, &repo_id.namespace, &id.namespace, configuration)
            });
            if refused {
                return Err(denied(format!(
                    "GitRepoConfig {repo_id} does not let in namespace {}: \
                     its spec.accessPolicy.namespacedRules would",
                    id.namespace
                )));
            }
        }
        RuleId::Cluster(_) => {
            if policy.allow_cluster_rules == Some(false) {
                return Err(denied(format!(
                    "GitDestination {destination_id} keeps cluster rules out: \
                     its spec.accessPolicy.allowClusterRules would let them in"
                )));
            }
            if repo.is_some_and(|repo| !repo.spec.access_policy.allow_cluster_rules) {
                return Err(denied(format!(
                    "GitRepoConfig {repo_id} does not let in cluster rules: \
                     its spec.accessPolicy.allowClusterRules would"
                )));
            }
        }
    }
    match routing.destinations.get(destination_id) {
        Some(Err(refusal)) => Err(Refusal {
            reason: reference_reason::REFERENCE_NOT_READY,
            message: format!("GitDestination {destination_id}: {}", refusal.message),
        }),
        _ => Ok(()),
    }
}

/// Adds what the rule needs, type by type, as far as the limit allows.
fn add_needs(
    routing: &mut Routing,
    id: &RuleId,
    written: Written,
    catalogue: &Catalogue,
    options: &RoutingOptions,
) -> Rule {
    let Written {
        destination,
        selector,
        parts,
    } = written;
    let mut rule = Rule {
        destination,
        selector,
        parts: Vec::new(),
        unserved: Vec::new(),
        out_of_reach: Vec::new(),
        subresources: Vec::new(),
        over_limit: Vec::new(),
        watched_types: 0,
    };
    let mut watched: BTreeSet<TypeKey> = BTreeSet::new();
    for part in parts {
        let found = part.types(catalogue, &options.exclusions);
        rule.unserved.extend(found.unserved);
        rule.out_of_reach.extend(found.out_of_reach);
        rule.subresources.extend(found.subresources);
        for SelectedType {
            served,
            named_although_excluded,
        } in found.types
        {
            let key = served.key.clone();
            if !routing.needs.contains_key(&key) && routing.needs.len() >= options.max_types {
                rule.over_limit.push(key);
                continue;
            }
            watched.insert(key.clone());
            let need = routing.needs.entry(key).or_insert_with(|| Need {
                served,
                namespaces: Some(BTreeSet::new()),
                routes: Vec::new(),
            });
            match (&part.reach, &mut need.namespaces) {
                (Reach::Namespace(namespace), Some(namespaces)) => {
                    namespaces.insert(namespace.clone());
                }
                _ => need.namespaces = None,
            }
            need.routes.push(Route {
                destination: rule.destination.clone(),
                rule: id.clone(),
                selector: rule.selector.clone(),
                part: part.clone(),
                named_although_excluded,
            });
        }
        rule.parts.push(part);
    }
    rule.watched_types = watched.len();
    rule
}
