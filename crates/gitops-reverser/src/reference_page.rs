//! Pages of `docs/reference` that are made from the code, kept current by tests.

use std::path::Path;

/// Fails if the committed page is not the one that the code makes. `make docs` writes it.
#[track_caller]
pub(crate) fn assert_current(page: &str, made: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(page);
    if std::env::var_os("REVERSER_BLESS").is_some() {
        std::fs::write(&path, made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == made, "{page} is stale: run `make docs`");
}
