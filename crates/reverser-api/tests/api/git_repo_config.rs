use reverser_git::{RemoteUrl, Scheme};
use serde_json::json;

use crate::access_policy;
use crate::installed::{Server, smallest};
use crate::table::{
    Accepted, Refused, accepted, assert_accepted, assert_refused, each_accepted, each_refused,
    refused,
};

const KIND: &str = "GitRepoConfig";

const GOOD_URLS: &[&str] = &[
    "https://github.com/org/repository",
    "https://git.example.com:8443/group/sub.group/repository.git",
    "https://[2001:db8::1]:8443/x.git",
    "https://host/~user/x%20y.git",
    "https://dev.azure.com/org/project/_git/repository",
    "http://git.internal/x",
    "ssh://git@git.example.com/x.git",
    "ssh://git@git.example.com:2222/~/x.git",
    "ssh://git.example.com/x.git",
    "git@github.com:org/repository.git",
    "first.last+x@git.example.com:/srv/git/x",
    "git@[2001:db8::1]:x.git",
    "file:///srv/git/x.git",
];

pub(crate) fn refusals() -> Vec<Refused> {
    let mut rows = access_policy::refusals();
    rows.extend(url_refusals());
    rows.extend(branch_refusals());
    rows.extend(push_refusals());
    rows.extend(commit_refusals());
    rows.extend(each_refused(
        "spec.secretRef.name",
        "must be the name of an object: write lower-case letters",
        &["", "Credentials", "a_b", "-a", "a..b"],
    ));
    rows
}

fn url_refusals() -> Vec<Refused> {
    const FIELD: &str = "spec.repoUrl";
    let refused = |says, values| each_refused(FIELD, says, values);
    let mut rows = Vec::new();
    rows.extend(refused(
        "Forbidden: must be a URL that git can push to: write https://host/path",
        &[
            "",
            "--upload-pack=x",
            "-oProxyCommand=x",
            "ext::x",
            "git://host/path",
            "HTTPS://host/path",
            "host/path",
            "host:path",
            "/srv/git/repository",
            "../repository",
        ],
    ));
    rows.extend(refused(
        "Forbidden: must not contain blanks, control characters, backslashes",
        &[
            "https://host/a path",
            "https://host/a\npath",
            "https://host/a\tpath",
            "https://host/path\u{7f}",
            "https://host/path\u{202e}",
            "https://host/gr\u{fc}n",
            r"https://host/path\x",
            "git@host:a path",
        ],
    ));
    rows.extend(refused(
        "Forbidden: must not carry a user name, password or token",
        &[
            "https://user:password@host/path",
            "https://token@host/path",
            "http://user:password@host/path",
            "https://@host/path",
        ],
    ));
    rows.extend(refused(
        "Forbidden: must name a host and a repository: write https://host/path",
        &[
            "https://",
            "https://host",
            "https://host/",
            "https://host//",
            "https:///path",
            "https://-host/path",
            "https://host/-path",
            "https://host:99999/path",
            "https://host:port/path",
            "https://ho$t/path",
        ],
    ));
    rows.extend(refused(
        "Forbidden: must name a host and a repository: write ssh://user@host/path",
        &[
            "ssh://-oProxyCommand=x/y",
            "ssh://git@-oProxyCommand=x/y",
            "ssh://-git@host/path",
            "ssh://git:password@host/path",
            "ssh://git@host:group/path",
            "ssh://git@host/",
            "ssh://git@host/-path",
            "ssh://host",
        ],
    ));
    rows.extend(refused(
        "Forbidden: must name a user, a host and a repository: write user@host:path",
        &[
            "git@host:",
            "git@host::path",
            "git@host:-path",
            "git@-host:path",
            "-git@host:path",
            "gi%74@host:path",
        ],
    ));
    rows.extend(refused(
        "Forbidden: must be an absolute path: write file:///path",
        &["file://", "file:///", "file://host/path", "file://relative"],
    ));
    rows.extend(refused(
        "Forbidden: must name a repository and nothing else",
        &[
            "https://host/path?token=x",
            "https://host/path#x",
            "https://host/../path",
            "ssh://git@host/path/..",
            "git@host:../path",
            "file:///srv/../etc",
        ],
    ));
    rows
}

fn branch_refusals() -> Vec<Refused> {
    let mut rows = vec![refused(
        "no branch",
        json!({"allowedBranches": []}),
        "spec.allowedBranches",
        "must allow at least one branch: write its name such as main",
    )];
    let cases: [(&str, &[&str]); 9] = [
        ("must not be empty: write a branch", &[""]),
        (
            "write main instead of refs/heads/main",
            &["refs/heads/main", "refs/heads/*"],
        ),
        ("must not begin with '-' or '+'", &["-x", "+main", "-*"]),
        (
            "HEAD and @ stand for whatever is checked out",
            &["HEAD", "@"],
        ),
        (
            "or a glob with * (any characters but '/')",
            &[
                "main prod",
                "main:prod",
                "a~b",
                "a^b",
                "release/[12]",
                "a\\b",
                "main\n",
            ],
        ),
        ("must not contain '..' or '@{'", &["a..b", "@{u}"]),
        (
            "must not begin or end with '/' or contain '//'",
            &["/main", "main/", "release//*"],
        ),
        (
            "no part of it may begin with '.'",
            &[".main", "a/.b", "a.lock", "a.LOCK/b", "main."],
        ),
        ("must not be longer than 244 bytes", &[TOO_MANY_BYTES]),
    ];
    for (says, values) in cases {
        rows.extend(each_refused("spec.allowedBranches[0]", says, values));
    }
    rows.push(refused(
        "the same branch twice",
        json!({"allowedBranches": ["main", "main"]}),
        "spec.allowedBranches[1]",
        "Duplicate value",
    ));
    rows
}

/// 130 letters of two bytes each.
pub(crate) const TOO_MANY_BYTES: &str = "éééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééé\
     éééééééééééééééééééééééééééééééééééééééééééééééé";

fn push_refusals() -> Vec<Refused> {
    let mut rows = Vec::new();
    rows.extend(each_refused(
        "spec.push.interval",
        "must be a duration: write a number and its unit",
        &["", "20", "20 s", "1d", "-1s", "PT20S", "s"],
    ));
    rows.extend(each_refused(
        "spec.push.interval",
        "must be more than nothing and at most one hour: write one such as 20s",
        &["0s", "0ms", "61m", "999999h999999h9s"],
    ));
    rows.extend(each_refused(
        "spec.push.options[0]",
        "must be one line of text: write an option that your Git server knows",
        &["", "ci.skip\nx", "a\u{0}b", "a\tb"],
    ));
    rows
}

fn commit_refusals() -> Vec<Refused> {
    let mut rows = Vec::new();
    rows.extend(each_refused(
        "spec.commit.committer.name",
        "must be one line without '<' and '>'",
        &[
            "bot <bot@example.com>",
            "a\nb",
            "a\u{2028}b",
            "a\u{202e}b",
            "a\u{0}b",
        ],
    ));
    rows.extend(each_refused(
        "spec.commit.committer.name",
        "must contain a letter or a digit: write a name",
        &["", "   ", ".,:"],
    ));
    rows.extend(each_refused(
        "spec.commit.committer.email",
        "must be an e-mail address alone: write one such as bot@example.com",
        &[
            "",
            "bot",
            "bot@",
            "@example.com",
            "a b@example.com",
            "<bot@example.com>",
            "a@b@c",
            "a@b\n",
        ],
    ));
    rows.extend(each_refused(
        "spec.commit.authorEmailDomain",
        "must be a domain in lower case, without '@': write one such as example.com",
        &[
            "",
            "@example.com",
            "bot@example.com",
            "Example.com",
            "example.com.",
            "exa mple.com",
        ],
    ));
    rows.extend(each_refused(
        "spec.commit.subjectPrefix",
        "must be one line of text: write one such as [prod]",
        &["", "  ", "a\nb", "a\u{2028}b"],
    ));
    rows.extend(each_refused(
        "spec.commit.signingKeySecretRef.name",
        "must be the name of an object: write lower-case letters",
        &["Key"],
    ));
    rows
}

fn acceptances() -> Vec<Accepted> {
    let mut rows = access_policy::acceptances();
    rows.extend(each_accepted("spec.repoUrl", GOOD_URLS));
    rows.extend(each_accepted(
        "spec.allowedBranches[0]",
        &[
            "main",
            "release/*",
            "**",
            "*",
            "v?.*",
            "feature/JIRA-1_x@y",
            "grün",
            "a.b",
            "HEAD/x",
        ],
    ));
    rows.extend(each_accepted(
        "spec.push.interval",
        &["20s", "500ms", "1m30s", "1.5s", "1h"],
    ));
    rows.extend(each_accepted(
        "spec.push.options[0]",
        &["ci.skip", "merge_request.title=Cluster changes"],
    ));
    rows.extend(each_accepted(
        "spec.commit.committer.name",
        &["Zoë O'Neil, bot", "42"],
    ));
    rows.extend(each_accepted(
        "spec.commit.committer.email",
        &["12+bot@users.example.com", "a@b"],
    ));
    rows.extend(each_accepted(
        "spec.commit.authorEmailDomain",
        &["example.com", "localhost"],
    ));
    rows.extend(each_accepted(
        "spec.commit.subjectPrefix",
        &["[prod]", "chore(mirror):"],
    ));
    rows.extend(each_accepted(
        "spec.commit.authorMode",
        &["User", "Trailer", "None"],
    ));
    rows.push(accepted("an empty push", json!({"push": {}})));
    rows.push(accepted(
        "an empty commit",
        json!({"commit": {"committer": {}}}),
    ));
    rows
}

#[tokio::test]
async fn a_wrong_repository_is_refused_with_what_to_write() {
    assert_refused(KIND, refusals()).await;
}

#[tokio::test]
async fn a_right_repository_is_accepted() {
    assert_accepted(KIND, acceptances()).await;
}

#[test]
fn the_api_server_and_the_operator_agree_on_urls() {
    let schemes = [Scheme::Https, Scheme::Http, Scheme::Ssh, Scheme::File];
    for row in url_refusals() {
        let url = row.change["repoUrl"].as_str().unwrap();
        // A backslash is a letter like others to git, but not to everything between it and a user.
        let agree = url.contains('\\') || RemoteUrl::parse(url, &schemes).is_err();
        assert!(agree, "the operator accepts {url:?}");
    }
    for url in GOOD_URLS {
        RemoteUrl::parse(url, &schemes).unwrap();
    }
}

#[tokio::test]
async fn a_refused_url_is_not_repeated_because_it_may_hold_a_password() {
    let server = Server::new();
    for url in [
        "https://user:hunter2@host/path",
        "https://user:hunter2 @host/path",
        "ssh://user:hunter2@host/path",
        "user:hunter2@host:path",
        "ftp://user:hunter2@host/path",
        "https://host/path?token=hunter2",
    ] {
        let mut object = smallest(KIND);
        object["spec"]["repoUrl"] = json!(url);
        let refusal = server.create(&object).await.unwrap_err();
        assert!(!refusal.message.contains("hunter2"), "{}", refusal.message);
    }
}

#[tokio::test]
async fn without_an_access_policy_the_server_writes_the_closed_one() {
    let created = Server::new().create(&smallest(KIND)).await.unwrap();
    let expected =
        json!({"namespacedRules": {"mode": "SameNamespace"}, "allowClusterRules": false});
    assert_eq!(created["spec"]["accessPolicy"], expected);

    // What follows the operator's flags stays open.
    for open in ["push", "commit", "secretRef"] {
        assert!(created["spec"].get(open).is_none(), "{open}");
    }
}

#[tokio::test]
async fn a_commit_section_says_how_authors_are_named() {
    let mut object = smallest(KIND);
    object["spec"]["commit"] = json!({});
    let created = Server::new().create(&object).await.unwrap();
    assert_eq!(created["spec"]["commit"], json!({"authorMode": "User"}));
}
