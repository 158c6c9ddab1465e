//! The operator behind an API server whose answers go wrong.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reverser_testkit::fault_proxy::{Fault, FaultProxy};
use serde_json::{Value, json};

use super::installation::{Installation, soon};
use super::oracle::Expected;

/// How long an answer that does not come is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// As often as it takes.
const ALWAYS: usize = usize::MAX;

/// Puts a proxy between the operator and the API server.
pub(super) fn behind_a_proxy(world: &mut Installation) -> FaultProxy {
    let proxy = FaultProxy::start(&world.config);
    world.config = proxy.kube_config(world.config.clone());
    proxy
}

pub(super) fn be_impatient(world: &mut Installation) {
    let watch = &mut world.settings.watch;
    watch.backoff_first = Duration::from_millis(50);
    watch.backoff_longest = Duration::from_secs(1);
    watch.page_deadline = PATIENCE;
    watch.response_deadline = PATIENCE;
    watch.streaming_silence = PATIENCE;
    watch.watch_silence = PATIENCE;
}

fn quotas(world: &Installation) -> Expected {
    Expected::new("", "v1", "resourcequotas", "ResourceQuota").within(&world.namespace)
}

fn quota(world: &Installation, pods: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "limit", "namespace": world.namespace},
        "spec": {"hard": {"pods": pods.to_string()}},
    })
}

fn config_maps(world: &Installation) -> BTreeMap<String, String> {
    let mut files = world.files();
    files.retain(|path, _| path.contains("/configmaps/"));
    files
}

/// Which ConfigMaps were deleted, and since when.
#[derive(Default)]
pub(super) struct Deleted(BTreeMap<String, i64>);

impl Deleted {
    fn delete(&mut self, world: &Installation, name: &str) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let path = format!("clusters/prod/{}", world.path(name));
        self.0.insert(path, i64::try_from(now.as_secs()).unwrap());
        world.kubectl(&["delete", "configmap", name]);
    }

    /// No commit deletes the file of an object that existed then.
    #[track_caller]
    pub(super) fn assert_history(&self, world: &Installation) {
        let log = ["log", "--no-renames", "--diff-filter=D"];
        let shown = ["--name-only", "--format=%ct", "main"];
        let log = world.repository.git(&[&log[..], &shown].concat());
        let mut time = 0;
        for line in log.lines().filter(|line| !line.is_empty()) {
            match line.parse() {
                Ok(seconds) => time = seconds,
                Err(_) => assert!(
                    self.0.get(line).is_some_and(|since| *since <= time),
                    "{line} was deleted at {time}, its object since {:?}",
                    self.0.get(line)
                ),
            }
        }
    }
}

/// Everything that can happen to the objects of a type while its API is not well.
pub(super) fn change_all(world: &Installation, deleted: &mut Deleted, round: usize) {
    world.apply(&world.config_map(&format!("new-{round}"), "x"));
    world.apply(&world.config_map("web", &format!("round-{round}")));
    deleted.delete(world, &format!("old-{round}"));
}

#[test]
fn whatever_the_api_server_answers_nothing_goes_that_exists_and_all_is_followed_afterwards() {
    let status = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure"}"#;
    let faults = [
        Fault::answer(500, status),
        Fault::answer(429, status),
        Fault::answer(401, status),
        Fault::answer(410, status),
        Fault::answer(200, "<html></html>"),
        Fault::Close,
        Fault::CutAfter(200),
        Fault::SilentAfter(200),
        Fault::Hang,
    ];
    let mut world = Installation::prepare("api-faults");
    let proxy = behind_a_proxy(&mut world);
    be_impatient(&mut world);
    let mut objects: Vec<Value> = (0..=2 * faults.len())
        .map(|round| world.config_map(&format!("old-{round}"), "x"))
        .collect();
    objects.push(world.config_map("web", "x"));
    world.create_all(&objects);
    world.apply(&quota(&world, 100));
    world.apply(&world.rule("maps", &json!([{"resources": ["configmaps"]}])));
    world.apply(&world.rule("quotas", &json!([{"resources": ["resourcequotas"]}])));
    world.run();
    let expected = [Expected::config_maps(&world.namespace), quotas(&world)];
    world.await_mirror(&expected);

    let mut deleted = Deleted::default();
    for (round, fault) in faults.iter().enumerate() {
        println!("{fault:?}");
        proxy.fault("/configmaps", fault.clone(), ALWAYS);
        proxy.cut();
        let before = config_maps(&world);
        change_all(&world, &mut deleted, round);
        let message = world.await_ready("gitdestination/prod", "False", "ScopeUnknown");
        assert!(message.contains("configmaps"), "{message}");
        let message = world.await_reconciling(&["watchrule/maps"], "ScopeUnknown");
        assert!(message.contains("configmaps"), "{message}");
        world.await_ready("watchrule/quotas", "True", "Watching");
        // What can be read is followed meanwhile.
        world.apply(&quota(&world, round));
        world.await_equal_of("resourcequotas", &quotas(&world));
        assert_eq!(config_maps(&world), before, "unknown is not empty");
        proxy.heal();
        world.await_equal("main", "clusters/prod/", &expected);
        world.await_ready("gitdestination/prod", "True", "InSync");
    }

    // Some of each, for lists, watches and what the operator asks beside; in between it goes well.
    let pairs = faults.iter().zip(faults.iter().rev());
    for (round, (one, other)) in pairs.enumerate() {
        println!("{one:?} and {other:?}");
        proxy.fault("configmaps watch=", one.clone(), 3);
        proxy.fault("configmaps limit=", other.clone(), 3);
        proxy.fault("configbutler.ai", one.clone(), 2);
        proxy.fault("/namespaces", other.clone(), 2);
        proxy.cut();
        change_all(&world, &mut deleted, faults.len() + round);
        proxy.cut();
        proxy.heal();
        world.await_equal("main", "clusters/prod/", &expected);
    }

    // Nothing is answered at all.
    proxy.fault("", Fault::Close, ALWAYS);
    proxy.cut();
    change_all(&world, &mut deleted, 2 * faults.len());
    world.assert_quiet();
    proxy.heal();
    world.await_mirror(&expected);
    world.await_ready("gitdestination/prod", "True", "InSync");
    deleted.assert_history(&world);
    assert_eq!(deleted.0.len(), 2 * faults.len() + 1);
    world.finish();
}

/// Waits until the operator has asked for ConfigMaps, and hears nothing.
fn await_question(proxy: &FaultProxy, asked_before: usize) {
    soon("a list of ConfigMaps", || {
        let seen = proxy.seen();
        let mut new = seen[asked_before..].iter();
        let asked = new.any(|line| line.contains("/configmaps?"));
        asked.then_some(()).ok_or(format!("{:?}", seen.last()))
    });
}

#[test]
fn a_rule_that_goes_while_its_first_list_is_running_takes_its_files_along() {
    let mut world = Installation::prepare("first-list");
    let proxy = behind_a_proxy(&mut world);
    // However slow the machine is, the list is running and not lost.
    world.settings.watch.page_deadline = Duration::from_mins(30);
    world.settings.watch.response_deadline = Duration::from_mins(30);
    world.apply(&quota(&world, 3));
    world.apply(&world.rule("quotas", &json!([{"resources": ["resourcequotas"]}])));
    let rule = |resources: &[&str]| world.rule("rule", &json!([{"resources": resources}]));
    let (both, fewer) = (
        rule(&["configmaps", "resourcequotas"]),
        rule(&["resourcequotas"]),
    );
    for name in ["a", "b"] {
        world.apply(&world.config_map(name, "x"));
    }
    for deletes in [true, false] {
        world.apply(&both);
        world.run();
        world.await_names(&["a", "b"]);
        world.stop();
        // Of this one nobody will ever hear again.
        world.kubectl(&["delete", "configmap", "b"]);
        let before = proxy.seen().len();
        proxy.fault("/configmaps", Fault::Hang, ALWAYS);
        world.run();
        await_question(&proxy, before);
        // The rule itself was read, and waits for its list.
        let message = world.await_reconciling(&["watchrule/rule"], "Progressing");
        assert!(message.contains("v1/configmaps"), "{message}");
        if deletes {
            world.kubectl(&["delete", "watchrule", "rule"]);
        } else {
            world.apply(&fewer);
        }
        world.await_names(&[]);
        world.await_ready("gitdestination/prod", "True", "InSync");
        world.await_mirror(&[quotas(&world)]);
        world.stop();
        proxy.heal();
        world.apply(&world.config_map("b", "x"));
    }
    world.finish();
}

#[test]
fn a_rule_that_a_list_merely_lacks_empties_nothing_until_somebody_says_so() {
    let mut world = Installation::prepare("lacking");
    let proxy = behind_a_proxy(&mut world);
    let objects: Vec<Value> = (0..12)
        .map(|number| world.config_map(&format!("object-{number}"), "x"))
        .collect();
    world.create_all(&objects);
    world.apply(&world.rule("rule", &json!([{"resources": ["configmaps"]}])));
    world.run();
    let expected = [Expected::config_maps(&world.namespace)];
    world.await_mirror(&expected);
    let before = world.commits();

    // As after a backup of before the rule was restored: the past is gone, and the list is empty.
    let version = "jsonpath={.metadata.resourceVersion}";
    let version = world.kubectl(&["get", "watchrule", "rule", "-o", version]);
    let expired = json!({"type": "ERROR", "object": {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": "Expired", "code": 410, "message": "too old resource version",
    }});
    let empty = json!({
        "kind": "WatchRuleList", "apiVersion": "configbutler.ai/v1alpha1",
        "metadata": {"resourceVersion": version}, "items": [],
    });
    let expired = Fault::answer(200, format!("{expired}\n"));
    proxy.fault("/watchrules watch=", expired, 1);
    proxy.fault("/watchrules watch=", Fault::Hang, ALWAYS);
    proxy.fault(
        "/watchrules limit=",
        Fault::answer(200, empty.to_string()),
        ALWAYS,
    );
    proxy.cut();
    world.await_ready("gitdestination/prod", "False", "MassDeleteGuard");
    world.assert_quiet();
    assert_eq!((world.commits(), world.names().len()), (before, 12));

    proxy.heal();
    world.kubectl(&["annotate", "watchrule", "rule", "seen=again"]);
    world.await_mirror(&expected);
    assert_eq!(world.commits(), before);
    world.finish();
}

#[test]
fn a_value_that_is_corrupt_in_etcd_costs_no_file_and_stops_no_other_type() {
    let mut world = Installation::alone("corrupt");
    be_impatient(&mut world);
    for name in ["a", "bad", "c"] {
        world.apply(&world.config_map(name, "x"));
    }
    world.apply(&quota(&world, 1));
    world.apply(&world.rule("maps", &json!([{"resources": ["configmaps"]}])));
    world.apply(&world.rule("quotas", &json!([{"resources": ["resourcequotas"]}])));
    world.run();
    let expected = [Expected::config_maps(&world.namespace), quotas(&world)];
    world.await_mirror(&expected);
    let before = config_maps(&world);
    let key = format!("/registry/configmaps/{}/bad", world.namespace);
    world.plane.etcd().put(&key, b"not an object").unwrap();
    // The API server shows none of them as long as it cannot read one.
    let message = world.await_ready("gitdestination/prod", "False", "ScopeUnknown");
    assert!(message.contains("configmaps"), "{message}");
    world.apply(&quota(&world, 2));
    world.await_equal_of("resourcequotas", &quotas(&world));
    assert_eq!(config_maps(&world), before, "unknown is not empty");
    world.plane.etcd().delete(&key).unwrap();
    world.await_mirror(&expected);
    assert_eq!(config_maps(&world).len(), 2, "that one is gone");
    world.finish();
}

#[test]
fn an_operator_whose_api_server_becomes_another_clusters_ends_and_deletes_nothing() {
    let mut world = Installation::prepare("elsewhere");
    let api = behind_a_proxy(&mut world);
    be_impatient(&mut world);
    world.create_all(&[world.config_map("one", "x"), world.config_map("two", "x")]);
    world.apply(&world.rule("maps", &json!([{"resources": ["configmaps"]}])));
    world.run();
    world.await_mirror(&[Expected::config_maps(&world.namespace)]);
    let other = json!({
        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": {"name": "kube-system", "uid": "9f1d3c52-0000-4000-8000-000000000000"},
    });
    let empty = json!({
        "apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"resourceVersion": "1"}, "items": [],
    });
    let answer = |body: &Value| Fault::answer(200, body.to_string());
    api.fault("/namespaces/kube-system", answer(&other), usize::MAX);
    api.fault("/configmaps?", answer(&empty), usize::MAX);
    api.cut();
    let why = world.await_end();
    assert!(why.contains("another cluster"), "{why}");
    assert_eq!(world.files().len(), 2);
    api.heal();
    world.run();
    world.await_mirror(&[Expected::config_maps(&world.namespace)]);
    world.finish();
}
