//! The real binary and the real pieces against a real control plane, shared by all tests here.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail and may speak"
)]

mod admission;
mod authors;
mod clean;
mod controller_flags;
mod discovery;
mod observer;
mod operator;
mod replicas;
mod round_trip;
mod shared_records;
mod terminal;
mod watch;
mod writer;

#[test]
fn every_test_file_is_listed() {
    reverser_testkit::test_list::assert_complete(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e"));
}
