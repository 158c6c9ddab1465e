//! Two objects never share a path, whatever a file system does to names.

use std::collections::HashMap;

use proptest::prelude::*;
use reverser_core::object_key::{ObjectKey, TypeKey};
use reverser_core::repo_path::RepoPath;
use unicode_normalization::UnicodeNormalization as _;

use crate::random_values::{many, text};

fn keys() -> impl Strategy<Value = ObjectKey> {
    let name = prop_oneof![
        3 => "[a-bA-B:.~%é]{1,3}",
        2 => text().prop_filter("an object has a name", |name| !name.is_empty()),
        1 => "[aA:]{245,260}",
        1 => prop::sample::select(vec!["aux", "AUX", "nul.x", "com1", "\u{e9}", "e\u{301}", "É", "core"])
            .prop_map(str::to_owned),
    ];
    let group = prop::sample::select(vec!["", "core", "apps", "aux", "a.b"]);
    let namespace = prop::sample::select(vec![None, Some("a"), Some("con")]);
    (group, namespace, name).prop_map(|(group, namespace, name)| {
        let type_key = TypeKey::new(group, "v1", "things").unwrap();
        ObjectKey::new(type_key, namespace.map(str::to_owned), name).unwrap()
    })
}

/// What a file system that folds case and composes accents makes of a path.
fn folded(path: &str) -> String {
    path.nfc().collect::<String>().to_lowercase()
}

#[test]
fn two_objects_never_share_a_path() {
    let mut taken: HashMap<String, ObjectKey> = HashMap::new();
    for key in many(&keys(), 40_000) {
        let path = RepoPath::of(&key);
        let identity = RepoPath::parse(path.as_str()).unwrap();
        assert!(identity.is_of(&key), "{path} is not told back as {key}");
        assert!(
            path.as_str().split('/').all(|part| part.len() <= 255),
            "{path}"
        );
        if let Some(other) = taken.insert(folded(path.as_str()), key.clone()) {
            assert_eq!(other, key, "two objects share {path}");
        }
    }
    assert!(
        taken.len() > 5_000,
        "the names are too few to tell: {}",
        taken.len()
    );
}

#[test]
fn what_is_read_from_any_path_leads_back_to_that_path() {
    let text = prop_oneof![
        "(core|apps|%63ore|Apps)/v1/(x|X)/((a|A|con|%63on)/)?[a-b%~0-9A-F.]{0,6}.yaml",
        any::<String>(),
    ];
    for path in many(&text, 20_000) {
        let Ok(identity) = RepoPath::parse(&path) else {
            continue;
        };
        let reverser_core::repo_path::PathName::Whole(name) = identity.name else {
            panic!("{path} is too short to be cut")
        };
        let key = ObjectKey::new(identity.type_key, identity.namespace, name).unwrap();
        assert_eq!(RepoPath::of(&key).as_str(), path);
    }
}
