//! Whether the repository can be reached, and what status says.

use std::process::Command;

use reverser_testkit::command;
use reverser_testkit::git_server::HttpFront;
use serde_json::json;

use super::installation::Installation;
use super::oracle::Expected;

fn secret(world: &Installation, password: &str) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "access", "namespace": world.namespace},
        "stringData": {"username": "reverser", "password": password},
    })
}

#[test]
fn what_is_wrong_with_a_repository_is_said_and_its_repair_noticed() {
    let world = Installation::prepare("reach");
    let server = HttpFront::start(world.folder.path());
    // reverser:right
    server.require(&["Basic cmV2ZXJzZXI6cmlnaHQ="]);
    let with_secret =
        |name: &str| json!({"repoUrl": server.url(name), "secretRef": {"name": "access"}});
    let mut world = world;
    world.apply(&world.repo("repo", &with_secret("repo.git")));
    world.apply(&world.config_map("web", "x"));
    world.apply(&world.rule("rule", &json!([{"resources": ["configmaps"]}])));
    world.run();
    world.await_stalled(&["gitrepoconfig/repo"], "SecretNotFound");
    let message = world.await_stalled(&["gitdestination/prod"], "SecretNotFound");
    assert!(message.contains("access"), "{message}");

    world.apply(&secret(&world, "wrong"));
    world.await_stalled(&["gitrepoconfig/repo"], "CredentialsRefused");
    let message = world.await_stalled(&["gitdestination/prod"], "CredentialsRefused");
    assert!(!message.contains("wrong"), "{message}");

    world.apply(&secret(&world, "right"));
    world.await_ready("gitrepoconfig/repo", "True", "Reachable");
    world.await_ready("gitdestination/prod", "True", "InSync");
    world.await_mirror(&[Expected::config_maps(&world.namespace)]);

    world.apply(&world.repo("repo", &with_secret("nothing.git")));
    world.await_reconciling(&["gitrepoconfig/repo"], "Unreachable");
    world.await_reconciling(&["gitdestination/prod"], "Unreachable");
    world.apply(&world.repo("repo", &with_secret("repo.git")));
    world.await_ready("gitrepoconfig/repo", "True", "Reachable");
    world.await_ready("gitdestination/prod", "True", "InSync");
    world.finish();
}

#[test]
fn a_repository_that_nobody_writes_to_is_asked_whether_it_can_be_reached() {
    let mut world = Installation::prepare("reach-alone");
    world.kubectl(&["delete", "gitdestination", "prod"]);
    let server = HttpFront::start(world.folder.path());
    // reverser:right
    server.require(&["Basic cmV2ZXJzZXI6cmlnaHQ="]);
    let with_secret =
        |name: &str| json!({"repoUrl": server.url(name), "secretRef": {"name": "access"}});
    let repo = ["gitrepoconfig/repo"];
    world.apply(&world.repo("repo", &with_secret("repo.git")));
    world.run();
    let message = world.await_stalled(&repo, "SecretNotFound");
    assert!(message.contains("access"), "{message}");
    world.apply(&secret(&world, "wrong"));
    let message = world.await_stalled(&repo, "CredentialsRefused");
    assert!(!message.contains("wrong"), "{message}");
    world.apply(&secret(&world, "right"));
    world.await_ready(repo[0], "True", "Reachable");
    world.apply(&world.repo("repo", &with_secret("nothing.git")));
    world.await_reconciling(&repo, "Unreachable");
    world.apply(&world.repo("repo", &with_secret("repo.git")));
    world.await_ready(repo[0], "True", "Reachable");

    // A destination has nothing to do before rules refer to it.
    world.apply(&world.destination("prod", "clusters/prod", &json!({})));
    let message = world.await_ready("gitdestination/prod", "True", "NoRules");
    assert!(message.contains("WatchRule"), "{message}");
    world.apply(&secret(&world, "wrong"));
    world.await_stalled(&repo, "CredentialsRefused");
    world.await_stalled(&["gitdestination/prod"], "CredentialsRefused");

    // Writing is suspended, and the repository cannot be reached all the same.
    let suspended = json!({"suspend": true});
    world.apply(&world.destination("prod", "clusters/prod", &suspended));
    world.await_stalled(&["gitdestination/prod"], "Suspended");
    world.await_stalled(&repo, "CredentialsRefused");
    world.apply(&secret(&world, "right"));
    world.await_ready(repo[0], "True", "Reachable");
    world.apply(&secret(&world, "wrong"));
    world.await_stalled(&repo, "CredentialsRefused");
    world.await_stalled(&["gitdestination/prod"], "Suspended");
    assert_eq!(world.commits(), 0);
    world.finish();
}

#[test]
fn without_its_repository_or_without_the_destination_files_stay() {
    let world = Installation::start("keeping");
    world.apply(&world.config_map("web", "x"));
    world.apply(&world.rule("rule", &json!([{"resources": ["configmaps"]}])));
    world.await_names(&["web"]);
    world.kubectl(&["delete", "gitrepoconfig", "repo"]);
    world.await_ready("gitdestination/prod", "False", "ReferenceNotFound");
    world.await_ready("watchrule/rule", "False", "ReferenceNotReady");
    world.kubectl(&["delete", "configmap", "web"]);
    world.assert_quiet();
    assert_eq!(world.names(), ["web"], "nobody writes there any more");

    world.apply(&world.config_map("new", "x"));
    world.apply(&world.repo("repo", &json!({})));
    world.await_mirror(&[Expected::config_maps(&world.namespace)]);
    world.kubectl(&["delete", "gitdestination", "prod"]);
    world.await_ready("watchrule/rule", "False", "ReferenceNotFound");
    world.assert_quiet();
    assert_eq!(world.names(), ["new"]);
    world.apply(&world.destination("prod", "clusters/prod", &json!({})));
    world.await_ready("gitdestination/prod", "True", "InSync");
    world.await_mirror(&[Expected::config_maps(&world.namespace)]);
    world.finish();
}

#[test]
fn commits_are_signed_with_the_key_that_the_repository_names() {
    let mut world = Installation::prepare("signing");
    let folder = world.folder.path().to_owned();
    let mut keygen = Command::new("ssh-keygen");
    keygen.current_dir(&folder);
    command::run(keygen.args([
        "-q",
        "-t",
        "ed25519",
        "-N",
        "open sesame",
        "-C",
        "",
        "-f",
        "key",
    ]));
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let with_key = |password: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "signing", "namespace": world.namespace},
            "stringData": {"ssh-privatekey": read("key"), "ssh-password": password},
        })
    };
    let commit = json!({"commit": {"signingKeySecretRef": {"name": "signing"}}});
    world.apply(&with_key("guessed"));
    world.apply(&world.repo("repo", &commit));
    world.apply(&world.config_map("web", "one"));
    world.apply(&world.rule("rule", &json!([{"resources": ["configmaps"]}])));
    let opened = with_key("open sesame");
    world.run();
    let message = world.await_ready("gitdestination/prod", "False", "SecretInvalid");
    assert!(!message.contains("guessed"), "{message}");
    assert_eq!(
        world.commits(),
        0,
        "what is to be signed is not written unsigned"
    );

    world.apply(&opened);
    world.await_ready("gitdestination/prod", "True", "InSync");
    world.await_names(&["web"]);
    let allowed = folder.join("allowed_signers");
    std::fs::write(
        &allowed,
        format!("reverser@example.com {}", read("key.pub")),
    )
    .unwrap();
    let allowed = allowed.to_str().unwrap();
    world
        .repository
        .config("gpg.ssh.allowedSignersFile", allowed);
    world.repository.git(&["verify-commit", "main"]);
    world.finish();
}
