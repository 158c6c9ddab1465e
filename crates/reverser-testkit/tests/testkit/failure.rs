//! A test that fails leaves its logs, and says where.

use std::fs;
use std::path::Path;

use reverser_testkit::command::run_to_fail;
use reverser_testkit::control_plane::ControlPlane;

use crate::again;

const ROLE: &str = "a test that fails";

#[test]
fn role_that_fails() {
    if again::plays(ROLE) {
        let plane = ControlPlane::shared();
        plane.namespace("failure");
        panic!("on purpose");
    }
}

#[test]
fn the_logs_of_a_shared_plane_stay_when_a_test_fails() {
    let output = run_to_fail(&mut again::play(ROLE, "failure::role_that_fails"));
    let said = "logs stay in ";
    let Some((_, rest)) = output.stderr.split_once(said) else {
        panic!("{}", output.stderr);
    };
    let folder = Path::new(rest.lines().next().unwrap());

    let log = fs::read_to_string(folder.join("logs/kube-apiserver.log")).unwrap();
    assert!(!log.is_empty());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_plane_that_does_its_work_leaves_nothing() {
    let plane = ControlPlane::builder().start().unwrap();
    let folder = plane.dir().to_owned();
    assert!(folder.is_dir());
    drop(plane);
    assert!(!folder.exists());
}
