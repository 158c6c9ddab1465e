//! The audit file tells who did what.

use std::fs;
use std::time::Duration;

use reverser_testkit::command::run;
use reverser_testkit::control_plane::{ControlPlane, User};
use reverser_testkit::wait;
use serde_json::Value;

#[test]
fn it_names_the_user_of_each_request() {
    let plane = ControlPlane::shared();
    let namespace = plane.namespace("audit");
    let users = [User::Alice, User::Bob, User::Robot];
    for user in users {
        run(plane
            .kubectl(user)
            .args(["create", "configmap", user.short_name()])
            .args(["--namespace", &namespace]));
    }

    let log = plane.audit_log().unwrap();
    let creators = wait::until_blocking("three creations", Duration::from_mins(1), || {
        let text = fs::read_to_string(log).unwrap();
        let events = text
            .lines()
            .map_while(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|event| event["verb"] == "create")
            .filter(|event| event["objectRef"]["resource"] == "configmaps")
            .filter(|event| event["objectRef"]["namespace"] == *namespace);
        let creators: Vec<_> = events
            .map(|event| event["user"]["username"].clone())
            .collect();
        if creators.len() == 3 {
            Ok(creators)
        } else {
            Err(format!("{creators:?}"))
        }
    });
    assert_eq!(creators.unwrap(), users.map(User::username));
}
