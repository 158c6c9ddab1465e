//! Who is let in, and how.

use std::time::Duration;

use reverser_git::{Credentials, FetchError, PushOutcome, RemoteFailure, UnreachableCause};
use reverser_testkit::certificates::Authority;
use reverser_testkit::git_server::sshd::PASSPHRASE;
use reverser_testkit::git_server::{BareRepository, FileChange, HttpFront, HttpOptions, Sshd};

use crate::support::{Server, Transport, pushed, secret, ssh_secret, sshd, write};

const BASIC: &str = "Basic dTpodW50ZXIy";

fn unauthorised(error: &FetchError) -> bool {
    matches!(
        error,
        FetchError::Remote(RemoteFailure::Unauthorised { .. })
    )
}

fn cause(error: &FetchError) -> Option<UnreachableCause> {
    match error {
        FetchError::Remote(RemoteFailure::Unreachable { cause, .. }) => Some(*cause),
        _ => None,
    }
}

#[test]
fn basic_and_bearer_logins_are_sent_at_once() {
    for (transport, entries, header) in [
        (
            Transport::Http,
            &[("username", "u"), ("password", "hunter2\n")][..],
            BASIC,
        ),
        (
            Transport::Https,
            &[("bearerToken", "hunter2")][..],
            "Bearer hunter2",
        ),
    ] {
        let mut server = Server::start(transport);
        server.secret.extend(secret(entries));
        server.front().require(&[header]);
        let mut mirror = server.mirror("main");
        mirror.fetch().unwrap();
        pushed(&write(&mut mirror, &[("live/a.yaml", Some("a\n"))]));
        // Nobody was asked for a password first: a look at the refs and one request for each step.
        let looks = server
            .front()
            .seen()
            .iter()
            .filter(|line| line.contains("git-receive-pack"))
            .count();
        assert_eq!(looks, 2, "{:?}", server.front().seen());
    }
}

#[test]
fn wrong_credentials_are_told_and_rotated_ones_are_used_at_once() {
    let mut server = Server::start(Transport::Http);
    server.secret = secret(&[("username", "u"), ("password", "wrong")]);
    server.front().require(&[BASIC]);
    let mut mirror = server.mirror("main");
    let error = mirror.fetch().unwrap_err();
    assert!(unauthorised(&error), "{error}");
    server.secret = secret(&[("username", "u"), ("password", "hunter2")]);
    mirror.set_credentials(server.credentials());
    mirror.fetch().unwrap();
    // Rotated on the server before the push.
    server.front().require(&["Bearer next"]);
    let outcome = write(&mut mirror, &[("live/a.yaml", Some("a\n"))]);
    assert!(
        matches!(outcome, PushOutcome::Unauthorised { .. }),
        "{outcome:?}"
    );
    server.secret = secret(&[("bearerToken", "next")]);
    mirror.set_credentials(server.credentials());
    pushed(&write(&mut mirror, &[("live/a.yaml", Some("a\n"))]));
    // None at all.
    mirror.set_credentials(Credentials::anonymous());
    assert!(unauthorised(&mirror.fetch().unwrap_err()));
}

#[test]
fn an_unknown_authority_is_not_trusted() {
    let mut server = Server::start(Transport::Https);
    server.secret.clear();
    let mut mirror = server.mirror("main");
    let error = mirror.fetch().unwrap_err();
    assert_eq!(cause(&error), Some(UnreachableCause::Tls), "{error}");
    let other = Authority::new("somebody else").unwrap();
    server
        .secret
        .insert("ca.crt".to_owned(), other.pem().into_bytes());
    mirror.set_credentials(server.credentials());
    let error = mirror.fetch().unwrap_err();
    assert_eq!(cause(&error), Some(UnreachableCause::Tls), "{error}");
}

#[test]
fn a_certificate_for_another_host_is_not_trusted() {
    let root = tempfile::tempdir().unwrap();
    let authority = Authority::new("git servers").unwrap();
    let tls = Some(authority.issue(&["git.example.com"]).unwrap());
    let front = HttpFront::with_options(
        root.path(),
        &HttpOptions {
            tls,
            client_authority: None,
        },
    );
    let mut server = Server::start(Transport::Https);
    server.url = front.url("r.git");
    server.secret = secret(&[("ca.crt", &authority.pem())]);
    let error = server.mirror("main").fetch().unwrap_err();
    assert_eq!(cause(&error), Some(UnreachableCause::Tls), "{error}");
}

#[test]
fn a_client_certificate_is_shown() {
    let authority = Authority::new("git servers").unwrap();
    let mut server = Server::start(Transport::Https);
    let options = HttpOptions {
        tls: Some(authority.issue(&["127.0.0.1"]).unwrap()),
        client_authority: Some(authority.der()),
    };
    let front = HttpFront::with_options(server.root.path(), &options);
    server.url = front.url("r.git");
    server.secret = secret(&[("ca.crt", &authority.pem())]);
    let mut mirror = server.mirror("main");
    let error = mirror.fetch().unwrap_err();
    // With TLS 1.3 the server says why only after the client thinks that all is well.
    let expected = [UnreachableCause::Tls, UnreachableCause::Interrupted];
    assert!(
        cause(&error).is_some_and(|cause| expected.contains(&cause)),
        "{error}"
    );
    let client = authority.issue_client("reverser").unwrap();
    server.secret.extend(secret(&[
        ("tls.crt", &client.certificate_pem),
        ("tls.key", &client.key_pem),
    ]));
    mirror.set_credentials(server.credentials());
    mirror.fetch().unwrap();
    pushed(&write(&mut mirror, &[("live/a.yaml", Some("a\n"))]));
}

#[test]
fn a_locked_key_opens_with_its_passphrase() {
    let mut server = Server::start(Transport::Ssh);
    server
        .secret
        .insert("identity".to_owned(), sshd().locked_key().into_bytes());
    server
        .secret
        .insert("password".to_owned(), PASSPHRASE.as_bytes().to_vec());
    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    pushed(&write(&mut mirror, &[("live/a.yaml", Some("a\n"))]));
    // The key was written down locked, and is gone.
    let left = crate::support::files_below(mirror.folder.path());
    assert!(
        !left.iter().any(|file| file.ends_with("identity")),
        "{left:?}"
    );
}

#[test]
fn a_key_that_is_not_let_in_is_told() {
    let mut server = Server::start(Transport::Ssh);
    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    let good = server
        .secret
        .insert("identity".to_owned(), sshd().strange_key().into_bytes());
    mirror.set_credentials(server.credentials());
    let outcome = write(&mut mirror, &[("live/a.yaml", Some("a\n"))]);
    assert!(
        matches!(outcome, PushOutcome::Unauthorised { .. }),
        "{outcome:?}"
    );
    assert!(unauthorised(&mirror.fetch().unwrap_err()));
    server.secret.insert("identity".to_owned(), good.unwrap());
    mirror.set_credentials(server.credentials());
    mirror.fetch().unwrap();
    pushed(&write(&mut mirror, &[("live/a.yaml", Some("a\n"))]));
}

#[test]
fn a_changed_or_unknown_host_key_stops_everything() {
    let own = Sshd::start();
    let mut server = Server::start(Transport::Ssh);
    server.url = own.url(server.repository.path());
    server.secret = ssh_secret(&own);
    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    own.change_host_key();
    let error = mirror.fetch().unwrap_err();
    assert_eq!(cause(&error), Some(UnreachableCause::HostKey), "{error}");
    // Known only under another name.
    let elsewhere = own.known_hosts().replace("127.0.0.1", "example.com");
    server
        .secret
        .insert("known_hosts".to_owned(), elsewhere.into_bytes());
    mirror.set_credentials(server.credentials());
    let error = mirror.fetch().unwrap_err();
    assert_eq!(cause(&error), Some(UnreachableCause::HostKey), "{error}");
    server.secret = ssh_secret(&own);
    mirror.set_credentials(server.credentials());
    mirror.fetch().unwrap();
}

#[test]
fn the_proxy_of_a_repository_is_used() {
    let root = tempfile::tempdir().unwrap();
    BareRepository::create(root.path(), "r.git").commit(
        "main",
        "first",
        &[FileChange::Write("a", "a\n")],
    );
    // The front takes requests for any host: it is the proxy and what is behind it.
    let proxy = HttpFront::start(root.path());
    let proxy_url = proxy.url("");
    let mut server = Server::start(Transport::Http);
    server.url = "http://git.example.invalid/r.git".to_owned();
    server.secret = secret(&[
        ("proxy", proxy_url.trim_end_matches('/')),
        ("noProxy", "other.example.com"),
    ]);
    server.mirror("main").fetch().unwrap();
    assert!(
        proxy.seen()[0].contains("http://git.example.invalid/r.git/info/refs"),
        "{:?}",
        proxy.seen()
    );
    // A host that is excepted is not reached through it.
    server.secret = secret(&[
        ("proxy", proxy_url.trim_end_matches('/')),
        ("noProxy", "git.example.invalid"),
    ]);
    let error = server.mirror("main").fetch().unwrap_err();
    assert_eq!(
        cause(&error),
        Some(UnreachableCause::NotConnected),
        "{error}"
    );
}

#[test]
fn a_login_that_hangs_ends_at_its_deadline() {
    let own = Sshd::start();
    let mut server = Server::start(Transport::Ssh);
    server.url = own.url(server.repository.path());
    server.secret = ssh_secret(&own);
    let mut options = crate::support::quick();
    options.timeouts.transfer = Duration::from_secs(2);
    let folder = tempfile::tempdir().unwrap();
    let mut mirror = server.open_with(folder.path(), "main", options);
    own.process().pause().unwrap();
    let error = mirror.fetch().unwrap_err();
    assert_eq!(cause(&error), Some(UnreachableCause::TimedOut), "{error}");
    own.process().resume().unwrap();
    drop(mirror);
    server.open(folder.path(), "main").fetch().unwrap();
}
