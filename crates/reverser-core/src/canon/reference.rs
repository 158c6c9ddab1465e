//! The reference page of the rules, made from the rules themselves.

use std::fmt::Write as _;

use super::annotations::{CONTROLLER_KEYS, LAST_APPLIED_KEYS};
use super::metadata::FINALIZERS;
use super::registration::STATE_TAINTS;
use super::{AppliesTo, RULES, Rule};

/// `docs/reference/sanitisation.md`.
#[must_use]
pub fn reference_markdown() -> String {
    let mut page = INTRODUCTION.to_owned();
    page.push_str("| rule | on | removes |\n|---|---|---|\n");
    for rule in RULES {
        let _infallible = writeln!(
            page,
            "| [`{name}`](#{name}) | {on} | {removes} |",
            name = rule.name,
            on = applies_to(rule),
            removes = rule.removes
        );
    }
    for rule in RULES {
        let _infallible = write!(
            page,
            "\n## {name}\n\n{reason}\n\nLive:\n\n```yaml\n{before}\n```\n\nIn Git, as far as this rule is concerned:\n\n```yaml\n{after}\n```\n",
            name = rule.name,
            reason = rule.reason,
            before = rule.before.trim(),
            after = rule.after.trim(),
        );
        let keys = match rule.name {
            "last-applied" => LAST_APPLIED_KEYS,
            "controller-annotations" => CONTROLLER_KEYS,
            "controller-finalizers" => FINALIZERS,
            "node-state-taints" => STATE_TAINTS,
            _ => continue,
        };
        page.push_str("\nThe names, each exactly:\n\n");
        for key in keys {
            let _infallible = writeln!(page, "- `{key}`");
        }
    }
    page
}

const INTRODUCTION: &str = "<!-- Made from the rules in crates/reverser-core/src/canon; `make docs` writes it again. -->
# What is left out of the files

A file in Git holds what a person could have written and could apply to an empty cluster. What the
server or a controller adds is left out by the rules below; everything else stays, also in kinds and
fields that GitOps Reverser has never heard of. Defaults that the server fills in stay too: they do
not drift, and they say what really runs.

Rules that ask who set a field read `metadata.managedFields`. Where that is missing, as in the output
of `kubectl get -o yaml`, what the server may have chosen counts as the server's.

The order is fixed: `apiVersion`, `kind`, `metadata` (name, namespace, labels, annotations, the rest),
`spec`, `data`, then the rest; maps are sorted by key, lists stay as the API gives them. Words that
some reader of YAML takes for something else (`yes`, `012`, `1e3`, `12:30:45`) are quoted.
An object that is nested deeper than 200 levels is refused.

";

fn applies_to(rule: &Rule) -> String {
    match rule.applies_to {
        AppliesTo::Every => "every object".to_owned(),
        AppliesTo::Kinds(kinds) => kinds
            .iter()
            .map(|(_, kind)| *kind)
            .collect::<Vec<_>>()
            .join(", "),
    }
}
