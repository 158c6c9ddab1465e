use schemars::{Schema, SchemaGenerator, json_schema};

use super::{rule, string};

/// The name of a person or a program, as git writes it into a commit.
pub(crate) fn git_name(_: &mut SchemaGenerator) -> Schema {
    string(
        256,
        &[
            rule(
                r"!self.matches(r'[\p{C}\p{Zl}\p{Zp}<>]')",
                "must be one line without '<' and '>', which end a name in a commit: write one such \
                 as GitOps Reverser",
            ),
            rule(
                r"self.matches(r'[\p{L}\p{N}]')",
                "must contain a letter or a digit: write a name such as GitOps Reverser",
            ),
        ],
    )
}

/// An e-mail address, as git writes it into a commit.
pub(crate) fn git_email(_: &mut SchemaGenerator) -> Schema {
    string(
        320,
        &[rule(
            r"self.matches(r'^[^\p{C}\p{Z}<>@]+@[^\p{C}\p{Z}<>@]+$')",
            "must be an e-mail address alone: write one such as bot@example.com, without a name \
             and without '<' and '>'",
        )],
    )
}

/// Text in front of every commit's subject.
pub(crate) fn subject_prefix(_: &mut SchemaGenerator) -> Schema {
    string(
        64,
        &[rule(
            r"!self.matches(r'[\p{C}\p{Zl}\p{Zp}]') && self.matches(r'[^\p{Z}]')",
            "must be one line of text: write one such as [prod]",
        )],
    )
}

/// Push options, each of which git sends as one line.
pub(crate) fn push_options(_: &mut SchemaGenerator) -> Schema {
    let option = string(
        256,
        &[rule(
            r"self != '' && !self.matches(r'[\p{Cc}]')",
            "must be one line of text: write an option that your Git server knows, such as ci.skip",
        )],
    );
    json_schema!({
        "type": "array",
        "maxItems": 16,
        "x-kubernetes-list-type": "atomic",
        "items": option,
    })
}

/// A duration as Go writes it. Six digits keep every value inside of what CEL can compute with.
pub(crate) fn push_interval(_: &mut SchemaGenerator) -> Schema {
    let duration = r"self.matches(r'^([0-9]{1,6}(\.[0-9]{1,3})?(ms|s|m|h))+$')";
    string(
        16,
        &[
            rule(
                duration,
                "must be a duration: write a number and its unit (ms, s, m or h), such as 20s or 1m30s",
            ),
            rule(
                format!(
                    "!{duration} || (duration(self) > duration('0s') && duration(self) <= duration('1h'))"
                ),
                "must be more than nothing and at most one hour: write one such as 20s",
            ),
        ],
    )
}
