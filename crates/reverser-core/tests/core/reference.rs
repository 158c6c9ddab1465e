//! Pages that are made from the code are current.

use crate::repository;

#[test]
fn the_page_about_sanitisation_is_made_from_the_rules() {
    let path = repository().join("docs/reference/sanitisation.md");
    let made = reverser_core::canon::reference_markdown();
    if std::env::var_os("REVERSER_BLESS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == made,
        "docs/reference/sanitisation.md is stale: run `make docs`"
    );
}
