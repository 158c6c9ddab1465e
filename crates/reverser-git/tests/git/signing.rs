//! Signatures, verified by git itself.

use std::process::Command;

use reverser_git::{BadSigningKey, PushOptions, SshSigner};
use reverser_testkit::command;

use crate::support::{Server, Transport, plan, pushed};

fn key(folder: &std::path::Path, kind: &str, passphrase: &str) -> String {
    let mut keygen = Command::new("ssh-keygen");
    keygen.current_dir(folder).args([
        "-q", "-t", kind, "-a", "2", "-N", passphrase, "-C", "", "-f", kind,
    ]);
    command::run(&mut keygen);
    std::fs::read_to_string(folder.join(kind)).unwrap()
}

#[test]
fn commits_signed_with_ed25519_and_rsa_keys_are_verified_by_git() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, passphrase) in [("ed25519", "open sesame"), ("rsa", "")] {
        let private = key(folder.path(), kind, passphrase);
        let signer = SshSigner::new(&private.into(), Some(&passphrase.to_owned().into())).unwrap();
        let server = Server::start(Transport::Path);
        let mut mirror = server.mirror("main");
        mirror.fetch().unwrap();
        let plans = [
            plan(&mirror, "live", &[("live/a.yaml", Some("a\n"))]),
            plan(&mirror, "live", &[("live/b.yaml", Some("b\n"))]),
        ];
        let committed = mirror.commit(&plans, Some(&signer)).unwrap();
        pushed(
            &mirror
                .push(&committed.prepared.unwrap(), &PushOptions::default())
                .unwrap(),
        );
        server.repository.assert_sound("main");
        let allowed = folder.path().join("allowed_signers");
        std::fs::write(
            &allowed,
            format!("bot@example.com {}\n", signer.public_key().unwrap()),
        )
        .unwrap();
        server
            .repository
            .config("gpg.ssh.allowedSignersFile", allowed.to_str().unwrap());
        server.repository.git(&["verify-commit", "main", "main~1"]);
        let by = server
            .repository
            .git(&["log", "-1", "--format=%G? %GS", "main"]);
        assert_eq!(by, "G bot@example.com", "{kind}");
    }
}

#[test]
fn keys_that_cannot_sign_are_refused_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let locked = key(folder.path(), "ed25519", "open sesame");
    let ecdsa = key(folder.path(), "ecdsa", "");
    let new = |key: &str, phrase: Option<&str>| {
        SshSigner::new(
            &key.to_owned().into(),
            phrase.map(|p| p.to_owned().into()).as_ref(),
        )
        .unwrap_err()
    };
    assert_eq!(new("hello", None), BadSigningKey::Form);
    assert_eq!(new(&locked, None), BadSigningKey::Locked);
    assert_eq!(new(&locked, Some("hunter2")), BadSigningKey::Passphrase);
    assert!(matches!(
        new(&ecdsa, None),
        BadSigningKey::Algorithm(_) | BadSigningKey::Form
    ));
}
