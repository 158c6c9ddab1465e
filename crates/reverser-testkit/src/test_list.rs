//! No test file is forgotten in the list of its test binary.
//!
//! Each crate has one test binary, so that its tests share one control plane. The price is that a
//! file which `main.rs` does not list is silently not run; this makes it loud.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

/// Fails the test if `main.rs` in this folder does not list each file and folder beside it.
///
/// ```no_run
/// #[test]
/// fn every_test_file_is_listed() {
///     reverser_testkit::test_list::assert_complete(concat!(
///         env!("CARGO_MANIFEST_DIR"),
///         "/tests/testkit"
///     ));
/// }
/// ```
#[track_caller]
pub fn assert_complete(folder: impl AsRef<Path>) {
    let folder = folder.as_ref();
    let there = files(folder)
        .unwrap_or_else(|error| panic!("cannot read the files in {}: {error}", folder.display()));
    let main = folder.join("main.rs");
    let main = fs::read_to_string(&main)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", main.display()));
    let listed = listed(&main);
    let forgotten: Vec<_> = there.difference(&listed).collect();
    assert!(
        forgotten.is_empty(),
        "main.rs in {} does not list {forgotten:?}: these tests never run",
        folder.display()
    );
}

/// The modules that are there: `name.rs` and folders with a `mod.rs`.
fn files(folder: &Path) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_module = if path.is_dir() {
            path.join("mod.rs").is_file()
        } else {
            path.extension().is_some_and(|extension| extension == "rs")
        };
        if is_module && let Some(name) = path.file_stem() {
            names.insert(name.to_string_lossy().into_owned());
        }
    }
    names.remove("main");
    Ok(names)
}

/// The modules that are declared. A comment is not a declaration.
fn listed(main: &str) -> BTreeSet<String> {
    let names = main.lines().filter_map(|line| {
        let line = line.trim();
        let line = line.strip_prefix("pub ").unwrap_or(line);
        line.strip_prefix("mod ")?.strip_suffix(';')
    });
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_or_folder_that_is_not_listed_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        fs::create_dir(folder.path().join("grouped")).unwrap();
        fs::create_dir(folder.path().join("golden")).unwrap();
        write("grouped/mod.rs", "");
        write("golden/case.json", "");
        write("first.rs", "");
        write("second.rs", "");
        write("main.rs", "//! Tests.\nmod first;\n// mod second;\n");
        let panic = std::panic::catch_unwind(|| assert_complete(folder.path())).unwrap_err();
        let text = panic.downcast_ref::<String>().unwrap();
        assert!(
            text.contains(r#"does not list ["grouped", "second"]"#),
            "{text}"
        );

        write("main.rs", "mod first;\nmod second;\nmod grouped;\n");
        assert_complete(folder.path());
    }
}
