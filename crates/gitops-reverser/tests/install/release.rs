//! What is released, and the workflow that releases it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use reverser_testkit::command;
use serde_json::Value;

use crate::chart::{Helm, NAMESPACE};
use crate::manifests::kustomized;
use crate::repository;

fn release(program: &Path, folder: &Path) {
    let mut script = Command::new(repository::path("hack/dist.sh"));
    command::run(script.env("PROGRAM", program).env("DIST", folder));
}

#[test]
fn a_release_has_the_binary_the_chart_the_manifests_and_their_checksums() {
    let version = env!("CARGO_PKG_VERSION");
    let home = tempfile::tempdir().unwrap();
    // Any program will do to be packed: the real one is large.
    let program = home.path().join("gitops-reverser");
    fs::write(&program, "#!/bin/sh\necho packed\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let dist = home.path().join("dist");
    release(&program, &dist);

    let files = fs::read_dir(&dist).unwrap();
    let names: BTreeSet<String> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    let binary = format!(
        "gitops-reverser-{version}-linux-{}.tar.gz",
        std::env::consts::ARCH
    );
    let chart = format!("gitops-reverser-{version}.tgz");
    let expected = [binary.as_str(), &chart, "install.yaml", "SHA256SUMS"];
    assert_eq!(names, expected.map(str::to_owned).into());
    let mut check = Command::new("sha256sum");
    let checked = command::run(
        check
            .args(["--check", "--strict", "SHA256SUMS"])
            .current_dir(&dist),
    );
    assert_eq!(checked.stdout.lines().count(), 3, "{}", checked.stdout);

    let unpacked = home.path().join("unpacked");
    fs::create_dir(&unpacked).unwrap();
    let mut tar = Command::new("tar");
    command::run(
        tar.arg("-xzf")
            .arg(dist.join(&binary))
            .arg("-C")
            .arg(&unpacked),
    );
    for name in ["gitops-reverser", "kubectl-reverser"] {
        let said = command::run(&mut Command::new(unpacked.join(name))).stdout;
        assert_eq!(said, "packed\n");
    }
    for page in ["LICENSE", "README.md"] {
        assert_eq!(
            fs::read_to_string(unpacked.join(page)).unwrap(),
            repository::read(page)
        );
    }
    let helm = Helm::new();
    let mut template = helm.command();
    template
        .args(["template", "gitops-reverser"])
        .arg(dist.join(&chart))
        .args(["--namespace", NAMESPACE]);
    let rendered = repository::documents(&command::run(&mut template).stdout);
    assert!(
        rendered == helm.render(&[]),
        "the packed chart is the chart"
    );
    let manifests = fs::read_to_string(dist.join("install.yaml")).unwrap();
    assert_eq!(manifests, kustomized("config/default"));

    // The same program of the same commit is packed into the same bytes.
    let again = home.path().join("again");
    release(&program, &again);
    assert!(fs::read(again.join(&binary)).unwrap() == fs::read(dist.join(&binary)).unwrap());
}

#[test]
fn the_workflow_runs_targets_that_exist_and_nothing_else_of_its_own() {
    let workflow: Value =
        serde_saphyr::from_str(&repository::read(".github/workflows/ci.yaml")).unwrap();
    let makefile = repository::read("Makefile");
    let targets: BTreeSet<&str> = makefile
        .lines()
        .filter(|line| line.contains(": ") || line.ends_with(':'))
        .filter_map(|line| Some(line.split_once(':')?.0))
        .collect();
    let mut made = BTreeSet::new();
    for (name, job) in workflow["jobs"].as_object().unwrap() {
        assert!(job["timeout-minutes"].is_u64(), "{name} ends some time");
        for step in job["steps"].as_array().unwrap() {
            assert!(
                step["uses"].is_string() != step["run"].is_string(),
                "{step}"
            );
            let commands = step["run"].as_str().unwrap_or_default().split("&&");
            for line in commands {
                let mut words = line.split_whitespace();
                if words.next() == Some("make") {
                    made.extend(words.map(str::to_owned));
                }
            }
        }
    }
    for target in &made {
        assert!(targets.contains(target.as_str()), "make {target}");
    }
    let expected = ["dist", "docs", "image", "lint", "test", "test-otlp"];
    assert_eq!(made, expected.map(str::to_owned).into());
}
