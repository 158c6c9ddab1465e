use std::collections::BTreeSet;
use std::fs;

use reverser_testkit::command;
use serde_json::Value;

use crate::installed::{KINDS, Server, installed, kubectl, repository};

/// The sample that uses every field of a kind.
pub(crate) fn full(kind: &str) -> Value {
    read("full", kind)
}

fn read(folder: &str, kind: &str) -> Value {
    let path = format!("config/samples/{folder}/{}.yaml", kind.to_lowercase());
    let text = fs::read_to_string(repository(&path)).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

#[test]
fn samples_are_accepted_as_a_person_applies_them() {
    let plane = installed();
    let namespace = plane.namespace("samples");
    for folder in ["minimal", "full"] {
        let output = command::run(
            kubectl(&plane)
                .args(["apply", "--namespace", &namespace, "-f"])
                .arg(repository("config/samples").join(folder)),
        );
        assert_eq!(
            output.stdout.lines().count(),
            KINDS.len(),
            "{}",
            output.stdout
        );
        assert_eq!(output.stderr, "", "no warnings");
    }
}

#[tokio::test]
async fn a_sample_of_every_kind_reads_back_as_it_was_written() {
    let server = Server::new();
    for folder in ["minimal", "full"] {
        for kind in KINDS {
            let created = server.create(&read(folder, kind)).await.unwrap();
            let spec = created["spec"].clone();
            let through_our_types = match kind {
                "GitRepoConfig" => round_trip::<reverser_api::GitRepoConfigSpec>(spec.clone()),
                "GitDestination" => round_trip::<reverser_api::GitDestinationSpec>(spec.clone()),
                "WatchRule" => round_trip::<reverser_api::WatchRuleSpec>(spec.clone()),
                _ => round_trip::<reverser_api::ClusterWatchRuleSpec>(spec.clone()),
            };
            assert_eq!(through_our_types, spec, "{folder} {kind}");
        }
    }
}

fn round_trip<T: serde::Serialize + serde::de::DeserializeOwned>(spec: Value) -> Value {
    serde_json::to_value(serde_json::from_value::<T>(spec).unwrap()).unwrap()
}

#[test]
fn every_kind_has_a_minimal_and_a_full_sample_and_nothing_else_is_there() {
    let expected: BTreeSet<_> = KINDS
        .iter()
        .map(|kind| format!("{}.yaml", kind.to_lowercase()))
        .collect();
    for folder in ["minimal", "full"] {
        let found: BTreeSet<_> = fs::read_dir(repository("config/samples").join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(found, expected);
    }
}
