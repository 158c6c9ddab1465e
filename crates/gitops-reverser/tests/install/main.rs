//! The ways to install it and to be rid of it, on a real control plane: what users type, and what the
//! files say that they are given.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail and may speak"
)]

mod chart;
mod cluster;
mod docs;
mod image;
mod manifests;
mod metrics;
mod node;
mod published_schemas;
mod quickstart;
mod refused_values;
mod release;
mod repository;
mod rights;
mod uninstalling;
mod values;

#[test]
fn every_test_file_is_listed() {
    reverser_testkit::test_list::assert_complete(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/install"
    ));
}
