//! The Git engine against real servers. One binary, one file for each topic.
#![allow(
    clippy::unwrap_used,
    reason = "clippy takes only functions that are marked so for tests"
)]

mod support;

mod transports;
mod commits;
mod credentials;
mod http_faults;
mod ssh_faults;
mod clone_faults;
mod crashes;
mod refusals;
mod signing;
mod names;
mod secrecy;
mod model;
mod large;

#[test]
fn every_test_file_is_listed() {
    reverser_testkit::test_list::assert_complete(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/git"));
}
