use std::sync::Arc;

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{ServerName, UnixTime};

use super::*;

const NAME: &str = "hook.gitops.svc";

fn names() -> Vec<String> {
    vec![NAME.to_owned(), "127.0.0.1".to_owned()]
}

fn day(day: u64) -> Timestamp {
    after(
        Timestamp::from_second(1_800_000_000).unwrap(),
        Duration::from_hours(24 * day),
    )
}

fn replaced(step: Result<Step, CertificateError>) -> (Certificates, Change) {
    match step.unwrap() {
        Step::Replace(certificates, change) => (*certificates, change),
        Step::Keep(until) => panic!("nothing is due before {until}"),
    }
}

fn create() -> Certificates {
    let created = step(None, &names(), Lifetimes::default(), None, day(0));
    let (certificates, change) = replaced(created);
    assert_eq!(change, Change::Created);
    certificates
}

/// What an API server does that has this bundle.
fn trusts(bundle: &str, certificates: &Certificates, name: &str, now: Timestamp) -> bool {
    let mut roots = RootCertStore::empty();
    for authority in all(bundle).unwrap() {
        roots.add(authority).unwrap();
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .unwrap();
    let serving = first(&certificates.serving).unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let seconds = Duration::from_secs(now.as_second().try_into().unwrap());
    let at = UnixTime::since_unix_epoch(seconds);
    verifier
        .verify_server_cert(&serving, &[], &name, &[], at)
        .is_ok()
}

#[test]
fn what_is_created_is_trusted_by_each_of_its_names_and_by_no_other() {
    let certificates = create();
    let bundle = &certificates.authorities;
    assert!(trusts(bundle, &certificates, NAME, day(0)));
    assert!(trusts(bundle, &certificates, "127.0.0.1", day(0)));
    assert!(!trusts(bundle, &certificates, "other.gitops.svc", day(0)));
    assert!(!trusts(&create().authorities, &certificates, NAME, day(0)));
    // Clocks differ.
    let earlier = Timestamp::from_second(day(0).as_second() - 1800).unwrap();
    assert!(trusts(bundle, &certificates, NAME, earlier));
    assert_eq!(certificates.end(), Some(day(90)));
}

#[test]
fn thirty_years_pass_and_no_caller_ever_meets_what_it_does_not_trust() {
    let lifetimes = Lifetimes::default();
    let mut certificates = create();
    // What the caller trusts is always what was true before the last step.
    let mut trusted = (certificates.authorities.clone(), day(0));
    let mut changes = Vec::new();
    let mut at = day(0);
    while at < day(30 * 365) {
        let since = (trusted.0 == certificates.authorities).then_some(trusted.1);
        match step(Some(&certificates), &names(), lifetimes, since, at).unwrap() {
            Step::Keep(until) => {
                assert!(until > at, "nothing is due that is not done");
                at = until;
            }
            Step::Replace(next, change) => {
                changes.push(change);
                certificates = *next;
            }
        }
        assert!(
            trusts(&trusted.0, &certificates, NAME, at),
            "at {at}: {changes:?}"
        );
        if trusted.0 != certificates.authorities {
            trusted = (certificates.authorities.clone(), at);
        }
        assert!(all(&certificates.authorities).unwrap().len() <= 2);
    }
    let count = |change| changes.iter().filter(|one| **one == change).count();
    // An authority each six years and eight months, a certificate each two months.
    assert_eq!(count(Change::AuthorityAnnounced), 4);
    assert!(
        (182..=190).contains(&count(Change::Issued)),
        "{}",
        count(Change::Issued)
    );
    assert_eq!(count(Change::Created), 0);
}

#[test]
fn a_new_authority_is_not_used_before_callers_are_known_to_trust_it() {
    let lifetimes = Lifetimes::default();
    let old = day(7 * 365);
    let certificates = create();
    let issued = step(Some(&certificates), &names(), lifetimes, None, old);
    let (certificates, change) = replaced(issued);
    assert_eq!(change, Change::Issued, "first, what is about to end");
    let announced = step(Some(&certificates), &names(), lifetimes, None, old);
    let (certificates, change) = replaced(announced);
    assert_eq!(change, Change::AuthorityAnnounced);
    let later = day(7 * 365 + 1);
    let kept = step(Some(&certificates), &names(), lifetimes, None, later).unwrap();
    assert!(matches!(kept, Step::Keep(_)), "nobody is known to trust it");
    let kept = step(Some(&certificates), &names(), lifetimes, Some(later), later).unwrap();
    assert!(matches!(kept, Step::Keep(at) if at == after(later, lifetimes.announced)));
    let then = after(later, lifetimes.announced);
    let issued = step(Some(&certificates), &names(), lifetimes, Some(later), then);
    assert_eq!(replaced(issued).1, Change::Issued);
    // What nobody takes any more cannot get worse.
    let ended = day(8 * 365);
    let issued = step(Some(&certificates), &names(), lifetimes, None, ended);
    assert_eq!(replaced(issued).1, Change::Issued);
}

#[test]
fn other_names_need_another_certificate_of_the_same_authority() {
    let certificates = create();
    let other = vec!["elsewhere.svc".to_owned()];
    let issued = step(
        Some(&certificates),
        &other,
        Lifetimes::default(),
        None,
        day(1),
    );
    let (issued, change) = replaced(issued);
    assert_eq!(change, Change::Issued);
    assert_eq!(issued.authorities, certificates.authorities);
    assert!(trusts(
        &certificates.authorities,
        &issued,
        "elsewhere.svc",
        day(1)
    ));
    assert!(!trusts(&certificates.authorities, &issued, NAME, day(1)));
}

#[test]
fn what_cannot_be_used_is_made_anew() {
    let (good, other) = (create(), create());
    let broken = [
        Certificates {
            authorities: "no certificate".into(),
            ..good.clone()
        },
        Certificates {
            authority_key: "no key".into(),
            ..good.clone()
        },
        Certificates {
            serving: String::new(),
            ..good.clone()
        },
        Certificates {
            serving_key: other.serving_key.clone(),
            ..good.clone()
        },
        Certificates {
            authorities: other.authorities.clone(),
            authority_key: other.authority_key.clone(),
            ..good.clone()
        },
    ];
    for certificates in broken {
        let created = step(
            Some(&certificates),
            &names(),
            Lifetimes::default(),
            None,
            day(0),
        );
        assert_eq!(replaced(created).1, Change::Created);
    }
}

#[test]
fn keys_are_not_shown() {
    let shown = format!("{:?}", create());
    assert!(!shown.contains("PRIVATE KEY"), "{shown}");
}
