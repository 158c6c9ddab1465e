//! Removing the product never empties Git.

use reverser_testkit::command;
use reverser_testkit::control_plane::User;
use serde_json::json;

use super::installation::Installation;
use super::oracle::Expected;

#[test]
fn deleting_the_definitions_makes_no_commit_and_installing_again_loses_nothing() {
    let mut world = Installation::alone("uninstall");
    for name in ["a", "b", "c"] {
        world.apply(&world.config_map(name, "x"));
    }
    world.apply(&world.rule("rule", &json!([{"resources": ["configmaps"]}])));
    world.apply(&world.rule("other", &json!([{"resources": ["services"]}])));
    world.run();
    world.await_mirror(&[Expected::config_maps(&world.namespace)]);
    let before = world.commits();
    let crds = reverser_api::crd_yaml::crds_yaml();
    // Each of them goes first once.
    for order in [[2, 3, 1, 0], [0, 1, 2, 3], [3, 0, 2, 1], [1, 2, 0, 3]] {
        for at in order {
            let name = reverser_api::crd_yaml::crds()[at]
                .metadata
                .name
                .clone()
                .unwrap();
            world.kubectl(&["delete", "crd", &name]);
        }
        world.assert_quiet();
        assert_eq!(world.commits(), before);
        let mut kubectl = world.plane.kubectl(User::Admin);
        let apply = kubectl.args(["apply", "--server-side", "-f", "-"]);
        command::run_with_input(apply, crds.as_bytes());
        let kinds = reverser_api::crd_yaml::crds().into_iter();
        world
            .plane
            .await_kinds(kinds.filter_map(|crd| crd.metadata.name));
        world.assert_quiet();
        assert_eq!(world.commits(), before, "no rule was deleted by anybody");
        world.apply(&world.repo("repo", &json!({})));
        world.apply(&world.destination("prod", "clusters/prod", &json!({})));
        world.apply(&world.rule("rule", &json!([{"resources": ["configmaps"]}])));
        world.await_ready("gitdestination/prod", "True", "InSync");
        world.await_mirror(&[Expected::config_maps(&world.namespace)]);
        assert_eq!(world.commits(), before);
    }
    // All at once, and then the operator itself.
    let kinds = reverser_api::crd_yaml::crds().into_iter();
    let names: Vec<String> = kinds.filter_map(|crd| crd.metadata.name).collect();
    let names = names.iter().map(String::as_str);
    world.kubectl(
        &["delete", "crd"]
            .into_iter()
            .chain(names)
            .collect::<Vec<_>>(),
    );
    world.stop();
    assert_eq!(world.commits(), before);
    world.repository.assert_sound("main");
}
