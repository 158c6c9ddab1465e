//! Which rules are in effect, and which types they need.

use std::collections::BTreeSet;

use reverser_api::access_policy::{DestinationAccessPolicy, RepoAccessPolicy};
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
            Some(Id::of_destination(reference, &id.namespace))
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
    let reach = || Reach::Namespace(id.namespace.clone());
    let parts = spec.rules.iter().map(|rule| part(rule, reach(), options));
    Ok(Written {
        destination: Id::of_destination(&spec.destination_ref, &id.namespace),
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
    let to = &written.destination;
    let not_ready = |message: &str| Refusal {
        reason: reference_reason::REFERENCE_NOT_READY,
        message: format!("GitDestination {to}: {message}"),
    };
    if let Some(unreadable) = configuration.unreadable(OwnKind::Destination, to) {
        return Err(not_ready(&unreadable.refusal().message));
    }
    let destination = configuration.destinations.get(to).ok_or_else(|| Refusal {
        reason: reference_reason::REFERENCE_NOT_FOUND,
        message: format!(
            "GitDestination {to} does not exist: create it, or change spec.destinationRef"
        ),
    })?;
    let repo_id = Id::of_repo(&destination.spec.repo_ref, &to.namespace);
    // One that does not exist is what the destination is refused for.
    let repo = configuration.repos.get(&repo_id);
    let here = (to, &destination.spec.access_policy);
    let there = repo.map(|repo| (&repo_id, &repo.spec.access_policy));
    let let_in = match id {
        RuleId::Watch(id) => lets_namespace_in(&id.namespace, here, there, configuration),
        RuleId::Cluster(_) => lets_cluster_rules_in(here, there),
    };
    let_in.map_err(|message| Refusal {
        reason: reference_reason::ACCESS_DENIED,
        message,
    })?;
    match routing.destinations.get(to) {
        Some(Err(refusal)) => Err(not_ready(&refusal.message)),
        _ => Ok(()),
    }
}

/// Whether rules of a namespace may use a destination and its repository; the error names the field
/// that would let them.
fn lets_namespace_in(
    namespace: &str,
    (destination, policy): (&Id, &DestinationAccessPolicy),
    repo: Option<(&Id, &RepoAccessPolicy)>,
    configuration: &Configuration,
) -> Result<(), String> {
    let refused = |by: &str| {
        format!(
            "{by} does not let in namespace {namespace}: its spec.accessPolicy.namespacedRules would"
        )
    };
    let rules = &policy.namespaced_rules;
    if !lets_in(rules, &destination.namespace, namespace, configuration) {
        return Err(refused(&format!("GitDestination {destination}")));
    }
    match repo {
        Some((repo, policy))
            if !lets_in(
                &policy.namespaced_rules,
                &repo.namespace,
                namespace,
                configuration,
            ) =>
        {
            Err(refused(&format!("GitRepoConfig {repo}")))
        }
        _ => Ok(()),
    }
}

/// The same for rules of the cluster.
fn lets_cluster_rules_in(
    (destination, policy): (&Id, &DestinationAccessPolicy),
    repo: Option<(&Id, &RepoAccessPolicy)>,
) -> Result<(), String> {
    if policy.allow_cluster_rules == Some(false) {
        return Err(format!(
            "GitDestination {destination} keeps cluster rules out: \
             its spec.accessPolicy.allowClusterRules would let them in"
        ));
    }
    match repo {
        Some((repo, policy)) if !policy.allow_cluster_rules => Err(format!(
            "GitRepoConfig {repo} does not let in cluster rules: \
             its spec.accessPolicy.allowClusterRules would"
        )),
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
