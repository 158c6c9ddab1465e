//! How people are called in Git, and servers that do not know them.

use gitops_reverser::attribution::AuthorMapName;
use reverser_testkit::control_plane::User;
use reverser_testkit::wait;
use serde_json::json;

use super::stage::{SOON, Stage};
use crate::operator::installation::{Installation, soon};

const AUTHOR: &str = "--format=%an <%ae>";

/// Changes an object until the author of the change is called so.
fn await_called(stage: &Stage, user: User, expected: &str) {
    let path = stage.path("map");
    let mut attempt = 0;
    wait::until_blocking(expected, SOON, || {
        attempt += 1;
        stage.after(&path, 1, || {
            let change = format!("why={expected}-{attempt}").replace([' ', '<', '>'], "_");
            stage.does(
                user,
                &["annotate", "--overwrite", "configmap", "map", &change],
            );
        });
        let author = stage.git_log(AUTHOR, &path)[0].clone();
        if author == expected {
            Ok(())
        } else {
            Err(author)
        }
    })
    .unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn people_are_called_as_the_identity_provider_says_or_as_an_administrator_says_at_once() {
    let mut installation = Installation::prepare("called");
    installation.settings.attribution.author_map = Some(AuthorMapName {
        namespace: installation.namespace.clone(),
        name: "people".to_owned(),
    });
    let stage = Stage::on(installation);
    let map = stage.path("map");
    stage.expect(
        "what the identity provider says",
        &map,
        "oidc:eve exact",
        || {
            let eve = [
                "create",
                "configmap",
                "map",
                "--as=oidc:eve",
                "--as-group=system:masters",
                "--as-user-extra=example.com/email=eve@corp.example",
                "--as-user-extra=displayName=Eve Example",
            ];
            stage.does(User::Alice, &eve);
        },
    );
    assert_eq!(
        stage.git_log(AUTHOR, &map),
        ["Eve Example <eve@corp.example>"]
    );

    let people = |lines: &str| {
        stage.apply(&json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "people", "namespace": stage.namespace}, "data": {"all": lines},
        }));
    };
    people("alice = Alice Liddell <alice@wonder.land>");
    await_called(&stage, User::Alice, "Alice Liddell <alice@wonder.land>");
    people("alice = Alice <alice@corp.example>\nnonsense");
    await_called(&stage, User::Alice, "Alice <alice@corp.example>");
    await_called(&stage, User::Bob, "bob <bob@cluster.local>");
    stage.does(User::Admin, &["delete", "configmap", "people"]);
    await_called(&stage, User::Alice, "alice <alice@cluster.local>");

    let domain = json!({"commit": {"authorEmailDomain": "corp.example"}});
    stage.apply(&stage.repo("repo", &domain));
    await_called(&stage, User::Bob, "bob <bob@corp.example>");
}

#[test]
fn a_server_that_refuses_an_author_is_quoted_in_a_condition_and_the_user_stands_in_the_message() {
    let stage = Stage::start("unwelcome");
    stage.repository.hook(
        "pre-receive",
        "while read old new ref; do \
         if git log --format=%ae \"$new\" --not --all | grep -q bob; \
         then echo \"GitLab: Author's email 'bob' is not a member of team\" >&2; exit 1; fi; done",
    );
    let path = stage.path("map");
    let authors = || stage.git_log(AUTHOR, &path);
    let condition = || {
        let condition = r#"jsonpath={.status.conditions[?(@.type=="AuthorRefused")]}"#;
        stage.kubectl(&["get", "gitdestination/prod", "-o", condition])
    };
    stage.expect("refused", &path, "bob fallback", || {
        stage.does(User::Bob, &["create", "configmap", "map"]);
    });
    assert_eq!(authors(), ["GitOps Reverser <reverser@example.com>"]);
    soon("what the server said, in a condition", || {
        let seen = condition();
        let told = seen.contains("not a member of team") && seen.contains(r#""status":"True""#);
        told.then_some(()).ok_or(seen)
    });
    stage.await_ready("gitdestination/prod", "True", "InSync");
    stage.expect("others as before", &path, "alice exact", || {
        stage.does(User::Alice, &["label", "configmap", "map", "a=b"]);
    });
    assert_eq!(authors()[0], "alice <alice@cluster.local>");

    // The server has learnt; a change of the destination tries again.
    stage.repository.remove_hook("pre-receive");
    let change = json!({"prune": {"mode": "OnEvent"}});
    stage.apply(&stage.destination("prod", "clusters/prod", &change));
    await_called(&stage, User::Bob, "bob <bob@cluster.local>");
    soon("no condition", || {
        let seen = condition();
        let gone = seen.is_empty() || seen.contains(r#""status":"False""#);
        gone.then_some(()).ok_or(seen)
    });
}
