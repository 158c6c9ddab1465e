//! The page about metrics, made from a scrape.

use std::fmt::Write as _;

use prometheus_client::encoding::text;

use super::{Telemetry, metrics, tests};
use crate::reference_page::assert_current;

const BEGINNING: &str = "\
# Metrics

<!-- Written from the code: `make docs` writes it again. -->

Served at `/metrics` on the address of `--metrics-bind-address`, in the text format of OpenMetrics, which
Prometheus reads. Counters begin at 0 when the process starts. A metric with labels has no series before
it has something to say.

`gvk` is a kind as in a manifest, such as `apps/v1/Deployment` or `v1/ConfigMap`; `scope` is `Namespaced` or
`Cluster`; `destination` is `namespace/name` of a GitDestination; `repo` is the URL of a repository, which
never holds credentials; `worker` is the name of a Lease.

| metric | type | labels | meaning |
|---|---|---|---|
";

#[test]
fn the_page_about_metrics_is_made_from_the_metrics() {
    assert_current("docs/reference/metrics.md", &metrics_markdown());
}

fn metrics_markdown() -> String {
    let mut registry = metrics::registry();
    let telemetry = Telemetry::register(&mut registry);
    // Labels show only where there is something to label.
    tests::emit_every_fact(&telemetry);
    let mut scrape = String::new();
    text::encode(&mut scrape, &registry).unwrap();
    let mut page = String::from(BEGINNING);
    let mut help = "";
    let mut lines = scrape.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some((_, text)) = line.strip_prefix("# HELP ").and_then(|l| l.split_once(' ')) {
            help = text;
        }
        let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|l| l.split_once(' '))
        else {
            continue;
        };
        let _unit = lines.next_if(|line| line.starts_with("# UNIT "));
        let labels = lines
            .peek()
            .map(|series| labels(series))
            .unwrap_or_default();
        let suffix = if kind == "counter" { "_total" } else { "" };
        let _infallible = writeln!(page, "| `{name}{suffix}` | {kind} | {labels} | {help} |");
    }
    page
}

/// The names of the labels of a series, but for those that belong to its type.
fn labels(series: &str) -> String {
    let Some((_, labels)) = series.split_once('{') else {
        return String::new();
    };
    let names = labels
        .split(',')
        .filter_map(|label| label.split_once("=\""));
    let names: Vec<_> = names
        .filter(|(name, _)| *name != "le")
        .map(|(name, _)| format!("`{name}`"))
        .collect();
    names.join(", ")
}
