//! The chart, as helm renders it.

use std::process::Command;

use reverser_testkit::{command, tools};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::repository;

pub(crate) const NAMESPACE: &str = "gitops-reverser";

/// Values that people give, by what they want.
pub(crate) const VALUE_SETS: &[(&str, &[&str])] = &[
    ("as it is", &[]),
    (
        "everything on",
        &[
            "metrics.serviceMonitor.enabled=true",
            "metrics.prometheusRule.enabled=true",
            "metrics.prometheusRule.alertLabels.team=platform",
            "metrics.dashboard.enabled=true",
            "networkPolicy.enabled=true",
            "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.name=monitoring",
            "networkPolicy.dnsTo[0].namespaceSelector.matchLabels.name=kube-system",
            "networkPolicy.apiServerTo[0].ipBlock.cidr=10.0.0.1/32",
            "networkPolicy.gitTo[0].ipBlock.cidr=192.0.2.0/24",
            "imagePullSecrets[0].name=registry",
            "priorityClassName=system-cluster-critical",
            "commonLabels.team=platform",
            "podLabels.team=platform",
            "podAnnotations.team=platform",
            "nodeSelector.disk=fast",
            "tolerations[0].operator=Exists",
            "controller.extraEnv[0].name=HTTPS_PROXY",
            "controller.extraEnv[0].value=http://proxy:3128",
            "workDirVolume.medium=Memory",
            "rbac.mode=all",
            "controller.leases.namespace=kube-system",
            "webhook.certManager.enabled=true",
            "webhook.certManager.issuerRef.name=internal",
            "webhook.clientCaConfigMap=api-server",
            "controller.attribution.store=rediss://redis:6379",
            "controller.attribution.storeSecret=redis",
            "controller.otlpEndpoint=http://collector.observability:4318",
        ],
    ),
    (
        "as little as possible",
        &[
            "replicaCount=1",
            "controller.leaderElect=false",
            "crds.install=false",
            "webhook.enabled=false",
            "metrics.enabled=false",
            "rbac.userRoles=false",
            "rbac.secrets=false",
            "controller.secretsMode=Skip",
        ],
    ),
    (
        "rights by hand",
        &[
            "rbac.create=false",
            "serviceAccount.create=false",
            "serviceAccount.name=mine",
            "crds.keep=false",
        ],
    ),
    (
        "everything but Secrets",
        &[
            "rbac.mode=all",
            "rbac.secrets=false",
            "rbac.customGroups[0]=cert-manager.io",
        ],
    ),
    (
        "only some types",
        &[
            "rbac.mode=custom",
            "rbac.customRules[0].apiGroups[0]=apps",
            "rbac.customRules[0].resources[0]=deployments",
            "rbac.customRules[0].verbs={list,watch}",
        ],
    ),
    (
        "another release and a platform that chooses users",
        &[
            "fullnameOverride=mirror",
            "webhook.existingSecret=webhook-tls",
            "image.digest=sha256:0000000000000000000000000000000000000000000000000000000000000000",
            "podSecurityContext.runAsUser=null",
            "podSecurityContext.fsGroup=null",
        ],
    ),
];

pub(crate) struct Helm {
    home: TempDir,
}

impl Helm {
    pub(crate) fn new() -> Self {
        Self {
            home: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn command(&self) -> Command {
        tools::sealed("helm", self.home.path())
    }

    /// `helm template`, as text.
    pub(crate) fn template(&self, values: &[&str], more: &[&str]) -> Command {
        let mut helm = self.command();
        helm.args(["template", "gitops-reverser"])
            .arg(repository::path("charts/gitops-reverser"))
            .args(["--namespace", NAMESPACE])
            .args(more);
        for value in values {
            helm.args(["--set", value]);
        }
        helm
    }

    #[track_caller]
    pub(crate) fn render(&self, values: &[&str]) -> Vec<Value> {
        let rendered = command::run(&mut self.template(values, &[])).stdout;
        repository::documents(&rendered)
    }
}

#[test]
fn helm_finds_nothing_to_complain_about() {
    let helm = Helm::new();
    for (what, values) in VALUE_SETS {
        let mut lint = helm.command();
        lint.args(["lint", "--strict"])
            .arg(repository::path("charts/gitops-reverser"));
        for value in *values {
            lint.args(["--set", value]);
        }
        let told = command::run(&mut lint).stdout;
        assert!(
            told.contains("1 chart(s) linted, 0 chart(s) failed"),
            "{what}: {told}"
        );
        assert!(!told.contains("WARNING"), "{what}: {told}");
    }
}

#[test]
fn the_pod_has_no_right_that_it_can_do_without() {
    let objects = Helm::new().render(&[]);
    let deployment = repository::one(&objects, "Deployment/gitops-reverser");
    let spec = &deployment["spec"];
    assert_eq!(spec["replicas"], 2);
    assert_eq!(spec["strategy"]["rollingUpdate"]["maxUnavailable"], 0);
    let pod = &spec["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(
        pod["securityContext"]["seccompProfile"]["type"],
        "RuntimeDefault"
    );
    let container = &pod["containers"][0];
    assert_eq!(
        container["securityContext"],
        json!({
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        })
    );
    assert!(container["resources"]["requests"]["memory"].is_string());
    assert!(container["resources"]["limits"]["memory"].is_string());
    let volumes = pod["volumes"].as_array().unwrap();
    assert!(
        volumes.iter().all(|volume| volume["emptyDir"].is_object()),
        "{volumes:?}"
    );
    assert_eq!(
        pod["topologySpreadConstraints"].as_array().unwrap().len(),
        2
    );
}

#[test]
fn only_the_leader_is_asked_by_the_webhook() {
    let objects = Helm::new().render(&[]);
    let service = repository::one(&objects, "Service/gitops-reverser-webhook");
    assert_eq!(
        service["spec"]["selector"]["configbutler.ai/leader"],
        "true"
    );
}

#[test]
fn every_pod_is_asked_by_the_webhook_where_pods_share_what_they_hear() {
    let objects = Helm::new().render(&[
        "controller.attribution.store=rediss://redis:7000/2",
        "controller.attribution.storeSecret=redis",
        "networkPolicy.enabled=true",
    ]);
    let service = repository::one(&objects, "Service/gitops-reverser-webhook");
    assert!(service["spec"]["selector"]["configbutler.ai/leader"].is_null());
    let deployment = repository::one(&objects, "Deployment/gitops-reverser");
    let volumes = deployment["spec"]["template"]["spec"]["volumes"].to_string();
    assert!(volumes.contains(r#""secretName":"redis""#), "{volumes}");
    let policy = repository::one(&objects, "NetworkPolicy/gitops-reverser");
    let egress = policy["spec"]["egress"].to_string();
    assert!(egress.contains(r#""port":7000"#), "{egress}");
}

#[test]
fn a_lone_pod_has_no_budget_that_would_block_a_drain() {
    let helm = Helm::new();
    let budget = "PodDisruptionBudget/gitops-reverser";
    repository::one(&helm.render(&[]), budget);
    let alone = helm.render(&["replicaCount=1"]);
    assert!(
        !alone
            .iter()
            .any(|object| repository::name(object) == budget)
    );
}

#[test]
fn definitions_can_be_left_and_are_kept_unless_told_otherwise() {
    let helm = Helm::new();
    let is_definition = |object: &&Value| object["kind"] == "CustomResourceDefinition";
    let definitions = |values: &[&str]| -> Vec<Value> {
        let objects = helm.render(values);
        objects.iter().filter(is_definition).cloned().collect()
    };
    let policy = |crd: &Value| crd["metadata"]["annotations"]["helm.sh/resource-policy"].clone();
    let kept = definitions(&[]);
    assert_eq!(kept.len(), 4);
    assert!(kept.iter().all(|crd| policy(crd) == "keep"));
    let loose = definitions(&["crds.keep=false"]);
    assert!(loose.len() == 4 && loose.iter().all(|crd| policy(crd).is_null()));
    assert!(definitions(&["crds.install=false"]).is_empty());
}

#[test]
fn nobody_may_edit_rules_by_the_common_roles() {
    let objects = Helm::new().render(&[]);
    for role in [
        "ClusterRole/gitops-reverser-editor",
        "ClusterRole/gitops-reverser-viewer",
    ] {
        let labels = repository::one(&objects, role)["metadata"]["labels"].to_string();
        assert!(!labels.contains("aggregate-to"), "{labels}");
    }
}

/// Every right that the rules of a role give, as `group/resource verb`.
pub(crate) fn rights(rules: &Value) -> Vec<String> {
    let list = |value: &Value| -> Vec<String> {
        let words = value.as_array().into_iter().flatten();
        words
            .map(|word| word.as_str().unwrap().to_owned())
            .collect()
    };
    let mut rights = Vec::new();
    for rule in rules.as_array().unwrap() {
        for group in list(&rule["apiGroups"]) {
            for resource in list(&rule["resources"]) {
                for verb in list(&rule["verbs"]) {
                    rights.push(format!("{group}/{resource} {verb}"));
                }
            }
        }
    }
    rights.sort();
    rights
}

#[test]
fn what_may_be_read_is_the_preset_and_secrets_can_be_taken_out() {
    let helm = Helm::new();
    let read = |values: &[&str]| {
        let objects = helm.render(values);
        rights(&repository::one(&objects, "ClusterRole/gitops-reverser-read")["rules"])
    };
    let mut preset: Vec<String> = reverser_core::selection::preset()
        .flat_map(|(group, resource)| {
            ["list", "watch"].map(|verb| format!("{group}/{resource} {verb}"))
        })
        .collect();
    preset.sort();
    assert_eq!(read(&[]), preset);
    assert_eq!(read(&["rbac.mode=all"]), ["*/* list", "*/* watch"]);
    for mode in ["rbac.mode=preset", "rbac.mode=all"] {
        let objects = helm.render(&[mode, "rbac.secrets=false"]);
        for role in objects
            .iter()
            .filter(|object| object["kind"] == "ClusterRole")
        {
            for rule in role["rules"].as_array().unwrap() {
                let (groups, resources) =
                    (rule["apiGroups"].to_string(), rule["resources"].to_string());
                let reads = |word: &str| {
                    (groups.contains("\"*\"") || groups.contains("\"\""))
                        && resources.contains(word)
                };
                assert!(!reads("\"*\""), "{mode}: {rule}");
                if reads("\"secrets\"") {
                    assert_eq!(
                        rule["resourceNames"],
                        json!(["git-credentials"]),
                        "{mode}: {rule}"
                    );
                    assert_eq!(rule["verbs"], json!(["get"]), "{mode}: {rule}");
                }
            }
        }
        let deployment = repository::one(&objects, "Deployment/gitops-reverser").to_string();
        assert!(
            deployment.contains("--discovery-exclude=secrets"),
            "{deployment}"
        );
    }
}

#[test]
fn every_alert_links_to_its_page() {
    let objects = Helm::new().render(&["metrics.prometheusRule.enabled=true"]);
    let rules = repository::one(&objects, "PrometheusRule/gitops-reverser");
    let page = repository::read("docs/operations/alerts.md");
    let alerts = rules["spec"]["groups"][0]["rules"].as_array().unwrap();
    assert!(alerts.len() > 5);
    for alert in alerts {
        let link = alert["annotations"]["runbook_url"].as_str().unwrap();
        let (address, heading) = link.split_once('#').unwrap();
        assert!(address.ends_with("/docs/operations/alerts.md"), "{link}");
        let headings = page.lines().filter_map(|line| line.strip_prefix("## "));
        let found = headings.map(str::to_lowercase).any(|one| one == heading);
        assert!(found, "{link}");
    }
}

#[test]
fn what_to_do_next_is_said_and_can_be_pasted() {
    let helm = Helm::new();
    let mut install = helm.command();
    install
        .args([
            "install",
            "gitops-reverser",
            "--dry-run=client",
            "--namespace",
            NAMESPACE,
        ])
        .arg(repository::path("charts/gitops-reverser"));
    let told = command::run(&mut install).stdout;
    let (_, notes) = told.split_once("NOTES:").unwrap();
    for said in [
        "kubectl get reverser -A",
        "kubectl wait --for=condition=Ready watchrule/mirror gitdestination/mirror",
        "Uninstalling leaves Git as it is.",
        "are written as they are, readable for everyone",
        "set rbac.mode=all",
    ] {
        assert!(notes.contains(said), "{said} in {notes}");
    }
    let (_, from) = notes.split_once("<<END\n").unwrap();
    let (yaml, _) = from.split_once("\nEND\n").unwrap();
    let kinds: Vec<String> = repository::documents(yaml)
        .iter()
        .map(repository::name)
        .collect();
    assert_eq!(
        kinds,
        [
            "GitRepoConfig/mirror",
            "GitDestination/mirror",
            "WatchRule/mirror"
        ]
    );
}

#[test]
fn a_policy_limits_where_pods_may_go_and_lets_the_test_of_the_chart_in() {
    let objects = Helm::new().render(&[
        "networkPolicy.enabled=true",
        "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.name=monitoring",
        "networkPolicy.gitTo[0].ipBlock.cidr=192.0.2.0/24",
    ]);
    let policy = repository::one(&objects, "NetworkPolicy/gitops-reverser");
    let egress = policy["spec"]["egress"].as_array().unwrap();
    let to_git = |rule: &&Value| rule["to"] == json!([{"ipBlock": {"cidr": "192.0.2.0/24"}}]);
    let git = egress.iter().find(to_git).unwrap();
    assert_eq!(git["ports"], json!([{"port": 22}, {"port": 443}]));
    let ingress = policy["spec"]["ingress"].as_array().unwrap();
    let metrics = ingress.iter().find(|rule| rule["ports"][0]["port"] == 8080);
    let allowed = &metrics.unwrap()["from"][1]["podSelector"]["matchLabels"];
    let test = repository::one(&objects, "Pod/gitops-reverser-test");
    for (label, value) in allowed.as_object().unwrap() {
        assert_eq!(test["metadata"]["labels"][label], *value, "{label}");
    }
}

#[test]
fn whoever_keeps_the_rights_by_hand_is_told_what_uninstalling_leaves() {
    let helm = Helm::new();
    let notes = |values: &[&str]| {
        let mut install = helm.command();
        install
            .args(["install", "gitops-reverser", "--dry-run=client"])
            .args(["--namespace", NAMESPACE])
            .arg(repository::path("charts/gitops-reverser"));
        for value in values {
            install.args(["--set", value]);
        }
        let told = command::run(&mut install).stdout;
        told.split_once("NOTES:").unwrap().1.to_owned()
    };
    let left = "kubectl delete validatingwebhookconfiguration gitops-reverser";
    assert!(!notes(&[]).contains(left));
    assert!(notes(&["rbac.create=false"]).contains(left));
    let owned = ["rbac.create=false", "rbac.ownerClusterRole=mine"];
    assert!(!notes(&owned).contains(left));
}
