//! Objects come, change and go; rules come, change and go; the operator stops and starts.

use reverser_testkit::git_server::FileChange;
use serde_json::json;

use super::installation::{Installation, soon};
use super::oracle::Expected;

#[test]
fn a_config_map_appears_changes_and_goes_one_commit_each() {
    let world = Installation::start("basics");
    world.apply(&world.rule("rule", &json!([{"resources": ["configmaps"]}])));
    world.await_ready("watchrule/rule", "True", "Watching");
    world.await_ready("gitdestination/prod", "True", "InSync");
    world.await_ready("gitrepoconfig/repo", "True", "Reachable");
    world.assert_quiet();
    let before = world.commits();

    world.apply(&world.config_map("web", "one"));
    world.await_file("web", "value: one");
    assert_eq!(world.commits(), before + 1);
    world.apply(&world.config_map("web", "two"));
    world.await_file("web", "value: two");
    assert_eq!(world.commits(), before + 2);
    world.await_mirror(&[Expected::config_maps(&world.namespace)]);
    world.kubectl(&["delete", "configmap", "web"]);
    world.await_names(&[]);
    assert_eq!(world.commits(), before + 3);
    world.await_mirror(&[]);
    world.finish();
}

#[test]
fn existing_objects_are_mirrored_in_one_commit_and_restarts_make_none() {
    let mut world = Installation::prepare("restart");
    let noted = world.folder.path().join("pushes");
    let note = format!("echo push >> {}", noted.display());
    world.repository.hook("pre-receive", &note);
    let pushed = || std::fs::read_to_string(&noted).unwrap().lines().count();
    for name in ["a", "b", "c"] {
        world.apply(&world.config_map(name, "x"));
    }
    world.apply(&world.rule("rule", &json!([{"resources": ["configmaps"]}])));
    world.run();
    world.await_names(&["a", "b", "c"]);
    assert_eq!(world.commits(), 1, "the first mirror is one commit");
    world.stop();
    assert_eq!(pushed(), 1);

    world.run();
    world.await_ready("gitdestination/prod", "True", "InSync");
    world.assert_quiet();
    assert_eq!(
        world.commits(),
        1,
        "nothing changed, so nothing is committed"
    );
    world.stop();
    assert_eq!(pushed(), 1, "and nothing is pushed");

    world.kubectl(&["delete", "configmap", "a"]);
    world.apply(&world.config_map("b", "changed"));
    world.apply(&world.config_map("d", "new"));
    world.run();
    world.await_names(&["b", "c", "d"]);
    world.await_file("b", "changed");
    assert_eq!(world.commits(), 2, "what happened meanwhile is one commit");
    let changed = ["show", "--no-renames", "--name-status", "--format=", "main"];
    let changed = world.repository.git(&changed);
    let expected: Vec<String> = [("D", "a"), ("M", "b"), ("A", "d")]
        .map(|(how, name)| format!("{how}\tclusters/prod/{}", world.path(name)))
        .into();
    assert_eq!(changed.lines().collect::<Vec<_>>(), expected);
    world.await_mirror(&[Expected::config_maps(&world.namespace)]);
    world.finish();
}

#[test]
fn deleting_a_rule_removes_its_files_and_leaves_those_of_others() {
    let world = Installation::start("rules");
    world.repository.commit(
        "main",
        "by hand",
        &[
            FileChange::Write("clusters/prod/README.md", "mine\n"),
            FileChange::Write("other/core/v1/configmaps/x/y.yaml", "mine\n"),
        ],
    );
    world.apply(&world.config_map("web", "x"));
    world.apply(&world.rule("all", &json!([{"resources": ["configmaps"]}])));
    world.apply(&world.rule("accounts", &json!([{"resources": ["resourcequotas"]}])));
    world.kubectl(&["create", "quota", "limit", "--hard=pods=3"]);
    world.await_names(&["web"]);
    let quota = format!("core/v1/resourcequotas/{}/limit.yaml", world.namespace);
    soon("the quota's file", || {
        let files = world.files();
        files
            .contains_key(&quota)
            .then_some(())
            .ok_or("none".into())
    });
    world.kubectl(&["delete", "watchrule", "all"]);
    world.await_names(&[]);
    let files: Vec<String> = world.files().into_keys().collect();
    assert_eq!(files, ["README.md", &quota]);
    assert!(
        world
            .repository
            .files("main")
            .contains_key("other/core/v1/configmaps/x/y.yaml")
    );
    world.finish();
}

#[test]
fn files_of_a_rule_that_was_deleted_while_the_operator_was_down_stay_and_are_named() {
    let mut world = Installation::start("absent-rule");
    world.apply(&world.config_map("web", "x"));
    world.kubectl(&["create", "quota", "limit", "--hard=pods=3"]);
    world.apply(&world.rule("maps", &json!([{"resources": ["configmaps"]}])));
    world.apply(&world.rule("quotas", &json!([{"resources": ["resourcequotas"]}])));
    let quota = format!("core/v1/resourcequotas/{}/limit.yaml", world.namespace);
    let has_quota = |world: &Installation| world.files().contains_key(&quota);
    soon("the quota's file", || {
        has_quota(&world).then_some(()).ok_or("none".into())
    });
    world.await_names(&["web"]);
    world.stop();
    world.kubectl(&["delete", "watchrule", "quotas"]);
    world.run();
    world.apply(&world.config_map("web", "two"));
    world.await_file("web", "value: two");
    let path = r#"jsonpath={.status.conditions[?(@.type=="UnselectedFiles")].message}"#;
    let warning = |world: &Installation| world.kubectl(&["get", "gitdestination/prod", "-o", path]);
    soon("the warning", || {
        let seen = warning(&world);
        seen.contains("v1/resourcequotas (1)")
            .then_some(())
            .ok_or(seen)
    });
    assert!(has_quota(&world), "what the rule had allowed is not known");
    world.await_ready("gitdestination/prod", "True", "InSync");

    // Whoever does not need it deletes it, and that is that.
    let file = format!("clusters/prod/{quota}");
    world
        .repository
        .commit("main", "by hand", &[FileChange::Delete(&file)]);
    soon("no warning", || {
        let seen = warning(&world);
        seen.is_empty().then_some(()).ok_or(seen)
    });
    assert!(!has_quota(&world));
    world.finish();
}

#[test]
fn a_hand_edited_file_is_healed_and_one_that_differs_only_in_form_stays() {
    let world = Installation::start("edits");
    world.apply(&world.config_map("web", "x"));
    world.apply(&world.config_map("form", "x"));
    world.apply(&world.rule("rule", &json!([{"resources": ["configmaps"]}])));
    world.await_names(&["form", "web"]);
    let path = |name: &str| format!("clusters/prod/{}", world.path(name));
    let same = format!("# kept\n{}", world.files()[&world.path("form")]);
    world.repository.commit(
        "main",
        "by hand",
        &[
            FileChange::Write(&path("web"), "nonsense\n"),
            FileChange::Write(&path("form"), &same),
        ],
    );
    world.await_file("web", "value: x");
    assert!(world.files()[&world.path("form")].starts_with("# kept\n"));
    world
        .repository
        .commit("main", "by hand", &[FileChange::Delete(&path("web"))]);
    world.await_file("web", "value: x");
    world.assert_quiet();
    world.finish();
}
