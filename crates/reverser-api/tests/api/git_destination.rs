use reverser_core::base_folder::BaseFolder;
use reverser_git::BranchName;
use serde_json::json;

use crate::access_policy;
use crate::git_repo_config::TOO_MANY_BYTES;
use crate::installed::{Server, smallest};
use crate::table::{
    Accepted, Refused, accepted, assert_accepted, assert_refused, each_accepted, each_refused,
    refused,
};

const KIND: &str = "GitDestination";

const GOOD_BRANCHES: &[&str] = &[
    "main",
    "release/1.2",
    "a@b",
    "a.b/c-d_e",
    "grün",
    "head",
    "x/HEAD",
    "a+b",
    "{x}",
];

const GOOD_FOLDERS: &[&str] = &[
    "clusters",
    "clusters/prod",
    "a b/c-d_e.f",
    "git",
    "x.git",
    "forgejo/.hidden",
    "github/workflows",
    "...a",
];

pub(crate) fn refusals() -> Vec<Refused> {
    let mut rows = access_policy::refusals();
    rows.extend(each_refused(
        "spec.repoRef.name",
        "must be the name of an object: write lower-case letters",
        &["", "Mirror", "a/b"],
    ));
    rows.extend(each_refused(
        "spec.repoRef.namespace",
        "must be the name of a namespace: write lower-case letters",
        &["", "Default", "a.b"],
    ));
    rows.extend(branch_refusals());
    rows.extend(folder_refusals());
    rows.extend(ignore_refusals());
    rows.push(refused(
        "a way to write Secrets that is not there yet",
        json!({"secrets": {"mode": "Encrypt"}}),
        "spec.secrets.mode",
        r#"Unsupported value: "Encrypt": supported values: "AsIs", "Redact", "Skip""#,
    ));
    rows
}

fn branch_refusals() -> Vec<Refused> {
    let cases: [(&str, &[&str]); 9] = [
        ("must not be empty: write a branch", &[""]),
        (
            "write main instead of refs/heads/main",
            &["refs/heads/main", "refs/tags/v1"],
        ),
        ("must not begin with '-' or '+'", &["-x", "+main"]),
        (
            "HEAD and @ stand for whatever is checked out",
            &["HEAD", "@"],
        ),
        (
            "must not contain blanks, control characters or any of ~ ^ : ? * [",
            &[
                "main prod",
                "main:prod",
                "a~1",
                "a^",
                "a?",
                "release/*",
                "a[b",
                "a\\b",
                "a\nb",
                "a\tb",
                "a\u{7f}b",
                "a\u{85}b",
            ],
        ),
        ("must not contain '..' or '@{'", &["a..b", "main@{1}"]),
        (
            "must not begin or end with '/' or contain '//'",
            &["/main", "main/", "a//b"],
        ),
        (
            "no part of it may begin with '.' or end with '.lock'",
            &[".a", "a/.b", "a.lock", "a.lock/b", "a.Lock", "main."],
        ),
        ("must not be longer than 244 bytes", &[TOO_MANY_BYTES]),
    ];
    cases
        .iter()
        .flat_map(|(says, values)| each_refused("spec.branch", says, values))
        .collect()
}

fn folder_refusals() -> Vec<Refused> {
    const FIELD: &str = "spec.baseFolder";
    let cases: [(&str, &[&str]); 6] = [
        (
            "must be a folder inside of the repository, not its root: write one",
            &["", "."],
        ),
        (
            "must be relative to the repository's root: write clusters/prod",
            &["/etc", "/"],
        ),
        (
            "must not end with '/' or contain '//'",
            &["a/", "a//b", "clusters/prod/"],
        ),
        (
            "must not have '.' or '..' as a part",
            &[
                "..", "a/../b", "../a", "./a", "a/.", "a/./b", " a", "a /b", "a/b ", "a.", "a./b",
                "...",
            ],
        ),
        (
            "must be printable ASCII without any of",
            &[
                r"a\b",
                "a\nb",
                "a\u{0}b",
                "a\u{7f}b",
                ".g\u{200c}it",
                "grün",
                "c:/x",
                "a*",
                "a?",
                "a\"b",
                "<a>",
                "a|b",
            ],
        ),
        (
            "must not have a part that begins with .git or git~",
            &[
                ".git",
                ".git/hooks",
                "a/.git",
                ".GIT",
                ".Git/x",
                ".gitmodules",
                "git~1",
                "a/GIT~1/b",
                ".github/workflows",
                ".GitHub",
                ".gitlab",
                ".gitlab-ci",
                ".gitea/workflows",
                ".forgejo/workflows",
                ".Forgejo",
                "a/.configbutler",
            ],
        ),
    ];
    let mut rows: Vec<_> = cases
        .iter()
        .flat_map(|(says, values)| each_refused(FIELD, says, values))
        .collect();
    rows.push(refused(
        "a part of 256 bytes",
        json!({"baseFolder": format!("a/{}/b", "x".repeat(256))}),
        FIELD,
        "must not have a part longer than 255 bytes",
    ));
    rows
}

fn ignore_refusals() -> Vec<Refused> {
    let mut rows = Vec::new();
    for field in ["spec.ignore.annotations[0]", "spec.ignore.labels[0]"] {
        rows.extend(each_refused(
            field,
            "must be a whole key such as example.com/revision, or every key under a prefix",
            &[
                "",
                "*",
                "*/*",
                "example.com/",
                "example.com/rev*",
                "example*",
                "a/b/c",
                "Example.com/a",
            ],
        ));
    }
    let pointer = "spec.ignore.fields[0].pointer";
    rows.extend(each_refused(
        pointer,
        "must be a JSON pointer: write '/' before each part",
        &[
            "",
            "/",
            "spec.replicas",
            "spec/replicas",
            "/spec/",
            "/spec//replicas",
            ".spec.replicas",
        ],
    ));
    rows.extend(each_refused(
        pointer,
        "must escape '~' as in every JSON pointer: write ~1",
        &["/spec/~", "/spec/~2", "/a~"],
    ));
    rows.extend(each_refused(
        pointer,
        "without which nobody knows which object a file holds: write another field",
        &[
            "/apiVersion",
            "/kind",
            "/metadata",
            "/metadata/name",
            "/metadata/namespace",
            "/metadata/name/x",
            "/metadata/name/\n",
            "/kind/x",
        ],
    ));
    rows.extend(
        ["deployment.apps", "", "Deployment.Apps", "apps/v1", "*"].map(|kind| {
            refused(
                kind,
                json!({"ignore": {"fields": [{"pointer": "/spec/replicas", "kind": kind}]}}),
                "spec.ignore.fields[0].kind",
                "must be a kind and its group: write Deployment.apps",
            )
        }),
    );
    rows
}

fn acceptances() -> Vec<Accepted> {
    let mut rows = access_policy::acceptances();
    rows.extend(each_accepted(
        "spec.repoRef.namespace",
        &["default", "a-1", "1"],
    ));
    rows.extend(each_accepted("spec.branch", GOOD_BRANCHES));
    rows.extend(each_accepted("spec.baseFolder", GOOD_FOLDERS));
    rows.extend(each_accepted(
        "spec.secrets.mode",
        &["AsIs", "Redact", "Skip"],
    ));
    rows.extend(each_accepted(
        "spec.prune.mode",
        &["Always", "OnEvent", "Never"],
    ));
    rows.extend(each_accepted("spec.prune.guard", &["Enabled", "Disabled"]));
    rows.extend(each_accepted(
        "spec.ignore.annotations[0]",
        &["revision", "example.com/revision", "example.com/*", "A_b.c"],
    ));
    rows.extend(each_accepted(
        "spec.ignore.fields[0].pointer",
        &[
            "/spec/replicas",
            "/metadata/annotations/example.com~1checksum",
            "/metadata/labels",
            "/metadata/names",
            "/data/a~0b",
            "/spec/containers/0/image",
            "/kinds",
        ],
    ));
    for kind in ["Deployment.apps", "Service", "Certificate.cert-manager.io"] {
        rows.push(accepted(
            kind,
            json!({"ignore": {"fields": [{"pointer": "/spec/replicas", "kind": kind}]}}),
        ));
    }
    rows.push(accepted(
        "empty sections",
        json!({"ignore": {}, "secrets": {}, "prune": {}}),
    ));
    rows
}

#[tokio::test]
async fn a_wrong_destination_is_refused_with_what_to_write() {
    assert_refused(KIND, refusals()).await;
}

#[tokio::test]
async fn a_right_destination_is_accepted() {
    assert_accepted(KIND, acceptances()).await;
}

/// What passes the API server and not the operator would be found out much later.
#[test]
fn the_api_server_and_the_operator_agree_on_folders() {
    for row in folder_refusals() {
        let folder = row.change["baseFolder"].as_str().unwrap();
        // Only a destination cannot be the root.
        let agree = folder == "." || BaseFolder::parse(folder).is_err();
        assert!(agree, "the operator accepts {folder:?}");
    }
    for folder in GOOD_FOLDERS {
        BaseFolder::parse(folder).unwrap();
    }
}

#[test]
fn the_api_server_and_the_operator_agree_on_branches() {
    for row in branch_refusals() {
        let branch = row.change["branch"].as_str().unwrap();
        assert!(
            BranchName::parse(branch).is_err(),
            "the operator accepts {branch:?}"
        );
    }
    for branch in GOOD_BRANCHES {
        BranchName::parse(branch).unwrap();
    }
}

#[tokio::test]
async fn the_server_writes_the_defaults_that_do_not_depend_on_flags() {
    let created = Server::new().create(&smallest(KIND)).await.unwrap();
    assert_eq!(
        created["spec"],
        json!({
            "repoRef": {"name": "mirror"},
            "branch": "main",
            "baseFolder": "clusters/prod",
            "accessPolicy": {"namespacedRules": {"mode": "SameNamespace"}},
            "exclusiveMode": false,
            "prune": {"mode": "Always", "guard": "Enabled"},
            "suspend": false,
        })
    );
}
