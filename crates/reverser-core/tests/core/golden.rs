//! The golden cases, recorded from a real API server: each live object gives its file.
//!
//! `tests/golden/README.md` says what a case is and how one is added.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use reverser_core::canon::{Manifest, RULES, canonicalise, rules_that_change, say_the_same};
use reverser_core::object::Object;
use reverser_core::yaml_read;

use crate::repository;

struct Case {
    name: String,
    live: String,
    manifest: String,
}

impl Case {
    fn all() -> Vec<Self> {
        let root = repository().join("tests/golden");
        let cases: Vec<_> = folders(&root)
            .flat_map(|kind| folders(&kind).collect::<Vec<_>>())
            .map(|folder| Self::read(&root, &folder))
            .collect();
        assert!(!cases.is_empty(), "there are golden cases");
        cases
    }

    fn read(root: &Path, folder: &Path) -> Self {
        let name = folder.strip_prefix(root).unwrap().display().to_string();
        let read = |file| {
            fs::read_to_string(folder.join(file)).unwrap_or_else(|error| {
                panic!("{name}/{file}: {error}; tests/golden/README.md says how to record it")
            })
        };
        Self {
            live: read("live.json"),
            manifest: read("manifest.yaml"),
            name,
        }
    }

    fn object(&self) -> Object<'_> {
        Object::from_json(&self.live, None).unwrap()
    }
}

fn folders(parent: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let mut paths: Vec<_> = fs::read_dir(parent)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths.into_iter().filter(|path| path.is_dir())
}

fn from_yaml(text: &str) -> Manifest<'_> {
    let value = yaml_read::read(text).unwrap();
    canonicalise(Object::from_value(value, None).unwrap())
}

#[test]
fn each_live_object_gives_its_file() {
    for case in Case::all() {
        let canonical = canonicalise(case.object());
        assert!(
            canonical.to_yaml() == case.manifest,
            "{} gives\n{}\nand not\n{}",
            case.name,
            canonical.to_yaml(),
            case.manifest
        );
        assert!(
            say_the_same(&canonical.to_yaml(), &case.manifest),
            "{}",
            case.name
        );
    }
}

#[test]
fn each_file_is_canonical_already() {
    for case in Case::all() {
        assert_eq!(
            from_yaml(&case.manifest).to_yaml(),
            case.manifest,
            "{}",
            case.name
        );
    }
}

/// All cases are on one control plane at the same time.
#[test]
fn no_two_cases_are_about_the_same_object() {
    let mut seen = BTreeSet::new();
    for case in Case::all() {
        let object = case.object();
        let namespace = object.namespace().map(str::to_owned);
        let identity = (
            object.kind().to_owned(),
            namespace,
            object.name().to_owned(),
        );
        assert!(
            seen.insert(identity),
            "{} is about an object of another case",
            case.name
        );
    }
}

#[test]
fn each_rule_is_shown_by_a_live_object() {
    let cases = Case::all();
    let shown: BTreeSet<_> = cases
        .iter()
        .flat_map(|case| rules_that_change(case.object()))
        .map(|rule| rule.name)
        .collect();
    for rule in RULES {
        assert!(
            shown.contains(rule.name),
            "no golden case shows the rule {}",
            rule.name
        );
    }
}
