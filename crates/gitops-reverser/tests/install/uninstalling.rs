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

/// What stays when helm is done: definitions, and the namespace with the key, without which every redacted
/// file would be another when the operator comes back.
fn kept_by_helm() -> BTreeSet<String> {
    let mut kept = definitions();
    kept.insert(format!("namespaces <none>/{NAMESPACE}"));
    kept.insert(format!("secrets {NAMESPACE}/gitops-reverser-redaction"));
    for made_by_kubernetes in [
        format!("serviceaccounts {NAMESPACE}/default"),
        format!("configmaps {NAMESPACE}/kube-root-ca.crt"),
    ] {
        kept.insert(made_by_kubernetes);
    }
    kept
}

/// The rest, as the documentation says it.
fn delete_what_is_kept(cluster: &Cluster) {
    cluster.kubectl(&["delete", "namespace", NAMESPACE, "--timeout=110s"]);
    for crd in reverser_api::crd_yaml::crds() {
        let name = crd.metadata.name.unwrap();
        cluster.kubectl(&["delete", "crd", &name, "--timeout=110s"]);
    }
}

const RELEASE: [&str; 3] = ["gitops-reverser", "--namespace", NAMESPACE];

/// Installs or upgrades a release, and waits until its pods are ready.
fn helm(cluster: &Cluster, verb: &str, more: &[&str]) {
    let mut helm = cluster.person("helm");
    helm.arg(verb).args(RELEASE).arg(Cluster::chart());
    command::run(helm.args(["--wait", "--timeout=3m"]).args(more));
}

fn helm_uninstall(cluster: &Cluster) {
    let mut helm = cluster.person("helm");
    command::run(helm.arg("uninstall").args(RELEASE).arg("--wait"));
}

#[test]
fn helm_upgrades_and_leaves_the_definitions_its_namespace_and_the_key_of_redacted_files() {
    let cluster = Cluster::take();
    let install = || {
        let own = ["--set", "image.repository=registry.example.com/mirror"];
        helm(
            &cluster,
            "install",
            &[&own[..], &["--create-namespace"]].concat(),
        );
        // Another version, as the documentation says it; what was set stays.
        let next = ["--reset-then-reuse-values", "--set", "image.tag=next"];
        helm(&cluster, "upgrade", &next);
        assert_eq!(image(&cluster), "registry.example.com/mirror:next");
    };
    let left = left_after(&cluster, install, || helm_uninstall(&cluster), "helm-shop");
    assert_eq!(of_interest(left), kept_by_helm());
    delete_what_is_kept(&cluster);
}

#[test]
fn what_an_operator_makes_goes_with_a_role_that_is_kept_by_hand() {
    let cluster = Cluster::take();
    let roles = cluster.folder.path().join("roles.yaml");
    // As whoever keeps them might have written them.
    let mut template = cluster.person("helm");
    template.arg("template").args(RELEASE).arg(Cluster::chart());
    let made = command::run(template.arg("--show-only=templates/rbac.yaml")).stdout;
    std::fs::write(&roles, made).unwrap();
    let roles = roles.display().to_string();
    let install = || {
        cluster.kubectl(&["create", "namespace", NAMESPACE]);
        cluster.kubectl(&["apply", "-f", &roles]);
        let by_hand = "rbac.create=false,rbac.ownerClusterRole=gitops-reverser,replicaCount=1";
        helm(&cluster, "install", &["--set", by_hand]);
    };
    let uninstall = || {
        helm_uninstall(&cluster);
        cluster.kubectl(&["delete", "-f", &roles, "--timeout=110s"]);
    };
    let left = left_after(&cluster, install, uninstall, "roles-shop");
    assert_eq!(of_interest(left), kept_by_helm());
    delete_what_is_kept(&cluster);
}

/// The image that the operator's pods have.
fn image(cluster: &Cluster) -> String {
    let path = "jsonpath={.spec.template.spec.containers[0].image}";
    cluster.kubectl(&[
        "get",
        "deployment/gitops-reverser",
        "-n",
        NAMESPACE,
        "-o",
        path,
    ])
}

/// A kustomization of one's own beside the manifests, as the documentation writes it.
fn overlay(cluster: &Cluster, tag: &str) -> String {
    let folder = cluster
        .folder
        .path()
        .canonicalize()
        .unwrap()
        .join("gitops-reverser");
    let page = repository::read("docs/quickstart.md");
    let (_, from) = page.split_once("kustomization.yaml <<END\n").unwrap();
    let (text, _) = from.split_once("\nEND\n").unwrap();
    // Only relative paths may lead out of a kustomization.
    let up = "../".repeat(folder.components().count() - 1);
    let manifests = repository::path("config/default").display().to_string();
    let manifests = format!("{up}{}", manifests.trim_start_matches('/'));
    let text = text
        .replace("../config/default", &manifests)
        .replace("$IMAGE", "registry.example.com/mirror")
        .replace("$(hack/version.sh)", tag);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("kustomization.yaml"), text).unwrap();
    folder.display().to_string()
}

#[test]
fn kustomize_upgrades_and_leaves_nothing() {
    let cluster = Cluster::take();
    let folder = overlay(&cluster, "first");
    let install = || {
        cluster.kubectl(&["apply", "--server-side", "-k", &folder]);
        assert_eq!(image(&cluster), "registry.example.com/mirror:first");
        overlay(&cluster, "next");
        cluster.kubectl(&["apply", "--server-side", "-k", &folder]);
        assert_eq!(image(&cluster), "registry.example.com/mirror:next");
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
