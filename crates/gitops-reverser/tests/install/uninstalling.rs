//! Three ways to be rid of it. Git stays as it is, and nothing is in anybody's way.

use std::collections::BTreeSet;

use reverser_testkit::command;

use crate::chart::NAMESPACE;
use crate::cluster::{Cluster, soon};
use crate::manifests::kustomized;
use crate::repository;

/// Installs, mirrors, uninstalls, and compares: what is left of everything is returned.
fn left_after(
    cluster: &Cluster,
    install: impl FnOnce(),
    uninstall: impl FnOnce(),
    namespace: &str,
) -> BTreeSet<String> {
    let before = cluster.everything();
    install();
    cluster.kubectl(&["create", "namespace", namespace]);
    cluster.mirror(namespace, "Redact");
    cluster.await_file(&format!("core/v1/configmaps/{namespace}/web.yaml"));
    cluster.await_file(&format!("core/v1/services/{namespace}/web.yaml"));
    let mirror = format!("gitdestination/mirror -n {namespace}");
    let wait = format!("wait --for=condition=Ready --timeout=110s {mirror}");
    cluster.kubectl(&wait.split(' ').collect::<Vec<_>>());
    let tip = cluster.repository.tip("main");

    uninstall();
    let pods = ["get", "pods", "-n", NAMESPACE, "-o", "name"];
    soon("the pods to go", || {
        let there = cluster.kubectl(&pods);
        if there.is_empty() { Ok(()) } else { Err(there) }
    });
    assert_eq!(cluster.repository.tip("main"), tip, "not one commit");
    // What belongs to the operator's role goes with it.
    soon("the collector", || {
        let mut there = String::new();
        for made in [
            "validatingwebhookconfiguration/gitops-reverser",
            "secret/gitops-reverser-webhook-certificate",
            "leases",
        ] {
            let get = ["get", made, "-n", NAMESPACE, "--ignore-not-found"];
            there += &cluster.kubectl(&[&get[..], &["-o", "name"]].concat());
        }
        if there.is_empty() { Ok(()) } else { Err(there) }
    });

    // What is in the namespace is its owner's, and nothing keeps the owner from deleting it.
    cluster.kubectl(&["delete", "namespace", namespace, "--timeout=110s"]);
    cluster.everything().difference(&before).cloned().collect()
}

fn definitions() -> BTreeSet<String> {
    let crds = reverser_api::crd_yaml::crds().into_iter();
    crds.map(|crd| {
        let name = crd.metadata.name.unwrap();
        format!("customresourcedefinitions.apiextensions.k8s.io <none>/{name}")
    })
    .collect()
}

/// What is left, without the APIServices that the API server has for definitions.
fn of_interest(left: BTreeSet<String>) -> BTreeSet<String> {
    let left = left.into_iter();
    left.filter(|object| !object.starts_with("apiservices."))
        .collect()
}

#[test]
fn helm_leaves_the_definitions_its_namespace_and_the_key_of_redacted_files() {
    let cluster = Cluster::take();
    let release = ["gitops-reverser", "--namespace", NAMESPACE];
    let install = || {
        let mut helm = cluster.person("helm");
        helm.arg("install").args(release).arg(Cluster::chart());
        command::run(helm.args(["--create-namespace", "--wait", "--timeout=3m"]));
    };
    let uninstall = || {
        let mut helm = cluster.person("helm");
        command::run(helm.arg("uninstall").args(release).arg("--wait"));
    };
    let left = left_after(&cluster, install, uninstall, "helm-shop");
    let mut expected = definitions();
    expected.insert(format!("namespaces <none>/{NAMESPACE}"));
    for made_by_kubernetes in [
        format!("serviceaccounts {NAMESPACE}/default"),
        format!("configmaps {NAMESPACE}/kube-root-ca.crt"),
    ] {
        expected.insert(made_by_kubernetes);
    }
    // Without it every redacted file would be another when the operator comes back.
    expected.insert(format!("secrets {NAMESPACE}/gitops-reverser-redaction"));
    assert_eq!(of_interest(left), expected);

    // As the documentation says it.
    cluster.kubectl(&["delete", "namespace", NAMESPACE, "--timeout=110s"]);
    let crds = reverser_api::crd_yaml::crds().into_iter();
    for crd in crds {
        cluster.kubectl(&[
            "delete",
            "crd",
            &crd.metadata.name.unwrap(),
            "--timeout=110s",
        ]);
    }
}

#[test]
fn kustomize_leaves_nothing() {
    let cluster = Cluster::take();
    let folder = repository::path("config/default").display().to_string();
    let install = || {
        cluster.kubectl(&["apply", "--server-side", "-k", &folder]);
    };
    let uninstall = || {
        cluster.kubectl(&["delete", "-k", &folder, "--timeout=110s"]);
    };
    let left = left_after(&cluster, install, uninstall, "kustomize-shop");
    assert_eq!(of_interest(left), BTreeSet::new());
}

#[test]
fn one_file_of_manifests_leaves_nothing() {
    let cluster = Cluster::take();
    let file = cluster.folder.path().join("install.yaml");
    std::fs::write(&file, kustomized("config/default")).unwrap();
    let file = file.display().to_string();
    let install = || {
        cluster.kubectl(&["apply", "--server-side", "-f", &file]);
    };
    let uninstall = || {
        cluster.kubectl(&["delete", "-f", &file, "--timeout=110s"]);
    };
    let left = left_after(&cluster, install, uninstall, "file-shop");
    assert_eq!(of_interest(left), BTreeSet::new());
}
