use schemars::{Schema, SchemaGenerator};

use super::{Rule, rule, string, string_set, with_rules};

/// With `refs/heads/` in front of it, this is what fits into 255 bytes.
const MAX_LENGTH: u32 = 244;

/// A branch, by the rules of `git check-ref-format --branch`.
pub(crate) fn branch(_: &mut SchemaGenerator) -> Schema {
    string(
        MAX_LENGTH,
        &rules(
            r"!self.matches(r'[\p{Cc} ~^:?*\[\\]')",
            "must not contain blanks, control characters or any of ~ ^ : ? * [ \\, which git does \
             not allow in a branch: write one name such as main or release/1.2",
        ),
    )
}

/// Branches and globs, at least one.
pub(crate) fn allowed_branches(_: &mut SchemaGenerator) -> Schema {
    let pattern = string(
        MAX_LENGTH,
        &rules(
            r"!self.matches(r'[\p{Cc} ~^:\[\\]')",
            "must not contain blanks, control characters or any of ~ ^ : [ \\: write a branch such \
             as main, or a glob with * (any characters but '/'), ** (any characters) or ? (one \
             character) such as release/*",
        ),
    );
    with_rules(
        string_set(64, &pattern),
        &[rule(
            "self.size() > 0",
            "must allow at least one branch: write its name such as main, or a glob such as \
             release/*",
        )],
    )
}

fn rules(characters: &str, characters_message: &'static str) -> [Rule; 9] {
    [
        rule(
            "self != ''",
            "must not be empty: write a branch such as main",
        ),
        rule(
            "!self.startsWith('refs/')",
            "must be the branch's own name: write main instead of refs/heads/main",
        ),
        rule(
            "!self.matches(r'^[-+]')",
            "must not begin with '-' or '+': write the branch's name alone, such as main",
        ),
        rule(
            "!(self in ['HEAD', '@'])",
            "must be a branch, and HEAD and @ stand for whatever is checked out: write its name, \
             such as main",
        ),
        rule(characters, characters_message),
        rule(
            r"!self.matches(r'\.\.|@\{')",
            "must not contain '..' or '@{', which git reads as a range or a point in time: write \
             one name such as main or release/1.2",
        ),
        rule(
            "!self.matches(r'^/|//|/$')",
            "must not begin or end with '/' or contain '//': write the parts with one '/' \
             between them, such as release/1.2",
        ),
        rule(
            r"!self.matches(r'(^|/)\.|(?i:\.lock)(/|$)|\.$')",
            "must not end with '.', and no part of it may begin with '.' or end with '.lock', which \
             git does not allow: write a name such as main or release/1.2",
        ),
        rule(
            format!("bytes(self).size() <= {MAX_LENGTH}"),
            "must not be longer than 244 bytes, which is all that Git servers store: write a \
             shorter name",
        ),
    ]
}
