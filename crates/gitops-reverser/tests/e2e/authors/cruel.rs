//! Attempts that came to nothing must not name anybody.

use reverser_testkit::control_plane::User;
use serde_json::json;

use super::stage::Stage;

fn patch(value: &str) -> String {
    format!(r#"{{"data":{{"value":"{value}"}}}}"#)
}

#[test]
fn attempts_that_came_to_nothing_name_nobody() {
    let stage = Stage::start("cruel");
    let map = stage.path("map");
    stage.expect("create", &map, "alice exact", || {
        stage.applies(User::Alice, &stage.config_map("map", "one"), &["apply"]);
    });
    let change = |user: User, value: &str, flags: &[&str]| {
        let patch = patch(value);
        let line = ["patch", "configmap", "map", "--type=merge", "-p", &patch];
        stage.does(user, &[&line[..], flags].concat());
    };
    change(User::Bob, "two", &["--dry-run=server"]);
    change(User::Bob, "one", &[]);
    stage.fails(
        User::Tenant,
        &[
            "patch",
            "configmap",
            "map",
            "--type=merge",
            "-p",
            &patch("two"),
        ],
    );
    let mut outdated = stage.config_map("map", "two");
    outdated["metadata"]["resourceVersion"] = json!("1");
    stage.fails_with(User::Bob, &outdated, &["replace"]);
    stage.expect("after all that", &map, "alice exact", || {
        change(User::Alice, "two", &[]);
    });
    assert_eq!(stage.log(&map).len(), 2, "nothing else was written");
}

#[test]
fn a_refused_attempt_that_is_the_only_record_names_nobody() {
    let mut stage = Stage::start("only-record");
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "ports", "namespace": stage.namespace},
        "spec": {"hard": {"services.nodeports": "0"}},
    });
    stage.applies(User::Admin, &quota, &["create"]);
    // Nobody but a controller writes what the quota goes by.
    let status =
        r#"{"status":{"hard":{"services.nodeports":"0"},"used":{"services.nodeports":"0"}}}"#;
    stage.does(
        User::Admin,
        &[
            "patch",
            "resourcequota",
            "ports",
            "--subresource=status",
            "--type=merge",
            "-p",
            status,
        ],
    );
    let path = format!("core/v1/services/{}/web.yaml", stage.namespace);
    stage.expect("create", &path, "alice exact", || {
        stage.does(
            User::Alice,
            &["create", "service", "clusterip", "web", "--tcp=80"],
        );
    });
    let refused = r#"{"metadata":{"labels":{"by":"someone"}},"spec":{"type":"NodePort"}}"#;
    stage.fails(User::Bob, &["patch", "service", "web", "-p", refused]);
    stage.stop_serving();
    stage.expect(
        "the record of the accepted one is missing",
        &path,
        "unknown unknown",
        || {
            stage.does(User::Alice, &["label", "service", "web", "by=someone"]);
        },
    );
    let manager = "--format=%(trailers:key=X-ConfigButler-FieldManager,valueonly,separator=%x2C)";
    assert_eq!(stage.git_log(manager, &path)[0], "kubectl-label");
    stage.serve();
    stage.await_asked();
    let made = format!("core/v1/services/{}/more.yaml", stage.namespace);
    stage.fails(
        User::Bob,
        &["create", "service", "nodeport", "more", "--tcp=80"],
    );
    stage.expect(
        "made by another than the one whom the quota refused",
        &made,
        "alice exact",
        || {
            stage.does(
                User::Alice,
                &["create", "service", "clusterip", "more", "--tcp=80"],
            );
        },
    );
}

#[test]
fn of_three_who_delete_an_object_only_the_one_who_did_is_named() {
    let stage = Stage::start("three");
    let path = stage.path("map");
    stage.expect("create", &path, "alice exact", || {
        stage.applies(User::Alice, &stage.config_map("map", "one"), &["apply"]);
    });
    stage.fails(User::Tenant, &["delete", "configmap", "map"]);
    stage.does(
        User::Robot,
        &["delete", "configmap", "map", "--dry-run=server"],
    );
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions",
        "preconditions": {"resourceVersion": "1"},
    });
    let url = format!("/api/v1/namespaces/{}/configmaps/map", stage.namespace);
    stage.fails_with(User::Robot, &options, &["delete", "--raw", &url]);
    stage.expect("delete", &path, "bob exact", || {
        stage.does(User::Bob, &["delete", "configmap", "map"]);
    });
}
