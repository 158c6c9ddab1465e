//! What the pages say about metrics, held against an operator at work.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use reverser_testkit::command;
use reverser_testkit::git_server::{Fault, Request};
use serde_json::{Value, json};

use crate::cluster::{Cluster, soon};
use crate::repository;

/// What moves only when something happens that has tests of its own.
const ELSEWHERE: &[(&str, &str)] = &[
    (
        "rebase_retries_total",
        "somebody else moves the branch: tests of the writer",
    ),
    (
        "lease_acquire_failures_total",
        "the API server is cut off: tests of replicas",
    ),
    (
        "ownership_conflicts_total",
        "two installations: tests of ownership",
    ),
    (
        "marker_conflicts_total",
        "two installations: tests of ownership",
    ),
    (
        "kv_evictions_total",
        "ten thousand attempts in a minute: tests of attribution",
    ),
    (
        "enrich_misses_total",
        "the webhook is not reached: tests of attribution",
    ),
];

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

#[test]
fn every_metric_that_is_documented_moves_and_a_thousand_objects_add_none() {
    let cluster = Cluster::take();
    let folder = repository::path("config/default").display().to_string();
    cluster.kubectl(&["apply", "--server-side", "-k", &folder]);
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
    let before: BTreeSet<String> = series(&cluster).into_keys().collect();

    let maps: Vec<Value> = (0..1000)
        .map(|number| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "data": {"number": number.to_string()},
                "metadata": {"name": format!("map-{number}"), "namespace": "metrics-shop"},
            })
        })
        .collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": maps});
    let mut kubectl = cluster.person("kubectl");
    command::run_with_input(
        kubectl.args(["create", "-f", "-"]),
        list.to_string().as_bytes(),
    );
    soon("a thousand files", || {
        let there = cluster.files().len();
        if there > 1000 {
            Ok(())
        } else {
            Err(there.to_string())
        }
    });
    let after: BTreeSet<String> = series(&cluster).into_keys().collect();
    let more: Vec<_> = after.difference(&before).collect();
    assert!(more.len() < 10, "a thousand objects made series: {more:#?}");

    // A type that may not be read, an API that is down, a Git server that stumbles, a stranger.
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
    cluster.git.fault(Request::Any, Fault::Status(503), 8);
    in_shop(&["create", "configmap", "stumble", "--from-literal=a=b"]);
    for address in cluster.serving("/process-validating-webhook") {
        if let Ok(mut stranger) = TcpStream::connect(address) {
            let _ = stranger.write_all(b"GET / HTTP/1.1\r\n\r\n");
            let _ = stranger.read(&mut [0; 16]);
        }
    }

    let excused: Vec<&str> = ELSEWHERE.iter().map(|(name, _)| *name).collect();
    soon("every metric to move", || {
        let series = series(&cluster);
        let moved = |name: &str, kind: &str| {
            let name = format!("gitopsreverser_{name}");
            let counted = if kind == "histogram" {
                format!("{name}_count")
            } else {
                name
            };
            let mut of_it = series
                .iter()
                .filter(|(series, _)| series.split('{').next() == Some(&counted));
            of_it.any(|(_, value)| *value > 0.0)
        };
        let mut still: Vec<String> = documented()
            .into_iter()
            .filter(|(name, kind)| !excused.contains(&name.as_str()) && !moved(name, kind))
            .map(|(name, _)| name)
            .collect();
        // Gauges of what is under way are above nothing for moments only.
        still.retain(|name| {
            name != "repo_branch_active_workers" && name != "repo_branch_queue_depth"
        });
        if still.is_empty() {
            Ok(())
        } else {
            Err(format!("{still:?}"))
        }
    });
    for scrape in cluster.scrapes() {
        assert_well_formed(&scrape);
    }
    cluster.kubectl(&["delete", "apiservice", "v1.broken.example.com"]);
    cluster.kubectl(&["delete", "-k", &folder, "--timeout=110s"]);
    cluster.kubectl(&["delete", "namespace", "metrics-shop", "--timeout=110s"]);
}
