//! GitRepoConfig: where a repository is, how to log in to it, and who may use it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::Duration;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access_policy::RepoAccessPolicy;
use crate::schema;

/// Where a repository is, how to log in to it, and who may use it.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "configbutler.ai",
    version = "v1alpha1",
    kind = "GitRepoConfig",
    namespaced,
    status = "GitRepoConfigStatus",
    derive = "PartialEq",
    shortname = "grc",
    category = "reverser",
    doc = "GitRepoConfig says where a Git repository is, how to log in to it, which of its branches \
           may be written, and who may use it. GitDestinations refer to it.",
    printcolumn(
        name = "URL",
        type_ = "string",
        json_path = ".spec.repoUrl",
        description = "Where the repository is."
    )
)]
#[serde(rename_all = "camelCase")]
pub struct GitRepoConfigSpec {
    /// Where the repository is: https://host/path, ssh://user@host/path or user@host:path;
    /// http://host/path and file:///path only where the operator's flags allow them. It carries no
    /// credentials: those belong into the Secret of secretRef.
    #[schemars(schema_with = "schema::git_url::repo_url")]
    pub repo_url: String,

    /// The branches that destinations may write, at least one: names such as main, or globs such as
    /// release/*. In a glob * stands for any characters but '/', ** for any characters, ? for one
    /// character but '/'.
    #[schemars(schema_with = "schema::branch::allowed_branches")]
    pub allowed_branches: Vec<String>,

    /// The Secret in the same namespace that holds the credentials. For HTTPS: username and
    /// password, or bearerToken; ca.crt where the server's certificate is not publicly trusted. For
    /// SSH: ssh-privatekey (or identity) and known_hosts, and ssh-password where the key has a
    /// passphrase. The keys of Flux and Argo CD Secrets are understood too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,

    /// How changes are gathered and pushed. What is left out follows the operator's flags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push: Option<Push>,

    /// Who may use this repository. Left out: destinations and rules of its own namespace, and no
    /// cluster rules.
    #[serde(default)]
    pub access_policy: RepoAccessPolicy,

    /// How commits look. What is left out follows the operator's flags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<Commit>,
}

impl GitRepoConfigSpec {
    /// Whether a destination may write this branch.
    #[must_use]
    pub fn allows_branch(&self, branch: &str) -> bool {
        self.allowed_branches
            .iter()
            .any(|pattern| glob_matches(pattern, branch))
    }
}

/// Whether a text fits a glob: `*` stands for any characters but `/`, `**` for any characters, `?` for
/// one character but `/`.
///
/// Time and memory grow with the product of both lengths, whatever the pattern: it comes from a user.
#[must_use]
pub fn glob_matches(pattern: &str, text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    // Where in the text the part of the pattern that was read so far can end.
    let mut ends = vec![false; text.len() + 1];
    ends[0] = true;
    let mut pattern = pattern.chars().peekable();
    while let Some(symbol) = pattern.next() {
        if symbol == '*' {
            let across_slashes = pattern.next_if_eq(&'*').is_some();
            for (at, &character) in text.iter().enumerate() {
                ends[at + 1] |= ends[at] && (across_slashes || character != '/');
            }
        } else {
            for (at, &character) in text.iter().enumerate().rev() {
                let fits = character == symbol || (symbol == '?' && character != '/');
                ends[at + 1] = ends[at] && fits;
            }
            ends[0] = false;
        }
    }
    ends[text.len()]
}

/// A Secret in the namespace of the object that names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct SecretReference {
    /// The Secret's name.
    #[schemars(schema_with = "schema::names::object_name")]
    pub name: String,
}

/// How changes are gathered and pushed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Push {
    /// The longest that a change waits for others before it is pushed, such as 20s. A quiet
    /// repository is pushed much earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::text::push_interval")]
    pub interval: Option<Duration>,

    /// The largest number of files that are gathered before they are pushed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub max_commits: Option<i32>,

    /// How many pushes a minute are made to this repository. Left out: 6 on github.com, as GitHub
    /// advises, and 60 elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 6_000))]
    pub max_per_minute: Option<i32>,

    /// Options that are passed to the Git server with every push, such as ci.skip.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::text::push_options")]
    pub options: Vec<String>,
}

/// How commits look.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Commit {
    /// Who is named as the committer. The author is the person who made the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub committer: Option<Committer>,

    /// The domain of e-mail addresses that are made up for authors whose name is not an address,
    /// such as example.com.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::names::domain")]
    pub author_email_domain: Option<String>,

    /// Where the person who made a change is named. User: as the author. Trailer: only in a trailer
    /// of the message, with the committer as the author. None: nowhere.
    #[serde(default)]
    pub author_mode: AuthorMode,

    /// Text in front of every commit's subject, followed by a blank, such as [prod].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::text::subject_prefix")]
    pub subject_prefix: Option<String>,

    /// The Secret in the same namespace with the SSH key that signs commits: ssh-privatekey (or
    /// identity), and ssh-password where it has a passphrase. Left out: commits are not signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing_key_secret_ref: Option<SecretReference>,
}

/// Who is named as the committer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct Committer {
    /// The committer's name, such as GitOps Reverser.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::text::git_name")]
    pub name: Option<String>,

    /// The committer's e-mail address. Some servers refuse pushes whose committer they do not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::text::git_email")]
    pub email: Option<String>,
}

/// Where the person who made a change is named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AuthorMode {
    /// As the commit's author.
    #[default]
    User,
    /// In a trailer of the commit's message only.
    Trailer,
    /// Nowhere.
    None,
}

/// What the operator found out about the repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitRepoConfigStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Ready says whether the repository can be reached and written; Reconciling and Stalled are
    /// there while that is being found out, or while somebody has to repair something first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_is_allowed_by_its_name_or_by_a_glob() {
        let cases = [
            ("main", "main", true),
            ("main", "maintenance", false),
            ("main", "Main", false),
            ("release/*", "release/1.2", true),
            ("release/*", "release/", true),
            ("release/*", "release", false),
            ("release/*", "release/1.2/hotfix", false),
            ("release/**", "release/1.2/hotfix", true),
            ("**", "any/thing/at/all", true),
            ("*", "main", true),
            ("*", "a/b", false),
            ("v?.*", "v1.2", true),
            ("v?.*", "v12.3", false),
            ("a?b", "a/b", false),
            ("*-ü", "x-ü", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
        ];
        for (pattern, branch, allowed) in cases {
            assert_eq!(glob_matches(pattern, branch), allowed, "{pattern} {branch}");
        }
    }

    #[test]
    fn a_spiteful_glob_costs_no_more_than_any_other() {
        let pattern = "*a".repeat(100);
        assert!(!glob_matches(&pattern, &"a".repeat(99)));
        assert!(glob_matches(&pattern, &"a".repeat(200)));
    }
}
