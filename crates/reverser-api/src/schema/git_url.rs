use schemars::{Schema, SchemaGenerator};

use super::{Rule, rule, string};

/// A name or an address in brackets. It cannot begin with `-`, which ssh would read as an option.
const HOST: &str = r"([A-Za-z0-9_.][-A-Za-z0-9_.]*|\[[0-9A-Fa-f:.]+\])";
const USER: &str = "[A-Za-z0-9_.+][-A-Za-z0-9_.+]*";
const PORT: &str =
    "(:([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?";
/// What follows the host: not an option, not only slashes. What may stand in it is another rule's.
const PATH: &str = "/*[^-/:](?s:.*)";

/// A URL that git can push to, without anything secret in it.
pub(crate) fn repo_url(_: &mut SchemaGenerator) -> Schema {
    let http = r"self.matches(r'^https?://')";
    let http_with_user = r"self.matches(r'^https?://[^/]*@')";
    let ssh = r"self.startsWith('ssh://')";
    let file = r"self.startsWith('file://')";
    let scp = r"self.matches(r'^[^/:@]+@([^/:@]+|\[[^\]/@]*\]):')";
    let rules = [
        rule(
            r"!self.matches(r'[^!-~]|\\')",
            "must not contain blanks, control characters, backslashes or characters outside of \
             ASCII: write the URL as the Git server shows it, with such characters percent-encoded",
        ),
        rule(
            format!("{http} || {ssh} || {file} || {scp}"),
            "must be a URL that git can push to: write https://host/path, ssh://user@host/path or \
             user@host:path (http://host/path and file:///path where the operator allows them)",
        ),
        rule(
            format!("!{http_with_user}"),
            "must not carry a user name, password or token, which everyone who may read this \
             object would see: write https://host/path and put them into the Secret that secretRef \
             names",
        ),
        rule(
            format!(
                "!{http} || {http_with_user} || self.matches(r'^https?://{HOST}{PORT}/{PATH}$')"
            ),
            "must name a host and a repository: write https://host/path or https://host:port/path, \
             neither host nor path beginning with '-'",
        ),
        rule(
            format!("!{ssh} || self.matches(r'^ssh://({USER}@)?{HOST}{PORT}/{PATH}$')"),
            "must name a host and a repository: write ssh://user@host/path or \
             ssh://user@host:port/path, without a password, and neither user nor host nor path \
             beginning with '-'",
        ),
        rule(
            format!("!{scp} || self.matches(r'^{USER}@{HOST}:{PATH}$')"),
            "must name a user, a host and a repository: write user@host:path, none of them \
             beginning with '-'",
        ),
        rule(
            format!("!{file} || self.matches(r'^file:///{PATH}$')"),
            "must be an absolute path: write file:///path with three slashes",
        ),
        rule(
            r"!self.matches(r'[?#]|[/:]\.\.(/|$)')",
            "must name a repository and nothing else: write its path without '?', '#' and '..'",
        ),
    ];
    string(2048, &rules.map(Rule::without_the_value))
}
