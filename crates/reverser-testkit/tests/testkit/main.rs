//! The test kit, tested: a plane that lies would let every other test lie.

mod users;
mod namespaces;
mod kubectl;
mod audit;
mod second_apiserver;
mod controller_manager;
mod interruptions;
mod compaction;
mod settings;
mod ending;
mod failure;
mod fault_proxy;
mod again;

#[test]
fn every_test_file_is_listed() {
    reverser_testkit::test_list::assert_complete(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/testkit"
    ));
}
