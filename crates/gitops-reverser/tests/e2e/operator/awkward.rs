//! Objects, namespaces, tokens and branches that are not as they should be.

use std::time::Duration;

use kube::config::AuthInfo;
use reverser_testkit::command;
use reverser_testkit::control_plane::User;
use reverser_testkit::git_server::FileChange;
use serde_json::{Value, json};

use super::custom_resources::{REFRESH, definition};
use super::installation::{Installation, soon};
use super::oracle::Expected;

/// Text that no compression makes smaller.
fn noise(bytes: usize) -> String {
    let mut random = fastrand::Rng::with_seed(1);
    let letters = || random.alphanumeric();
    std::iter::repeat_with(letters).take(bytes).collect()
}

/// By a client that reads anything.
fn create(world: &Installation, object: &Value) {
    let mut kubectl = world.plane.kubectl(User::Alice);
    let create = kubectl.args(["create", "-f", "-"]);
    command::run_with_input(create, object.to_string().as_bytes());
}

#[test]
fn objects_that_are_too_large_or_too_deep_are_named_and_the_rest_goes_on() {
    let mut world = Installation::prepare("awkward");
    world.settings.discovery_refresh = REFRESH;
    let group = format!("{}.example.com", world.namespace);
    for kind in ["Large", "Deep"] {
        let mut crd = definition(&group, kind, &[("v1", true)]);
        let plural = format!("{}s", kind.to_lowercase());
        crd["spec"]["names"]["plural"] = json!(plural);
        world.apply(&crd);
        world.plane.await_kinds([format!("{plural}.{group}")]);
    }
    let thing = |kind: &str, name: &str, spec: &Value| {
        json!({
            "apiVersion": format!("{group}/v1"), "kind": kind,
            "metadata": {"name": name, "namespace": world.namespace}, "spec": spec,
        })
    };
    // As large as etcd takes it.
    let large = json!({"text": "x".repeat(1_400_000)});
    create(&world, &thing("Large", "huge", &large));
    create(&world, &thing("Deep", "flat", &json!({"a": 1})));
    let mut deep = json!({});
    for _ in 0..300 {
        deep = json!({"a": deep});
    }
    let deep = thing("Deep", "deep", &deep);
    let flat = thing("Deep", "late", &json!({"a": 1}));
    let (refused, smaller) = (
        world.config_map("refused", &noise(900_000)),
        world.config_map("refused", "small"),
    );
    world.apply(&world.config_map("web", "one"));
    let rules = json!([
        {"resources": ["configmaps"]}, {"apiGroups": [group], "resources": ["larges", "deeps"]},
    ]);
    world.apply(&world.rule("rule", &rules));
    world
        .repository
        .config("receive.maxInputSize", &(300_000).to_string());
    world.run();
    let expected = [
        Expected::config_maps(&world.namespace),
        Expected::new(&group, "v1", "larges", "Large").within(&world.namespace),
        Expected::new(&group, "v1", "deeps", "Deep").within(&world.namespace),
    ];
    world.await_mirror(&expected);
    world.await_ready("gitdestination/prod", "True", "InSync");

    // Larger than the Git server accepts.
    create(&world, &refused);
    let message = world.await_ready("gitdestination/prod", "False", "ObjectsSetAside");
    assert!(message.contains("refused.yaml"), "{message}");
    world.apply(&world.config_map("web", "two"));
    world.await_names(&["web"]);
    world.await_file("web", "value: two");
    world.apply(&smaller);
    world.await_mirror(&expected);
    world.await_ready("gitdestination/prod", "True", "InSync");

    // Deeper than anybody reads: its type is not known, and says which object it is.
    create(&world, &deep);
    let message = world.await_ready("gitdestination/prod", "False", "ScopeUnknown");
    assert!(
        message.contains("deep") && message.contains("nested deeper"),
        "{message}"
    );
    world.kubectl(&["delete", &format!("deeps.{group}"), "flat"]);
    create(&world, &flat);
    world.apply(&world.config_map("web", "three"));
    world.await_file("web", "value: three");
    let path = |name: &str| format!("{group}/v1/deeps/{}/{name}.yaml", world.namespace);
    soon("its neighbour", || {
        let files = world.files();
        let there = files.contains_key(&path("late"));
        there.then_some(()).ok_or(format!("{:?}", files.keys()))
    });
    world.kubectl(&["delete", &format!("deeps.{group}"), "deep"]);
    world.await_ready("gitdestination/prod", "True", "InSync");
    world.await_mirror(&expected);
    world.finish();
}

#[test]
fn an_object_that_nobody_can_read_is_no_matter_of_other_namespaces() {
    let mut world = Installation::prepare("unread");
    let group = format!("{}.example.com", world.namespace);
    world.apply(&definition(&group, "Deep", &[("v1", true)]));
    world.plane.await_kinds([format!("deeps.{group}")]);
    let guest = world.plane.namespace("unread-guest");
    let deep_in = |namespace: &str, name: &str, levels: usize| {
        let spec = (0..levels).fold(json!({}), |spec, _| json!({"a": spec}));
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "Deep",
            "metadata": {"name": name, "namespace": namespace}, "spec": spec,
        })
    };
    let all = json!({"accessPolicy": {"namespacedRules": {"mode": "AllNamespaces"}}});
    world.apply(&world.repo("repo", &all));
    world.apply(&world.destination("beside", "clusters/beside", &all));
    let rules = json!([{"apiGroups": [group], "resources": ["deeps"]}]);
    world.apply(&world.rule("rule", &rules));
    let mut rule = world.guest_rule(&guest, &rules);
    rule["spec"]["destinationRef"]["name"] = json!("beside");
    world.apply(&rule);
    for namespace in [&world.namespace, &guest] {
        create(&world, &deep_in(namespace, "flat", 1));
        create(&world, &deep_in(namespace, "gone", 1));
    }
    world.run();
    let of = |namespace: &str| [Expected::new(&group, "v1", "deeps", "Deep").within(namespace)];
    world.await_mirror(&of(&world.namespace));
    world.await_mirror_of("main", "clusters/beside/", &of(&guest));
    create(&world, &deep_in(&world.namespace, "deep", 300));
    world.await_ready("gitdestination/prod", "False", "ScopeUnknown");
    world.await_ready("gitdestination/beside", "True", "InSync");

    // What went unseen is known to be gone, but not where something cannot be read.
    world.stop();
    for namespace in [&world.namespace, &guest] {
        world.kubectl(&["-n", namespace, "delete", &format!("deeps.{group}"), "gone"]);
    }
    world.run();
    let message = world.await_ready("gitdestination/prod", "False", "ScopeUnknown");
    assert!(message.contains("deep"), "{message}");
    world.await_mirror_of("main", "clusters/beside/", &of(&guest));
    assert_eq!(world.files().len(), 2, "they stay until all can be read");
    world.finish();
}

#[test]
fn a_namespace_that_does_not_come_to_its_end_is_followed_until_it_is_gone() {
    let mut world = Installation::prepare("terminating");
    let allow = json!({"accessPolicy": {"allowClusterRules": true}});
    world.apply(&world.repo("repo", &allow));
    let doomed = world.plane.namespace("terminating-doomed");
    let set = format!("set={}", world.namespace);
    world.kubectl(&["label", "namespace", &doomed, &set]);
    let map = |name: &str, finalizers: &[&str]| {
        let mut object = world.config_map(name, "one");
        object["metadata"]["namespace"] = json!(doomed);
        object["metadata"]["finalizers"] = json!(finalizers);
        object
    };
    world.apply(&map("quick", &[]));
    world.apply(&map("stuck", &["example.com/never"]));
    world.apply(&world.cluster_rule(&json!([{
        "scope": "Namespaced", "resources": ["configmaps"],
        "namespaceSelector": {"matchLabels": {"set": world.namespace}},
    }])));
    world.run();
    let expected = [Expected::config_maps(&doomed)];
    world.await_mirror(&expected);

    // Nobody here ends namespaces, so that it stays like this.
    let here = ["-n", &doomed];
    world.kubectl(&["delete", "namespace", &doomed, "--wait=false"]);
    let phase = [
        "get",
        "namespace",
        &doomed,
        "-o",
        "jsonpath={.status.phase}",
    ];
    soon("it is terminating", || {
        let phase = world.kubectl(&phase);
        (phase == "Terminating").then_some(()).ok_or(phase)
    });
    let patch = [
        "patch",
        "configmap",
        "stuck",
        "--type=merge",
        "-p",
        r#"{"data":{"value":"two"}}"#,
    ];
    world.kubectl(&[&here[..], &patch].concat());
    world.await_mirror(&expected);
    let delete = ["delete", "configmap", "--all", "--wait=false"];
    world.kubectl(&[&here[..], &delete].concat());
    let file = |name: &str| format!("core/v1/configmaps/{doomed}/{name}.yaml");
    soon("what is gone", || {
        let files: Vec<String> = world.files().into_keys().collect();
        (files == [file("stuck")])
            .then_some(())
            .ok_or(format!("{files:?}"))
    });
    world.await_ready("gitdestination/prod", "True", "InSync");
    world.stop();
    world.run();
    world.await_ready("gitdestination/prod", "True", "InSync");
    world.await_mirror(&expected);
    assert!(world.files()[&file("stuck")].contains("value: two"));

    let patch = [
        "patch",
        "configmap",
        "stuck",
        "--type=merge",
        "-p",
        r#"{"metadata":{"finalizers":null}}"#,
    ];
    world.kubectl(&[&here[..], &patch].concat());
    let finalize = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": doomed},
        "spec": {"finalizers": []},
    });
    let url = format!("/api/v1/namespaces/{doomed}/finalize");
    let mut kubectl = world.plane.kubectl(User::Admin);
    let replace = kubectl.args(["replace", "--raw", &url, "-f", "-"]);
    command::run_with_input(replace, finalize.to_string().as_bytes());
    world.await_mirror(&[]);
    world.await_ready("gitdestination/prod", "True", "InSync");
    world.kubectl(&["delete", "clusterwatchrule", &world.namespace]);
    world.finish();
}

/// A token of the operator that ends with a Secret of this name.
fn token(world: &Installation, bound_to: &str) -> String {
    let mut kubectl = world.plane.kubectl(User::Admin);
    let account = ["-n", "gitops-reverser", "create"];
    command::run(kubectl.args(account).args(["secret", "generic", bound_to]));
    let mut kubectl = world.plane.kubectl(User::Admin);
    let create = kubectl.args(account).args(["token", "gitops-reverser"]);
    let bound = ["--bound-object-kind=Secret", "--bound-object-name"];
    command::run(create.args(bound).arg(bound_to)).stdout
}

#[test]
fn a_token_that_ends_keeps_all_files_and_a_new_one_in_its_file_is_used() {
    let mut world = Installation::prepare("token");
    // Watches that are open stay open, whatever becomes of the token.
    world.settings.watch.watch_timeout = Duration::from_secs(2);
    world.settings.watch.backoff_longest = Duration::from_secs(2);
    let names = ["first", "second", "third"].map(|name| format!("{}-{name}", world.namespace));
    let file = world.folder.path().join("token");
    std::fs::write(&file, token(&world, &names[0])).unwrap();
    world.config.auth_info = AuthInfo {
        token_file: Some(file.display().to_string()),
        ..AuthInfo::default()
    };
    for name in ["a", "b"] {
        world.apply(&world.config_map(name, "one"));
    }
    world.apply(&world.rule("rule", &json!([{"resources": ["configmaps"]}])));
    world.run();
    let expected = [Expected::config_maps(&world.namespace)];
    world.await_mirror(&expected);

    // It ends, and nobody has made a new one.
    let end = |name: &str| {
        world.kubectl(&["-n", "gitops-reverser", "delete", "secret", name]);
    };
    end(&names[0]);
    soon("nothing can be read", || {
        let text = world.scrape();
        let known = text.contains("gitopsreverser_unknown_scopes 0\n");
        (!known).then_some(()).ok_or(text)
    });
    world.kubectl(&["delete", "configmap", "a"]);
    world.apply(&world.config_map("b", "two"));
    world.assert_quiet();
    world.await_names(&["a", "b"]);

    std::fs::write(&file, token(&world, &names[1])).unwrap();
    world.await_mirror(&expected);
    world.await_ready("gitdestination/prod", "True", "InSync");
    assert_eq!(world.names(), ["b"]);

    // The next one is there before this one ends.
    std::fs::write(&file, token(&world, &names[2])).unwrap();
    world.apply(&world.config_map("b", "three"));
    world.await_file("b", "value: three");
    end(&names[1]);
    world.apply(&world.config_map("b", "four"));
    world.await_file("b", "value: four");
    world.await_ready("gitdestination/prod", "True", "InSync");
    end(&names[2]);
    world.finish();
}

#[test]
fn a_branch_that_somebody_winds_back_is_healed_without_taking_their_commits_away() {
    let world = Installation::start("wound-back");
    world.apply(&world.config_map("web", "one"));
    world.apply(&world.rule("rule", &json!([{"resources": ["configmaps"]}])));
    world.await_names(&["web"]);
    let first = world.repository.tip("main").unwrap();
    world.apply(&world.config_map("api", "one"));
    world.await_names(&["api", "web"]);
    let removed = world.repository.tip("main").unwrap();

    // Back to where it was, with something of their own on top.
    world.repository.set_branch("main", Some(&first));
    let readme = [FileChange::Write("clusters/prod/README.md", "mine\n")];
    let theirs = world.repository.commit("main", "by hand", &readme);
    world.apply(&world.config_map("web", "two"));
    world.await_file("web", "value: two");
    world.await_mirror(&[Expected::config_maps(&world.namespace)]);
    world.await_ready("gitdestination/prod", "True", "InSync");
    let history = world.repository.history("main");
    assert!(history.contains(&theirs) && history.contains(&first));
    assert!(
        !history.contains(&removed),
        "what a person took out does not come back"
    );
    assert_eq!(world.files()["README.md"], "mine\n");

    // The same in a quiet cluster, and an orphan that shares nothing with the branch.
    let write = ["hash-object", "-w", "-t", "tree", "/dev/null"];
    let empty = world.repository.git(&write);
    let commit = ["commit-tree", "-m", "anew", &empty];
    let unrelated = world.repository.git(&commit);
    world.repository.set_branch("main", Some(&unrelated));
    world.await_mirror(&[Expected::config_maps(&world.namespace)]);
    world.await_ready("gitdestination/prod", "True", "InSync");
    let history = world.repository.history("main");
    assert_eq!(history.last(), Some(&unrelated));
    world.finish();
}
