//! How status puts it.

use std::collections::{BTreeMap, BTreeSet};

use reverser_core::object_key::TypeKey;
use reverser_core::plan::PruneMode;
use reverser_core::scope::ScopeKey;

use crate::dispatch::Loss;
use crate::routing::Destination;
use crate::writer::{HeldBack, Report};

/// So many of a kind are named; the API server takes no message without end.
const NAMED: usize = 5;

/// `1 type`, `2 types`.
pub(super) fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

fn first_of(mut all: Vec<String>, separator: &str) -> String {
    let more = all.len().saturating_sub(NAMED);
    all.truncate(NAMED);
    let named = all.join(separator);
    if more > 0 {
        format!("{named} and {more} more")
    } else {
        named
    }
}

pub(super) fn are_listed(pending: &BTreeSet<TypeKey>) -> String {
    let names = pending.iter().map(ToString::to_string).collect();
    let are = if pending.len() == 1 { "is" } else { "are" };
    format!("{} {are} being listed", first_of(names, ", "))
}

/// What of a rule cannot be followed, why, and what helps.
pub(super) fn not_followed(unknown: &BTreeMap<ScopeKey, Loss>) -> String {
    let lost = unknown.iter().map(|(scope, loss)| {
        let of = &scope.type_key;
        match &scope.namespace {
            Some(namespace) => format!("{of} in namespace {namespace}: {}", loss.why),
            None => format!("{of}: {}", loss.why),
        }
    });
    let help = if unknown.values().any(|loss| loss.forbidden) {
        "until the operator may list and watch them (rbac.mode and rbac.customRules of the chart), or \
         the rule leaves them out"
    } else {
        "until a list of them succeeds, which is tried again and again"
    };
    format!(
        "{}. Not all changes are followed and files stay, {help}",
        first_of(lost.collect(), "; ")
    )
}

pub(super) fn in_sync(report: &Report) -> String {
    let objects = counted(report.objects, "object");
    match report.held_back.files() {
        0 => format!("the branch holds {objects}"),
        held => {
            let files = counted(held, "file");
            format!("the branch holds {objects}, and {files} whose deletion is held back")
        }
    }
}

/// Why files stay although their objects are gone, if there are any.
pub(super) fn held_back(held_back: HeldBack, destination: &Destination) -> Option<String> {
    let HeldBack { by_mode, by_cap } = held_back;
    let stay = |files| format!("{} of objects that are gone", counted(files, "file"));
    let mode = match destination.prune {
        PruneMode::OnEvent => {
            "spec.prune.mode is OnEvent, and nobody saw that their objects were deleted"
        }
        _ => "spec.prune.mode is Never",
    };
    let by_mode = (by_mode > 0).then(|| format!("{}: {mode}", stay(by_mode)));
    let by_cap = (by_cap > 0).then(|| {
        format!(
            "{}: --deletes-cap-per-cycle lets only so many go at once, and none if it is 0",
            stay(by_cap)
        )
    });
    let parts: Vec<String> = by_mode.into_iter().chain(by_cap).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

pub(super) fn set_aside(report: &Report) -> String {
    let objects = counted(report.set_aside_objects, "object");
    let first = report.set_aside.first();
    let (path, message) = first.map_or(("", ""), |(path, message)| (path, message));
    format!(
        "{objects} cannot be written until they, or what stands in their place, change; {path}: {message}"
    )
}

/// What is said of files that no rule selects, if there are any.
pub(super) fn unselected(report: &Report) -> Option<String> {
    let files: usize = report.unselected.values().sum();
    let types = report.unselected.iter();
    let types: Vec<String> = types
        .map(|(key, files)| format!("{key} ({files})"))
        .collect();
    (files > 0).then(|| {
        format!(
            "{files} files are of types that no rule in effect selects, and stay: {}. Delete those in \
             Git that nobody needs",
            types.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(resource: &str, namespace: Option<&str>) -> ScopeKey {
        ScopeKey {
            type_key: TypeKey::new("", "v1", resource).unwrap(),
            namespace: namespace.map(str::to_owned),
        }
    }

    fn loss(why: &str, forbidden: bool) -> Loss {
        Loss {
            why: why.to_owned(),
            forbidden,
        }
    }

    #[test]
    fn what_a_rule_cannot_see_is_named_with_its_cause_and_its_cure() {
        let mut unknown = BTreeMap::from([(scope("pods", Some("shop")), loss("403: no", true))]);
        let told = not_followed(&unknown);
        assert!(
            told.starts_with("v1/pods in namespace shop: 403: no. Not all"),
            "{told}"
        );
        assert!(told.contains("rbac.customRules"), "{told}");
        unknown = BTreeMap::from([(scope("pods", None), loss("503: busy", false))]);
        let told = not_followed(&unknown);
        assert!(told.starts_with("v1/pods: 503: busy. "), "{told}");
        assert!(told.ends_with("tried again and again"), "{told}");
    }

    #[test]
    fn of_many_only_a_few_are_named() {
        let many = (0..400).map(|one| {
            let scope = scope("pods", Some(&format!("tenant-{one:03}")));
            (scope, loss("403: no", true))
        });
        let told = not_followed(&many.collect());
        assert!(
            told.contains("tenant-004: 403: no and 395 more. "),
            "{told}"
        );
        assert!(!told.contains("tenant-005"), "{told}");
    }
}
