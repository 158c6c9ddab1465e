//! Files of the repository that are written from the code, and the tests that keep them current.
//!
//! With `REVERSER_BLESS=1` these tests write the files instead of comparing them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{api_reference, crd_yaml};

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

fn assert_current(path: &str, text: &str) {
    let file = repository(path);
    if std::env::var_os("REVERSER_BLESS").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    } else {
        assert!(
            fs::read_to_string(file).unwrap_or_default() == text,
            "{path} is not what the code says: run the tests again with REVERSER_BLESS=1"
        );
    }
}

#[test]
fn crds_are_current() {
    // A chart can hold nothing that is outside of its folder.
    for folder in ["config/crd/bases", "charts/gitops-reverser/files/crds"] {
        let mut expected = BTreeSet::new();
        for crd in crd_yaml::crds() {
            let file = crd_yaml::file_name(&crd);
            assert_current(&format!("{folder}/{file}"), &crd_yaml::crd_yaml(&crd));
            expected.insert(file);
        }
        let found: BTreeSet<_> = fs::read_dir(repository(folder))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(
            found, expected,
            "{folder} holds the definitions and nothing else"
        );
    }
}

#[test]
fn api_reference_is_current() {
    assert_current("docs/reference/api.md", &api_reference::markdown());
}
