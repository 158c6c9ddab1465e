//! What the pages say about metrics, held against an operator at work.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use reverser_core::commit_message::Installation;
use reverser_core::owner_marker::{OWNER_MARKER, OwnerMarker};
use reverser_testkit::command;
use reverser_testkit::git_server::{Fault, FileChange, Request};
use reverser_testkit::ports::Port;
use serde_json::{Value, json};

use crate::chart::{Helm, NAMESPACE};
use crate::cluster::{Cluster, soon};
use crate::manifests::kustomized;
use crate::repository;

/// Replicas share no records here: these have tests of their own, with a store that comes and goes.
const SHARED_RECORDS: [&str; 2] = [
    "attribution_store_errors_total",
    "attribution_store_dropped_total",
];

/// Somebody else is faster than a push, if there is such a file.
const SOMEBODY_WRITES: &str = r#"rm somebody-writes 2>/dev/null || exit 0
unset GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.com
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.com
git update-ref refs/heads/main "$(git commit-tree -p main -m note 'main^{tree}')"
exit 0"#;

/// The metrics that the page names, with their types.
fn documented() -> BTreeMap<String, String> {
    let page = repository::read("docs/reference/metrics.md");
    let rows = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `gitopsreverser_"));
    rows.map(|row| {
        let mut cells = row.split(" | ");
        let name = cells.next().unwrap().trim_end_matches('`').to_owned();
        (name, cells.next().unwrap().to_owned())
    })
    .collect()
}

/// The series of all pods, with the largest value of each.
fn series(cluster: &Cluster) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    for scrape in cluster.scrapes() {
        for line in scrape
            .lines()
            .filter(|line| line.starts_with("gitopsreverser_"))
        {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let value: f64 = value.parse().unwrap();
            let most = all.entry(name.to_owned()).or_insert(value);
            *most = most.max(value);
        }
    }
    all
}

/// A text of metrics as Prometheus wants it: each described before its samples, units in names.
fn assert_well_formed(scrape: &str) {
    let mut described: BTreeMap<&str, &str> = BTreeMap::new();
    let mut helped = BTreeSet::new();
    let (_, body) = scrape.split_once("\r\n\r\n").unwrap();
    assert!(body.trim_end().ends_with("# EOF"), "{body}");
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(
                described.insert(name, kind).is_none(),
                "{name} is described twice"
            );
        } else if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(!help.is_empty(), "{line}");
            helped.insert(name);
        } else if let Some(rest) = line.strip_prefix("# UNIT ") {
            let (name, unit) = rest.split_once(' ').unwrap();
            assert!(name.ends_with(&format!("_{unit}")), "{line}");
        } else if !line.starts_with('#') && !line.is_empty() {
            let name = line.split(['{', ' ']).next().unwrap();
            let ends = ["_total", "_bucket", "_sum", "_count", ""];
            let kind = ends.iter().find_map(|end| {
                let family = name.strip_suffix(end)?;
                described.get(family).map(|kind| (*end, *kind, family))
            });
            let (end, kind, family) = kind.unwrap_or_else(|| panic!("{line} is not described"));
            assert_eq!(end == "_total", kind == "counter", "{line}");
            assert!(helped.contains(family), "{line} has no help");
        }
    }
}

fn has_moved(series: &BTreeMap<String, f64>, name: &str, kind: &str) -> bool {
    let end = if kind == "histogram" { "_count" } else { "" };
    let name = format!("gitopsreverser_{name}{end}");
    let mut of_it = series
        .iter()
        .filter(|(series, _)| series.split('{').next() == Some(&name));
    of_it.any(|(_, value)| *value > 0.0)
}

/// A destination whose folder carries the mark of another installation.
fn write_to_the_folder_of_somebody_else(cluster: &Cluster) {
    let marker = OwnerMarker {
        owner: Installation {
            cluster_uid: "another".to_owned(),
            controller_namespace: NAMESPACE.to_owned(),
            controller_name: "gitops-reverser".to_owned(),
            instance_id: "another".to_owned(),
        },
        created: "2026-01-01T00:00:00Z".to_owned(),
    };
    let path = format!("clusters/other/{OWNER_MARKER}");
    let change = FileChange::Write(&path, &marker.to_yaml());
    cluster.repository.commit("main", "mark it", &[change]);
    for (kind, spec) in [
        (
            "GitDestination",
            json!({
                "repoRef": {"name": "mirror"}, "branch": "main", "baseFolder": "clusters/other",
                "exclusiveMode": true,
            }),
        ),
        (
            "WatchRule",
            json!({"destinationRef": {"name": "other"}, "rules": [{"resources": ["services"]}]}),
        ),
    ] {
        cluster.apply(&json!({
            "apiVersion": "configbutler.ai/v1alpha1", "kind": kind,
            "metadata": {"name": "other", "namespace": "metrics-shop"}, "spec": spec,
        }));
    }
}

/// Runs what the pod of `helm test` runs, against an operator and against nobody.
fn assert_helm_test_passes(cluster: &Cluster) {
    let objects = Helm::new().render(&[]);
    let pod = repository::one(&objects, "Pod/gitops-reverser-test");
    let container = &pod["spec"]["containers"][0];
    let words = container["command"].as_array().unwrap().iter();
    let words: Vec<&str> = words.map(|word| word.as_str().unwrap()).collect();
    let test = |address: SocketAddr| {
        let mut bash = Command::new(words[0]);
        bash.args(&words[1..]).env_clear();
        bash.env("HOST", address.ip().to_string());
        bash.env("PORT", address.port().to_string());
        bash
    };
    let addresses = cluster.serving("/metrics");
    let answering = addresses
        .into_iter()
        .find(|one| TcpStream::connect(one).is_ok());
    let told = command::run(&mut test(answering.unwrap())).stdout;
    assert_eq!(told, "the operator answers\n");
    let nobody = Port::reserve().unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], nobody.number()));
    command::run_to_fail(&mut test(address));
}

fn create_a_thousand_objects(cluster: &Cluster) {
    let maps: Vec<Value> = (0..1000)
        .map(|number| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "data": {"number": number.to_string()},
                "metadata": {"name": format!("map-{number}"), "namespace": "metrics-shop"},
            })
        })
        .collect();
    for some in maps.chunks(200) {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": some});
        let mut kubectl = cluster.person("kubectl");
        let create = kubectl.args(["create", "-f", "-"]);
        command::run_with_input(create, list.to_string().as_bytes());
    }
    soon("a thousand files", || {
        let there = cluster.files().len();
        if there > 1000 {
            Ok(())
        } else {
            Err(there.to_string())
        }
    });
}

/// A type that may not be read, a deletion that is held back, an API that is down, a folder of somebody else, a stranger.
fn make_trouble(cluster: &Cluster) {
    cluster.apply(&json!({
        "apiVersion": "configbutler.ai/v1alpha1", "kind": "WatchRule",
        "metadata": {"name": "pods", "namespace": "metrics-shop"},
        "spec": {"destinationRef": {"name": "mirror"}, "rules": [{"resources": ["pods"]}]},
    }));
    cluster.apply(&json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1.broken.example.com"},
        "spec": {
            "group": "broken.example.com", "version": "v1", "groupPriorityMinimum": 100,
            "versionPriority": 100, "service": {"name": "nowhere", "namespace": "metrics-shop"},
            "insecureSkipTLSVerify": true,
        },
    }));
    // A deletion that is held back.
    let in_shop = ["-n", "metrics-shop"];
    let never = r#"{"spec":{"prune":{"mode":"Never"}}}"#;
    let patch = [
        "patch",
        "gitdestination",
        "mirror",
        "--type=merge",
        "-p",
        never,
    ];
    cluster.kubectl(&[&in_shop[..], &patch].concat());
    let generation = ["-o", "jsonpath={.metadata.generation}"];
    let get = [&in_shop[..], &["get", "gitdestination/mirror"], &generation];
    let generation = cluster.kubectl(&get.concat());
    let seen = format!("--for=jsonpath={{.status.observedGeneration}}={generation}");
    let wait = ["wait", "gitdestination/mirror", &seen, "--timeout=120s"];
    cluster.kubectl(&[&in_shop[..], &wait].concat());
    cluster.kubectl(&[&in_shop[..], &["delete", "configmap", "map-7"]].concat());
    write_to_the_folder_of_somebody_else(cluster);
    for address in cluster.serving("/process-validating-webhook") {
        if let Ok(mut stranger) = TcpStream::connect(address) {
            let _ = stranger.write_all(b"GET / HTTP/1.1\r\n\r\n");
            let _ = stranger.read(&mut [0; 16]);
        }
    }
}

#[test]
fn every_metric_that_is_documented_moves_and_a_thousand_objects_add_none() {
    let cluster = Cluster::take();
    // Records of who tried what have to go early where there is room for one.
    let manifests = kustomized("config/default");
    let little = manifests.replace("-max-entries=10000", "-max-entries=1");
    assert_ne!(little, manifests);
    let file = cluster.folder.path().join("install.yaml");
    fs::write(&file, little).unwrap();
    let file = file.display().to_string();
    cluster.kubectl(&["apply", "--server-side", "-f", &file]);
    cluster.kubectl(&["create", "namespace", "metrics-shop"]);
    cluster.mirror("metrics-shop", "Redact");
    let in_shop =
        |arguments: &[&str]| cluster.kubectl(&[&["-n", "metrics-shop"], arguments].concat());
    cluster.await_file("core/v1/configmaps/metrics-shop/web.yaml");
    in_shop(&["delete", "configmap", "web"]);
    soon("the file to go", || {
        let gone = !cluster
            .files()
            .keys()
            .any(|path| path.ends_with("configmaps/metrics-shop/web.yaml"));
        if gone { Ok(()) } else { Err("it is there") }.map_err(str::to_owned)
    });
    let in_home = |arguments: &[&str]| cluster.kubectl(&[&["-n", NAMESPACE], arguments].concat());
    let before: BTreeSet<String> = series(&cluster).into_keys().collect();

    create_a_thousand_objects(&cluster);
    let after: BTreeSet<String> = series(&cluster).into_keys().collect();
    let more: Vec<_> = after.difference(&before).collect();
    assert!(more.len() < 10, "a thousand objects made series: {more:#?}");

    make_trouble(&cluster);
    // Gauges of what is under way are above nothing for moments only, so every look counts.
    let mut moved = BTreeSet::new();
    let mut await_moving = |provoke: &mut dyn FnMut(usize), left: &[&str]| {
        let mut looks = 0;
        soon("every metric to move", || {
            provoke(looks);
            looks += 1;
            let series = series(&cluster);
            let still = |(name, kind): &(String, String)| !has_moved(&series, name, kind);
            let (still, now): (Vec<_>, Vec<_>) = documented().into_iter().partition(still);
            moved.extend(now.into_iter().map(|(name, _)| name));
            let mut still: Vec<String> = still.into_iter().map(|(name, _)| name).collect();
            let excused = |name: &str| left.contains(&name) || SHARED_RECORDS.contains(&name);
            still.retain(|name| !moved.contains(name) && !excused(name));
            if still.is_empty() {
                Ok(())
            } else {
                Err(format!("{still:?}"))
            }
        });
    };
    // A Git server that stumbles, and then somebody else who writes to the branch before each push.
    cluster.git.fault(Request::Any, Fault::Status(503), 4);
    let somebody_writes = cluster.repository.path().join("somebody-writes");
    let mut stumble = |look: usize| {
        if !somebody_writes.exists() {
            fs::write(&somebody_writes, "").unwrap();
            let value = format!("--from-literal=look={look}");
            in_shop(&["create", "configmap", &format!("look-{look}"), &value]);
        }
    };
    cluster.repository.hook("pre-receive", SOMEBODY_WRITES);
    await_moving(&mut stumble, &["lease_acquire_failures_total"]);
    assert_helm_test_passes(&cluster);
    for scrape in cluster.scrapes() {
        assert_well_formed(&scrape);
    }
    // Leases that may not be renewed. The leader ends when its time is over, so this comes last.
    in_home(&["delete", "rolebinding", "gitops-reverser"]);
    await_moving(&mut |_| {}, &[]);
    cluster.kubectl(&["apply", "--server-side", "-f", &file]);
    cluster.kubectl(&["delete", "apiservice", "v1.broken.example.com"]);
    cluster.kubectl(&["delete", "-f", &file, "--timeout=110s"]);
    cluster.kubectl(&["delete", "namespace", "metrics-shop", "--timeout=110s"]);
}
