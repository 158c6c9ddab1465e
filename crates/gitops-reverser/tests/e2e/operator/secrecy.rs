//! Credentials and protected Secrets are looked for wherever they must not be.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use k8s_openapi::ByteString;
use reverser_testkit::command;
use reverser_testkit::control_plane::User;
use reverser_testkit::git_server::HttpFront;
use reverser_testkit::ports::Port;
use reverser_testkit::process::Process;
use reverser_testkit::scratch::Scratch;
use serde_json::{Value, json};

use super::installation::{Installation, soon};

const RIGHT: &str = "canary-right-7f1d0c52";
const WRONG: &str = "canary-wrong-90ab13ee";
const PASSPHRASE: &str = "canary-phrase-5d5e02c4";
const PROTECTED: &str = "canary-secret-e3b0c442";

fn base64(text: &str) -> String {
    let encoded = serde_json::to_value(ByteString(text.as_bytes().to_vec())).unwrap();
    encoded.as_str().unwrap().to_owned()
}

fn secret(world: &Installation, name: &str, data: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": world.namespace}, "stringData": data,
    })
}

fn metrics(port: &Port) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port.number())).unwrap();
    let request = "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .flat_map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => files_below(&entry.path()),
            _ => vec![entry.path()],
        })
        .collect()
}

/// A key that opens with the passphrase.
fn signing_key(folder: &Path) -> String {
    let mut keygen = Command::new("ssh-keygen");
    keygen
        .current_dir(folder)
        .args(["-q", "-t", "ed25519", "-C", "", "-f", "key", "-N"]);
    command::run(keygen.arg(PASSPHRASE));
    std::fs::read_to_string(folder.join("key")).unwrap()
}

/// A repository with credentials and a signing key, destinations that protect Secrets, and rules that
/// select some. Gives the signing key.
fn furnish(world: &Installation, server: &HttpFront) -> String {
    let key = signing_key(world.folder.path());
    world.apply(&access(world, WRONG));
    let locked = json!({"ssh-privatekey": key, "ssh-password": PASSPHRASE});
    world.apply(&secret(world, "signing", &locked));
    world.apply(&secret(world, "db", &json!({"password": PROTECTED})));
    world.apply(&world.repo(
        "repo",
        &json!({
            "repoUrl": server.url("repo.git"), "secretRef": {"name": "access"},
            "commit": {"signingKeySecretRef": {"name": "signing"}},
        }),
    ));
    let rules = json!([{"resources": ["secrets", "configmaps"]}]);
    for (name, mode) in [("prod", "Redact"), ("skip", "Skip")] {
        let protected = json!({"secrets": {"mode": mode}});
        world.apply(&world.destination(name, &format!("clusters/{name}"), &protected));
        world.apply(&world.rule_to(name, name, &rules));
    }
    world.apply(&world.config_map("web", "one"));
    key
}

fn access(world: &Installation, password: &str) -> Value {
    let data = json!({"username": "reverser", "password": password});
    secret(world, "access", &data)
}

/// The program, which logs all that it can.
fn start(world: &Installation, scratch: &Scratch, port: &Port) -> Process {
    let program = assert_cmd::cargo::cargo_bin("gitops-reverser");
    let metrics_at = format!("--metrics-bind-address=127.0.0.1:{}", port.number());
    let flags = [
        "controller",
        "--allow-url-schemes=http",
        "--git-poll-sec=2",
        "--webhook-bind-address=0",
        "--health-probe-bind-address=0",
        "--log-level=trace",
        &metrics_at,
    ];
    let kubeconfig = world.plane.kubeconfig(User::Admin);
    let operator = Process::new(scratch, "operator", &program, flags)
        .env("GITOPS_REVERSER_KUBECONFIG", kubeconfig)
        .env("GITOPS_REVERSER_WORK_DIR", scratch.path().join("work"));
    operator.start().unwrap();
    operator
}

/// Fails the test if one of the canaries, by what they are, is in one of the texts, by where they are.
#[track_caller]
fn assert_untold(canaries: &[(&str, String)], places: &[(String, String)]) {
    for (place, text) in places {
        for (what, canary) in canaries {
            let at = text.find(canary);
            let around = at.map(|at| text[..at].lines().last().unwrap_or_default());
            assert!(at.is_none(), "{what} is in {place} after {around:?}");
        }
    }
}

#[test]
fn credentials_and_protected_secrets_are_told_nowhere() {
    let world = Installation::alone("secrecy");
    let server = HttpFront::start(world.folder.path());
    let basic = base64(&format!("reverser:{RIGHT}"));
    server.require(&[&format!("Basic {basic}")]);
    // What every process was called with while a push was under way.
    let arguments = world.folder.path().join("arguments");
    let note = format!(
        "cat /proc/[0-9]*/cmdline >> {} 2>/dev/null; exit 0",
        arguments.display()
    );
    world.repository.hook("pre-receive", &note);
    let key = furnish(&world, &server);
    let scratch = Scratch::create("secrecy").unwrap();
    let port = Port::reserve().unwrap();
    let operator = start(&world, &scratch, &port);
    world.await_ready("gitdestination/prod", "False", "CredentialsRefused");
    world.apply(&access(&world, RIGHT));
    for destination in ["gitdestination/prod", "gitdestination/skip"] {
        world.await_ready(destination, "True", "InSync");
    }
    let file = format!("core/v1/secrets/{}/db.yaml", world.namespace);
    let before = world.files()[&file].clone();
    assert!(before.contains("password: "), "it is redacted");
    assert!(!world.files_of("main", "clusters/skip/").contains_key(&file));
    let changed = json!({"password": format!("{PROTECTED}-2")});
    world.apply(&secret(&world, "db", &changed));
    soon("another hash", || {
        let now = world.files()[&file].clone();
        (now != before).then_some(()).ok_or(now)
    });

    // The key of the hashes is to be found in its Secret only.
    let name = "gitops-reverser-redaction";
    let data = "jsonpath={.data.*}";
    let redaction = world.kubectl(&["-n", "default", "get", "secret", name, "-o", data]);
    assert!(redaction.len() > 20, "{redaction}");
    let mut canaries = vec![
        ("the authorization header", basic),
        ("the redaction key", redaction),
        ("the signing key", key.lines().nth(2).unwrap().to_owned()),
    ];
    for text in [RIGHT, WRONG, PASSPHRASE, PROTECTED] {
        canaries.push((text, text.to_owned()));
        canaries.push((text, base64(text).trim_end_matches('=').to_owned()));
    }
    let kinds = "gitrepoconfigs,gitdestinations,watchrules,events,leases,configmaps";
    let told = world.kubectl(&["get", kinds, "-A", "-o", "yaml"]);
    let history = world
        .repository
        .git(&["log", "-p", "--format=raw", "--all"]);
    let mut places = vec![
        ("status and events".to_owned(), told),
        ("metrics".to_owned(), metrics(&port)),
        ("history".to_owned(), history),
    ];
    operator.stop().unwrap();
    let kept = files_below(&scratch.path().join("work"));
    for file in kept
        .into_iter()
        .chain([operator.log().to_owned(), arguments])
    {
        let bytes = std::fs::read(&file).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        places.push((file.display().to_string(), text));
    }
    let arguments = &places.last().unwrap().1;
    assert!(arguments.contains("push"), "a push was seen: {arguments}");
    assert_untold(&canaries, &places);
}
