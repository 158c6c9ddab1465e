use schemars::{Schema, SchemaGenerator};

use super::{rule, string, string_set, with_rules};
use crate::watch_rule::Operation;

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
pub(super) const SUBDOMAIN: &str =
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
/// The part of a label's or an annotation's key behind the slash.
pub(super) const KEY_NAME: &str = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?";

/// The name of an object.
pub(crate) fn object_name(_: &mut SchemaGenerator) -> Schema {
    string(
        253,
        &[rule(
            format!("self.matches(r'^{SUBDOMAIN}$')"),
            "must be the name of an object: write lower-case letters, digits, '-' and '.', \
             beginning and ending with a letter or a digit",
        )],
    )
}

/// The name of a namespace.
pub(crate) fn namespace(_: &mut SchemaGenerator) -> Schema {
    string(
        63,
        &[rule(
            format!("self.matches(r'^{LABEL}$')"),
            "must be the name of a namespace: write lower-case letters, digits and '-', beginning \
             and ending with a letter or a digit",
        )],
    )
}

/// A domain for e-mail addresses.
pub(crate) fn domain(_: &mut SchemaGenerator) -> Schema {
    string(
        253,
        &[rule(
            format!("self.matches(r'^{SUBDOMAIN}$')"),
            "must be a domain in lower case, without '@': write one such as example.com",
        )],
    )
}

/// Keys of labels or annotations, whole or everything under a prefix.
pub(crate) fn ignored_keys(_: &mut SchemaGenerator) -> Schema {
    string_set(
        64,
        &string(
            317,
            &[rule(
                format!(
                    r"self.matches(r'^({SUBDOMAIN}/)?{KEY_NAME}$') || self.matches(r'^{SUBDOMAIN}/\*$')"
                ),
                "must be a whole key such as example.com/revision, or every key under a prefix such \
                 as example.com/*",
            )],
        ),
    )
}

/// The field of an object, as a JSON pointer.
pub(crate) fn field_pointer(_: &mut SchemaGenerator) -> Schema {
    string(
        512,
        &[
            rule(
                "self.matches(r'^(/[^/]+)+$')",
                "must be a JSON pointer: write '/' before each part, such as /spec/replicas",
            ),
            rule(
                "!self.matches(r'~([^01]|$)')",
                "must escape '~' as in every JSON pointer: write ~1 for a '/' and ~0 for a '~' \
                 inside of a part",
            ),
            rule(
                "!self.matches(r'^/((apiVersion|kind|metadata/(name|namespace))(/|$)|metadata$)')",
                "must not be apiVersion, kind, metadata, metadata.name or metadata.namespace, \
                 without which nobody knows which object a file holds: write another field, such \
                 as /spec/replicas",
            ),
        ],
    )
}

/// A kind with its group.
pub(crate) fn kind_and_group(_: &mut SchemaGenerator) -> Schema {
    string(
        317,
        &[rule(
            format!(r"self.matches(r'^[A-Z][A-Za-z0-9]*(\.{SUBDOMAIN})?$')"),
            "must be a kind and its group: write Deployment.apps, or Service for a kind of the \
             core group",
        )],
    )
}

/// Operations, `*` alone.
pub(crate) fn operations(generator: &mut SchemaGenerator) -> Schema {
    with_rules(
        string_set(4, &generator.subschema_for::<Operation>()),
        &[rule(
            "!('*' in self) || self.size() == 1",
            "'*' already stands for every operation: write it alone, or only the operations that \
             you want",
        )],
    )
}

/// API groups, `*` alone.
pub(crate) fn api_groups(_: &mut SchemaGenerator) -> Schema {
    let group = string(
        253,
        &[rule(
            format!("self == '' || self == '*' || self.matches(r'^{SUBDOMAIN}$')"),
            "must be an API group without its version: write one such as apps, '' for the core \
             group, or '*' for all",
        )],
    );
    with_rules(
        string_set(64, &group),
        &[rule(
            "!('*' in self) || self.size() == 1",
            "'*' already stands for every group: write it alone, or only the groups that you want",
        )],
    )
}

/// API versions, `*` alone.
pub(crate) fn api_versions(_: &mut SchemaGenerator) -> Schema {
    let version = string(
        63,
        &[rule(
            format!("self == '*' || self.matches(r'^{LABEL}$')"),
            "must be a version without its group: write one such as v1, or '*' for the version \
             that the API server prefers",
        )],
    );
    with_rules(
        string_set(16, &version),
        &[rule(
            "!('*' in self) || self.size() == 1",
            "'*' already stands for the version that the API server prefers: write it alone, or \
             only the versions that you want",
        )],
    )
}

/// Resources: `deployments`, `deployments.apps`, `*`, and subresources.
///
/// Subresources pass here although nothing can watch them: people bring them along from webhook
/// rules, and the rule's conditions can say which of its entries select nothing.
pub(crate) fn resources(_: &mut SchemaGenerator) -> Schema {
    string_set(
        64,
        &string(
            317,
            &[
                rule(
                    r"!self.matches(r'[^/]\*|\*[^/]')",
                    "wildcards inside of a name are not supported: write the name in full, such as \
                     deployments, or '*' for every type",
                ),
                rule(
                    format!(
                        r"self.matches(r'[^/]\*|\*[^/]') || self.matches(r'^(\*|{LABEL}(\.{SUBDOMAIN})?)(/(\*|{LABEL}))?$')"
                    ),
                    "must be the plural name in lower case, as kubectl api-resources shows it: \
                     write deployments, deployments.apps or '*'",
                ),
            ],
        ),
    )
}
