//! The pages for people: links lead somewhere, YAML is accepted, nothing that is named is missing.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use reverser_testkit::command;
use reverser_testkit::control_plane::{ControlPlane, User};
use serde_json::Value;

use crate::repository;

/// Every page of the repository.
fn pages() -> Vec<PathBuf> {
    fn below(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                below(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    below(&repository::path("docs"), &mut found);
    for page in [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "charts/gitops-reverser/README.md",
    ] {
        found.push(repository::path(page));
    }
    found.sort();
    found
}

/// What a heading is called in a link.
fn anchor(heading: &str) -> String {
    let letters = heading.trim().to_lowercase();
    let kept = letters
        .chars()
        .filter(|c| c.is_alphanumeric() || *c == ' ' || *c == '-');
    kept.collect::<String>().replace(' ', "-")
}

#[test]
fn every_link_leads_somewhere() {
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for link in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            if link.contains("://") || link.contains(' ') {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() {
                page.clone()
            } else {
                page.parent().unwrap().join(file)
            };
            assert!(target.exists(), "{}: {link}", page.display());
            if !heading.is_empty()
                && target
                    .extension()
                    .is_some_and(|extension| extension == "md")
            {
                let there = fs::read_to_string(&target).unwrap();
                let headings = there.lines().filter_map(|line| line.strip_prefix('#'));
                let found = headings
                    .map(|line| anchor(line.trim_start_matches('#')))
                    .any(|one| one == heading);
                assert!(found, "{}: {link}", page.display());
            }
        }
    }
}

#[test]
fn every_page_is_in_the_index() {
    let index = repository::read("docs/README.md");
    let docs = repository::path("docs");
    for page in pages() {
        let Ok(inside) = page.strip_prefix(&docs) else {
            continue;
        };
        let inside = inside.display().to_string();
        let listed = index.contains(&format!("({inside})")) || inside.starts_with("design/");
        assert!(
            listed || inside == "README.md",
            "docs/README.md does not list {inside}"
        );
    }
}

#[test]
fn every_object_in_the_pages_is_one_that_the_api_server_accepts() {
    let plane = ControlPlane::builder().start().unwrap();
    let crds = reverser_api::crd_yaml::crds_yaml();
    let mut kubectl = plane.kubectl(User::Admin);
    command::run_with_input(
        kubectl.args(["apply", "--server-side", "-f", "-"]),
        crds.as_bytes(),
    );
    let kinds = reverser_api::crd_yaml::crds().into_iter();
    plane.await_kinds(kinds.filter_map(|crd| crd.metadata.name));
    for namespace in ["platform", "shop"] {
        command::run(
            plane
                .kubectl(User::Admin)
                .args(["create", "namespace", namespace]),
        );
    }
    let mut texts: Vec<(String, String)> = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for block in text
            .split("```yaml\n")
            .skip(1)
            .filter_map(|rest| rest.split("```").next())
        {
            texts.push((page.display().to_string(), block.to_owned()));
        }
    }
    for sample in fs::read_dir(repository::path("config/samples/forges")).unwrap() {
        let path = sample.unwrap().path();
        texts.push((
            path.display().to_string(),
            fs::read_to_string(path).unwrap(),
        ));
    }
    let mut objects = 0;
    for (place, text) in texts {
        let ours: Vec<Value> = repository::documents(&text)
            .into_iter()
            .filter(|object| object["apiVersion"] == "configbutler.ai/v1alpha1")
            .collect();
        for object in ours {
            let mut kubectl = plane.kubectl(User::Alice);
            let apply = kubectl.args(["apply", "--dry-run=server", "-f", "-"]);
            let applied = command::run_with_input(apply, object.to_string().as_bytes());
            assert_eq!(applied.stderr, "", "{place}");
            objects += 1;
        }
    }
    assert!(objects > 15, "{objects} objects were found");
}

/// Words in back-ticks in the first column of the tables below a heading.
fn words_of(page: &str, below: &str) -> BTreeSet<String> {
    let text = repository::read(page);
    let (_, part) = text.split_once(below).unwrap();
    let rows = part.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| Some(row.split_once('`')?.0.to_owned()))
        .collect()
}

#[test]
fn every_reason_and_warning_has_its_row_in_troubleshooting() {
    let page = repository::read("docs/operations/troubleshooting.md");
    let named = words_of("docs/reference/api.md", "\n## Conditions\n");
    let silent: Vec<_> = named
        .iter()
        .filter(|word| !["Ready", "Reconciling", "Stalled"].contains(&word.as_str()))
        .filter(|word| !page.contains(&format!("`{word}`")))
        .collect();
    assert!(
        silent.is_empty(),
        "troubleshooting.md says nothing about {silent:?}"
    );
}

#[test]
fn alerts_and_the_dashboard_use_metrics_that_exist_and_every_alert_has_its_page() {
    let known = words_of("docs/reference/metrics.md", "# Metrics");
    let suffixes = ["_bucket", "_sum", "_count"];
    let exists = |name: &str| {
        let whole = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix));
        known.contains(name) || whole.is_some_and(|whole| known.contains(whole))
    };
    for file in ["alerts.yaml", "dashboard.json"] {
        let text = repository::read(&format!("charts/gitops-reverser/files/{file}"));
        let names = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for name in names.filter(|name| name.starts_with("gitopsreverser_")) {
            assert!(exists(name), "{file}: {name} is not a metric");
        }
    }
    let alerts = repository::read("charts/gitops-reverser/files/alerts.yaml");
    let alerts: Value = serde_saphyr::from_str(&alerts).unwrap();
    let page = repository::read("docs/operations/alerts.md");
    for alert in alerts["groups"][0]["rules"].as_array().unwrap() {
        let name = alert["alert"].as_str().unwrap();
        assert!(
            page.contains(&format!("\n## {name}\n")),
            "{name} has no page"
        );
        assert!(alert["annotations"]["summary"].is_string(), "{name}");
        assert!(alert["labels"]["severity"].is_string(), "{name}");
    }
    let dashboard = repository::read("charts/gitops-reverser/files/dashboard.json");
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let unshown: Vec<_> = known
        .iter()
        .filter(|name| !dashboard.to_string().contains(name.as_str()))
        .collect();
    assert!(unshown.is_empty(), "not on the dashboard: {unshown:?}");
}
