//! The arguments of each program, as far as it is not told elsewhere.

use std::collections::BTreeMap;
use std::path::Path;

use super::credentials::Credentials;

/// The addresses of Services. The certificate of the servers has the first of them.
const SERVICE_ADDRESSES: &str = "--service-cluster-ip-range=10.0.0.0/24";

/// What an API server is told.
pub(super) struct ApiServerSettings<'a> {
    pub(super) port: u16,
    pub(super) etcd: &'a http::Uri,
    pub(super) credentials: &'a Credentials,
    /// With a controller-manager there are default service accounts, and pods can be held to them.
    pub(super) service_account_admission: bool,
    pub(super) priority_and_fairness: bool,
    pub(super) watch_cache: bool,
    pub(super) feature_gates: &'a BTreeMap<String, bool>,
    /// The policy and the log.
    pub(super) audit: Option<(&'a Path, &'a Path)>,
    pub(super) more: &'a [String],
}

pub(super) fn etcd(data: &Path, client_port: u16, peer_port: u16) -> Vec<String> {
    let client = format!("http://127.0.0.1:{client_port}");
    let peer = format!("http://127.0.0.1:{peer_port}");
    vec![
        "--name=test".to_owned(),
        format!("--data-dir={}", data.display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=test={peer}"),
        // What a test wrote needs not survive a power cut.
        "--unsafe-no-fsync".to_owned(),
        // There is nobody to be elected but itself, so half a second of waiting for others is lost.
        "--heartbeat-interval=20".to_owned(),
        "--election-timeout=100".to_owned(),
    ]
}

pub(super) fn kube_apiserver(settings: &ApiServerSettings<'_>) -> Vec<String> {
    let &ApiServerSettings {
        port,
        etcd,
        credentials,
        service_account_admission,
        priority_and_fairness,
        watch_cache,
        feature_gates,
        audit,
        more,
    } = settings;
    let file = |flag: &str, path: &Path| format!("--{flag}={}", path.display());
    let mut arguments = vec![
        format!("--etcd-servers={}", etcd.to_string().trim_end_matches('/')),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        // Otherwise it wants a route to the outside.
        "--advertise-address=127.0.0.1".to_owned(),
        // An address of the loopback is none that it could publish to pods.
        "--endpoint-reconciler-type=none".to_owned(),
        file("tls-cert-file", &credentials.server_certificate()),
        file("tls-private-key-file", &credentials.server_key()),
        file("token-auth-file", &credentials.token_file()),
        "--authorization-mode=RBAC".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        file(
            "service-account-key-file",
            &credentials.service_account_public_key(),
        ),
        file(
            "service-account-signing-key-file",
            &credentials.service_account_key(),
        ),
        SERVICE_ADDRESSES.to_owned(),
        "--allow-privileged=true".to_owned(),
        format!("--enable-priority-and-fairness={priority_and_fairness}"),
        format!("--watch-cache={watch_cache}"),
    ];
    if !service_account_admission {
        arguments.push("--disable-admission-plugins=ServiceAccount".to_owned());
    }
    if let Some((policy, log)) = audit {
        arguments.push(file("audit-policy-file", policy));
        arguments.push(file("audit-log-path", log));
        // Whoever reads it finds all of it in one file.
        arguments.push("--audit-log-maxsize=0".to_owned());
    }
    if !feature_gates.is_empty() {
        let gates: Vec<_> = feature_gates
            .iter()
            .map(|(name, on)| format!("{name}={on}"))
            .collect();
        arguments.push(format!("--feature-gates={}", gates.join(",")));
    }
    arguments.extend_from_slice(more);
    arguments
}

pub(super) fn kube_controller_manager(
    port: u16,
    kubeconfig: &Path,
    credentials: &Credentials,
) -> Vec<String> {
    let file = |flag: &str, path: &Path| format!("--{flag}={}", path.display());
    vec![
        file("kubeconfig", kubeconfig),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        file("tls-cert-file", &credentials.server_certificate()),
        file("tls-private-key-file", &credentials.server_key()),
        file("root-ca-file", &credentials.authority_file()),
        file(
            "service-account-private-key-file",
            &credentials.service_account_key(),
        ),
        // Each controller under its own name, as in real clusters.
        "--use-service-account-credentials=true".to_owned(),
        // There is only one.
        "--leader-elect=false".to_owned(),
        SERVICE_ADDRESSES.to_owned(),
        // Its own limit is made for clusters that others use too; here it only costs seconds.
        "--kube-api-qps=500".to_owned(),
        "--kube-api-burst=1000".to_owned(),
        // The same goes for the time between two looks of the autoscaler and the binder of volumes.
        "--horizontal-pod-autoscaler-sync-period=1s".to_owned(),
        "--pvclaimbinder-sync-period=1s".to_owned(),
    ]
}
