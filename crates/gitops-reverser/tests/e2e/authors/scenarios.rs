//! What people do with kubectl, and who is the author of it.

use reverser_testkit::command;
use reverser_testkit::control_plane::User;
use serde_json::{Value, json};

use super::stage::Stage;
use crate::operator::custom_resources::definition;
use crate::operator::installation::soon;

const ALICE: &str = "alice exact";
const BOB: &str = "bob exact";
const ROBOT: &str = "system:serviceaccount:default:robot exact";

pub(super) fn deployment(namespace: &str) -> Value {
    let labels = json!({"app": "web"});
    let pod = json!({"containers": [{"name": "web", "image": "web:1"}]});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    })
}

#[test]
fn every_way_to_change_an_object_names_the_one_who_did_it() {
    let stage = Stage::start("who");
    let map = stage.path("map");
    let edit = |user: User, from: &str, to: &str| {
        let mut kubectl = stage.kubectl_as(user);
        kubectl.env("KUBE_EDITOR", format!("sed -i s/{from}/{to}/"));
        command::run(kubectl.args(["edit", "configmap", "map"]));
    };
    let patch = |value: &str| format!(r#"{{"data":{{"value":"{value}"}}}}"#);
    stage.expect("create", &map, ALICE, || {
        stage.does(
            User::Alice,
            &["create", "configmap", "map", "--from-literal=value=v-one"],
        );
    });
    stage.expect("apply", &map, BOB, || {
        stage.applies(User::Bob, &stage.config_map("map", "v-two"), &["apply"]);
    });
    stage.expect("server-side apply", &map, ROBOT, || {
        let flags = ["apply", "--server-side", "--force-conflicts"];
        stage.applies(User::Robot, &stage.config_map("map", "v-three"), &flags);
    });
    stage.expect("edit", &map, ALICE, || {
        edit(User::Alice, "v-three", "v-four");
    });
    stage.expect("patch", &map, BOB, || {
        stage.does(
            User::Bob,
            &[
                "patch",
                "configmap",
                "map",
                "--type=merge",
                "-p",
                &patch("v-five"),
            ],
        );
    });
    stage.expect("label", &map, ROBOT, || {
        stage.does(User::Robot, &["label", "configmap", "map", "tier=web"]);
    });
    stage.expect("annotate", &map, ALICE, || {
        stage.does(
            User::Alice,
            &["annotate", "configmap", "map", "why=because"],
        );
    });
    stage.expect("impersonation", &map, "carol@example.org exact", || {
        let carol = ["--as=carol@example.org", "--as-group=system:masters"];
        let change = [
            "patch",
            "configmap",
            "map",
            "--type=merge",
            "-p",
            &patch("v-six"),
        ];
        stage.does(User::Alice, &[&carol[..], &change].concat());
    });
    let authors = stage.git_log("--format=%an <%ae>", &map);
    let expected = [
        "carol@example.org <carol@example.org>",
        "alice <alice@cluster.local>",
        "default/robot (service account) <robot.default.serviceaccount@cluster.local>",
    ];
    assert_eq!(authors[..3], expected);
    stage.expect("delete", &map, BOB, || {
        stage.does(User::Bob, &["delete", "configmap", "map"]);
    });
}

#[test]
fn workloads_name_who_scales_and_restarts_them_and_status_names_nobody() {
    let stage = Stage::start("scale");
    let web = format!("apps/v1/deployments/{}/web.yaml", stage.namespace);
    stage.expect("create", &web, ALICE, || {
        stage.applies(User::Alice, &deployment(&stage.namespace), &["create"]);
    });
    stage.expect("scale", &web, BOB, || {
        stage.does(User::Bob, &["scale", "deployment/web", "--replicas=3"]);
    });
    stage.expect("scale to zero", &web, ROBOT, || {
        stage.does(User::Robot, &["scale", "deployment/web", "--replicas=0"]);
    });
    stage.expect("rollout restart", &web, ALICE, || {
        stage.does(User::Alice, &["rollout", "restart", "deployment/web"]);
    });
    let status = r#"{"status":{"observedGeneration":4}}"#;
    stage.does(
        User::Robot,
        &[
            "patch",
            "deployment/web",
            "--subresource=status",
            "--type=merge",
            "-p",
            status,
        ],
    );
    stage.expect("set image, after a report of status", &web, BOB, || {
        stage.does(User::Bob, &["set", "image", "deployment/web", "web=web:2"]);
    });
}

#[test]
fn deletions_name_the_one_who_asked() {
    let stage = Stage::start("deleting");
    for name in ["a", "b", "c"] {
        stage.does(User::Alice, &["create", "configmap", name]);
        stage.does(User::Alice, &["label", "configmap", name, "batch=yes"]);
    }
    stage.does(User::Alice, &["create", "configmap", "slow"]);
    let finalizers = r#"{"metadata":{"finalizers":["example.com/wait"]}}"#;
    stage.does(
        User::Alice,
        &["patch", "configmap", "slow", "-p", finalizers],
    );
    stage.await_file("slow", "example.com/wait");
    stage.await_file("c", "batch");
    let path = |name: &str| stage.path(name);
    stage.expect("delete -l", &path("a"), BOB, || {
        stage.does(User::Bob, &["delete", "configmap", "-l", "batch=yes"]);
    });
    for name in ["b", "c"] {
        stage.await_log(&path(name), BOB);
    }
    for name in ["d", "e"] {
        stage.does(User::Alice, &["create", "configmap", name]);
        stage.does(User::Alice, &["label", "configmap", name, "batch=again"]);
        stage.await_file(name, "again");
    }
    stage.expect("deletecollection", &path("d"), ALICE, || {
        stage.delete_config_maps("batch=again");
    });
    stage.await_log(&path("e"), ALICE);
    stage.expect("with a finalizer", &path("slow"), BOB, || {
        stage.does(User::Bob, &["delete", "configmap", "slow", "--wait=false"]);
        let none = r#"{"metadata":{"finalizers":null}}"#;
        stage.does(User::Robot, &["patch", "configmap", "slow", "-p", none]);
    });
    let services = format!("core/v1/services/{}", stage.namespace);
    let web = |name: &str| format!("{services}/{name}.yaml");
    for name in ["one", "two"] {
        stage.expect("create", &web(name), ALICE, || {
            stage.does(
                User::Alice,
                &["create", "service", "clusterip", name, "--tcp=80"],
            );
        });
    }
    stage.expect("delete --all", &web("one"), BOB, || {
        stage.does(User::Bob, &["delete", "services", "--all"]);
    });
    stage.await_log(&web("two"), BOB);
}

#[test]
fn generated_names_and_labels_that_select_have_their_authors() {
    let stage = Stage::start("special");
    let mut generated = stage.config_map("x", "one");
    generated["metadata"] = json!({"generateName": "made-", "namespace": stage.namespace});
    stage.applies(User::Bob, &generated, &["create"]);
    let name = soon("the generated one", || {
        let names = stage.names();
        let name = names.iter().find(|name| name.starts_with("made-"));
        name.cloned().ok_or(format!("{names:?}"))
    });
    assert_eq!(stage.log(&stage.path(&name)), [BOB]);

    let ignored = r#"{"metadata":{"labels":{"configbutler.ai/ignore":"true"}}}"#;
    stage.does(User::Alice, &["create", "configmap", "hidden"]);
    stage.await_file("hidden", "hidden");
    stage.expect(
        "a label that takes it out",
        &stage.path("hidden"),
        ROBOT,
        || {
            stage.does(
                User::Robot,
                &["patch", "configmap", "hidden", "-p", ignored],
            );
        },
    );
    stage.expect(
        "a label that brings it in",
        &stage.path("hidden"),
        BOB,
        || {
            stage.does(
                User::Bob,
                &["label", "configmap", "hidden", "configbutler.ai/ignore-"],
            );
        },
    );
}

#[test]
fn who_labels_an_object_so_that_a_rule_selects_it_is_the_author_of_its_file() {
    let stage = Stage::start("labelled");
    stage.apply(&stage.destination("picked", "clusters/picked", &json!({})));
    let mut rule = stage.rule_to("picked", "picked", &json!([{"resources": ["configmaps"]}]));
    rule["spec"]["objectSelector"] = json!({"matchLabels": {"pick": "me"}});
    stage.apply(&rule);
    stage.await_ready("watchrule/picked", "True", "Watching");
    let map = stage.path("map");
    let picked = format!("clusters/picked/{map}");
    stage.expect("create", &map, ALICE, || {
        stage.does(User::Alice, &["create", "configmap", "map"]);
    });
    assert_eq!(stage.log(&picked), Vec::<String>::new());
    stage.expect("a label that selects it", &picked, BOB, || {
        stage.does(User::Bob, &["label", "configmap", "map", "pick=me"]);
    });
    // Every destination is told the same.
    stage.await_log(&map, BOB);
    stage.expect("another change", &picked, ALICE, || {
        stage.does(User::Alice, &["annotate", "configmap", "map", "why=this"]);
    });
    stage.expect("a label that selects it no more", &picked, ROBOT, || {
        stage.does(User::Robot, &["label", "configmap", "map", "pick-"]);
    });
    stage.await_log(&map, ROBOT);
}

#[test]
fn who_writes_another_version_of_a_custom_resource_than_is_watched_is_named() {
    const GROUP: &str = "authors.example.com";
    let stage = Stage::start("versions");
    let crd = definition(GROUP, "Widget", &[("v1alpha1", true), ("v1", true)]);
    stage.apply(&crd);
    let widgets = format!("widgets.{GROUP}");
    stage.plane.await_kinds([&widgets]);
    let rules = json!([{"apiGroups": [GROUP], "resources": ["widgets"]}]);
    stage.apply(&stage.rule("widgets", &rules));
    let path = |name: &str| format!("{GROUP}/v1/widgets/{}/{name}.yaml", stage.namespace);
    let widget = |version: &str, name: &str, size: usize| {
        json!({
            "apiVersion": format!("{GROUP}/{version}"), "kind": "Widget",
            "metadata": {"name": name, "namespace": stage.namespace}, "spec": {"size": size},
        })
    };
    stage.await_asked_about(&path("probe"), |number| {
        stage.apply(&widget("v1", "probe", number));
    });
    let web = path("web");
    let old = format!("widgets.v1alpha1.{GROUP}/web");
    let new = format!("widgets.v1.{GROUP}/web");
    let resize = |user: User, what: &str, size: usize| {
        let change = format!(r#"{{"spec":{{"size":{size}}}}}"#);
        stage.does(user, &["patch", what, "--type=merge", "-p", &change]);
    };
    stage.expect("create in the old version", &web, ALICE, || {
        stage.applies(User::Alice, &widget("v1alpha1", "web", 1), &["create"]);
    });
    stage.expect("patch in the new version", &web, BOB, || {
        resize(User::Bob, &new, 2);
    });
    stage.expect("patch in the old version", &web, ROBOT, || {
        resize(User::Robot, &old, 3);
    });
    stage.expect("apply in the old version", &web, BOB, || {
        let flags = ["apply", "--server-side", "--force-conflicts"];
        stage.applies(User::Bob, &widget("v1alpha1", "web", 4), &flags);
    });
    let status = r#"{"status":{"ready":true}}"#;
    stage.does(
        User::Robot,
        &[
            "patch",
            &old,
            "--subresource=status",
            "--type=merge",
            "-p",
            status,
        ],
    );
    stage.expect("label in the old version", &web, ALICE, || {
        stage.does(User::Alice, &["label", &old, "a=b"]);
    });
    stage.expect("delete in the old version", &web, ROBOT, || {
        stage.does(User::Robot, &["delete", &old]);
    });
    // About what goes with its definition, the API server asks nobody.
    let [last] = &stage.after(&path("probe"), 1, || {
        stage.does(User::Bob, &["delete", "crd", &widgets, "--wait=false"]);
    })[..] else {
        panic!("one commit was asked for");
    };
    assert!(last.starts_with("unknown "), "{last}");
}
