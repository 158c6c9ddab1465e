//! Files of this repository, and what is in them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

pub(crate) fn path(inside: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap().join(inside)
}

#[track_caller]
pub(crate) fn read(inside: &str) -> String {
    fs::read_to_string(path(inside)).unwrap_or_else(|error| panic!("{inside}: {error}"))
}

/// Fails if a committed file is not the one that is made here. `make docs` writes it.
#[track_caller]
pub(crate) fn assert_current(inside: &str, made: &str) {
    if std::env::var_os("REVERSER_BLESS").is_some() {
        fs::create_dir_all(path(inside).parent().unwrap()).unwrap();
        fs::write(path(inside), made).unwrap();
    }
    let committed = fs::read_to_string(path(inside)).unwrap_or_default();
    assert!(committed == made, "{inside} is stale: run `make docs`");
}

/// The documents of a YAML text, without empty ones.
#[track_caller]
pub(crate) fn documents(yaml: &str) -> Vec<Value> {
    let documents = serde_saphyr::from_multiple::<Value>(yaml).unwrap();
    documents.into_iter().filter(|one| !one.is_null()).collect()
}

/// `kind/name` of an object.
pub(crate) fn name(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!(
        "{}/{}",
        text(&object["kind"]),
        text(&object["metadata"]["name"])
    )
}

#[track_caller]
pub(crate) fn one<'a>(objects: &'a [Value], wanted: &str) -> &'a Value {
    let found = objects.iter().find(|object| name(object) == wanted);
    found.unwrap_or_else(|| {
        let there: Vec<_> = objects.iter().map(name).collect();
        panic!("no {wanted} among {there:?}")
    })
}
