use schemars::{Schema, SchemaGenerator};

use super::{rule, string};

/// The folder that a destination owns: what `reverser_core::base_folder` reads, less the root.
///
/// Not the root, because no other destination could then use the branch (folders must not overlap),
/// and because the root is where people keep what is theirs.
pub(crate) fn base_folder(_: &mut SchemaGenerator) -> Schema {
    string(
        1024,
        &[
            rule(
                "self != '' && self != '.'",
                "must be a folder inside of the repository, not its root: write one such as \
                 clusters/prod",
            ),
            rule(
                "!self.startsWith('/')",
                "must be relative to the repository's root: write clusters/prod instead of \
                 /clusters/prod",
            ),
            rule(
                "self == '/' || !self.matches(r'.//|/$')",
                "must not end with '/' or contain '//': write clusters/prod instead of \
                 clusters//prod/",
            ),
            rule(
                "self == '.' || !self.matches(r'(^|/) |[. ](/|$)')",
                "must not have '.' or '..' as a part, nor a part that begins with a blank or ends \
                 with a blank or a dot, which some file systems drop: write the folder as seen \
                 from the repository's root, such as clusters/prod",
            ),
            rule(
                r#"!self.matches(r'[^ -~]|[\\:*?"<>|]')"#,
                "must be printable ASCII without any of \\ : * ? \" < > |, which some file systems \
                 refuse or take for something else: write the parts with '/' between them, such as \
                 clusters/prod",
            ),
            rule(
                r"!self.matches(r'(?i)(^|/)(\.git|git~|(\.forgejo|\.configbutler)(/|$))')",
                "must not have a part that begins with .git or git~, or is .forgejo or \
                 .configbutler, in small letters or capitals: Git, the workflows of forges and the \
                 mark of ownership live there; write another folder, such as clusters/prod",
            ),
            rule(
                "!self.matches(r'[^/]{256}')",
                "must not have a part longer than 255 bytes, which is all that file systems store: \
                 write a shorter one",
            ),
        ],
    )
}
