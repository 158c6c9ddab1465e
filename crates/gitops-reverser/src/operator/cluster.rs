//! Which cluster it is, and whether it still is that one.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};

use super::OperatorError;
use crate::configuration::MISSING_RIGHT;

/// How soon a server that fails is asked again which cluster it is.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// How often it is asked whether the cluster is still the same: before lists of another one, which
/// lack everything, are believed.
const ASK_FOR_IDENTITY: Duration = Duration::from_secs(2);

/// The uid of `kube-system` stands for the cluster: it lives as long as the cluster does. A server that
/// fails is asked again; one that refuses will do so again.
pub(super) async fn cluster_uid(client: &Client) -> Result<String, OperatorError> {
    let api: Api<Namespace> = Api::all(client.clone());
    loop {
        match api.get("kube-system").await {
            Ok(namespace) => return Ok(namespace.metadata.uid.unwrap_or_default()),
            Err(error @ kube::Error::Api(_)) if is_refusal(&error) => {
                return Err(OperatorError::ClusterIdentity(error));
            }
            Err(_) => tokio::time::sleep(ASK_AGAIN).await,
        }
    }
}

/// What a person can do about a refusal.
pub(super) fn cure_of(error: &kube::Error) -> &'static str {
    match error {
        kube::Error::Api(status) if status.code == 403 => MISSING_RIGHT,
        kube::Error::Api(status) if status.code == 401 => {
            "; the API server does not accept the operator's credentials: give it a kubeconfig or a \
             ServiceAccount whose token it knows"
        }
        _ => "",
    }
}

/// Waits until the API server is that of another cluster: its address may lead there while everything
/// runs. Who gives no answer is no other.
pub(super) async fn another_cluster(client: &Client, known: &str) -> OperatorError {
    let api: Api<Namespace> = Api::all(client.clone());
    loop {
        tokio::time::sleep(ASK_FOR_IDENTITY).await;
        let found = api.get_metadata("kube-system").await;
        let uid = found.ok().and_then(|found| found.metadata.uid);
        if uid.is_some_and(|uid| uid != known) {
            return OperatorError::AnotherCluster;
        }
    }
}

fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 401 | 403 | 404))
}
