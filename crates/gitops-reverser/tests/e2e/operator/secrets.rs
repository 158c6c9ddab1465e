//! Secrets in the forms that a destination can ask for.

use reverser_testkit::git_server::HttpFront;
use serde_json::json;

use super::installation::{Installation, soon};

fn secret_file(world: &Installation) -> Option<String> {
    let path = format!("core/v1/secrets/{}/db.yaml", world.namespace);
    world.files().remove(&path)
}

#[test]
fn redacted_secrets_keep_their_keys_and_an_unchanged_one_makes_no_commit() {
    let mut world = Installation::prepare("redact");
    // The key is kept beside the operator.
    let home = world.namespace.clone();
    world.be_a_release(&home, &[]);
    let redact = json!({"secrets": {"mode": "Redact"}});
    world.apply(&world.destination("prod", "clusters/prod", &redact));
    world.apply(&world.rule("rule", &json!([{"resources": ["secrets", "configmaps"]}])));
    let create = |value: &str| {
        let literal = format!("--from-literal=password={value}");
        world.kubectl(&["create", "secret", "generic", "db", &literal]);
    };
    create("canary-hunter2");
    world.apply(&world.config_map("web", "one"));
    world.run();
    world.await_names(&["web"]);
    world.await_ready("gitdestination/prod", "True", "InSync");
    let file = secret_file(&world).unwrap();
    assert!(file.contains("password: "), "{file}");
    // Neither as it is nor in base64.
    assert!(
        !file.contains("canary") && !file.contains("Y2FuYXJ5"),
        "{file}"
    );
    assert_eq!(world.commits(), 1);

    world.stop();
    world.run();
    world.await_ready("gitdestination/prod", "True", "InSync");
    world.apply(&world.config_map("web", "two"));
    world.await_file("web", "value: two");
    assert_eq!(secret_file(&world).as_ref(), Some(&file));
    assert_eq!(world.commits(), 2, "the same value has the same hash");

    world.kubectl(&[
        "patch",
        "secret",
        "db",
        "--type=merge",
        "-p",
        r#"{"stringData":{"password":"other"}}"#,
    ]);
    world.apply(&world.config_map("web", "three"));
    world.await_file("web", "value: three");
    soon("another hash", || match secret_file(&world) {
        Some(now) if now != file => Ok(()),
        other => Err(format!("{other:?}")),
    });
    let key = secret_file(&world).is_some_and(|_| {
        let folder = format!("core/v1/secrets/{}/", world.namespace);
        let mut paths = world.files().into_keys();
        paths.any(|path| path.starts_with(&folder) && path.contains("redaction"))
    });
    assert!(!key, "the key itself is not mirrored");
    world.finish();
}

#[test]
fn a_destination_that_redacts_has_secrets_that_another_one_was_sent_before() {
    let mut world = Installation::prepare("redact-late");
    let home = world.namespace.clone();
    world.be_a_release(&home, &[]);
    let secrets = json!([{"resources": ["secrets"]}]);
    world.kubectl(&["create", "secret", "generic", "db", "--from-literal=a=b"]);
    world.apply(&world.rule("rule", &secrets));
    world.run();
    world.await_ready("gitdestination/prod", "True", "InSync");
    assert!(secret_file(&world).is_some());

    let redact = json!({"secrets": {"mode": "Redact"}});
    world.apply(&world.destination("late", "clusters/late", &redact));
    world.apply(&world.rule_to("late", "late", &secrets));
    world.kubectl(&[
        "wait",
        "watchrule/late",
        "gitdestination/late",
        "--for=condition=Ready",
        "--timeout=180s",
    ]);
    let path = format!("core/v1/secrets/{}/db.yaml", world.namespace);
    let late = world.files_of("main", "clusters/late/");
    assert!(late.contains_key(&path), "{late:?}");
    world.finish();
}

#[test]
fn without_the_right_to_read_secrets_credentials_work_and_the_rest_is_mirrored() {
    let mut world = Installation::prepare("unread");
    let home = world.namespace.clone();
    let values = ["rbac.secrets=false", "rbac.credentialSecrets={access}"];
    world.be_a_release(&home, &values);
    // The first is what the chart says then.
    world.configure(&[
        "--discovery-exclude=secrets",
        "--allow-url-schemes=http",
        "--webhook-bind-address=0",
    ]);
    let server = HttpFront::start(world.folder.path());
    // reverser:right
    server.require(&["Basic cmV2ZXJzZXI6cmlnaHQ="]);
    let create = |name: &str| {
        let login = [
            "--from-literal=username=reverser",
            "--from-literal=password=right",
        ];
        world.kubectl(&[&["create", "secret", "generic", name], &login[..]].concat());
    };
    create("access");
    create("db");
    let repo = json!({"repoUrl": server.url("repo.git"), "secretRef": {"name": "access"}});
    world.apply(&world.repo("repo", &repo));
    let redact = json!({"secrets": {"mode": "Redact"}});
    world.apply(&world.destination("prod", "clusters/prod", &redact));
    world.apply(&world.config_map("web", "one"));
    world.apply(&world.rule("rule", &json!([{}])));
    world.run();
    world.await_names(&["web"]);
    world.await_ready("gitdestination/prod", "True", "InSync");

    // Whoever names them is told why they are missing, and has the rest.
    world.apply(&world.destination("named", "clusters/named", &redact));
    let named = json!([{"resources": ["secrets", "configmaps"]}]);
    world.apply(&world.rule_to("named", "named", &named));
    let message = world.await_ready("gitdestination/named", "False", "ScopeUnknown");
    assert!(
        message.contains("secrets") && message.contains("403"),
        "{message}"
    );
    let web = world.path("web");
    soon("the rest", || {
        let files = world.files_of("main", "clusters/named/");
        let there: Vec<_> = files.keys().cloned().collect();
        let found = files.contains_key(&web).then_some(());
        found.ok_or_else(|| format!("{there:?}"))
    });
    for folder in ["clusters/prod/", "clusters/named/"] {
        let files = world.files_of("main", folder);
        let secrets: Vec<_> = files
            .keys()
            .filter(|path| path.contains("/secrets/"))
            .collect();
        assert!(secrets.is_empty(), "{secrets:?}");
    }
    world.finish();
}
