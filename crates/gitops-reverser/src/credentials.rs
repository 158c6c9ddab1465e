//! From the Secret that a GitRepoConfig names to credentials.

use std::collections::BTreeMap;

use futures::FutureExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use reverser_api::GitRepoConfig;
use reverser_api::conditions::remote_reason;
use reverser_git::{Credentials, RemoteUrl};

use crate::identity::Id;
use crate::routing::{Refusal, Target};
use crate::writer::CredentialSource;

/// Reads the GitRepoConfig and its Secret anew each time, so that a rotated Secret, and another one,
/// are used at the next attempt.
#[must_use]
pub fn source(client: Client, target: &Target) -> CredentialSource {
    let (repo, url) = (target.repo.clone(), target.url.clone());
    Box::new(move || read(client.clone(), repo.clone(), url.clone()).boxed())
}

async fn read(client: Client, repo: Id, url: RemoteUrl) -> Result<Credentials, Refusal> {
    let refused = |reason, message: String| Refusal { reason, message };
    let api: Api<GitRepoConfig> = Api::namespaced(client.clone(), &repo.namespace);
    let unreadable = |error: kube::Error| {
        refused(
            remote_reason::SECRET_INVALID,
            format!("credentials cannot be read: {error}"),
        )
    };
    let found = api.get_opt(&repo.name).await.map_err(unreadable)?;
    let Some(reference) = found.and_then(|repo| repo.spec.secret_ref) else {
        return Ok(Credentials::anonymous());
    };
    let api: Api<Secret> = Api::namespaced(client, &repo.namespace);
    let secret = api
        .get_opt(&reference.name)
        .await
        .map_err(unreadable)?
        .ok_or_else(|| {
            refused(
                remote_reason::SECRET_NOT_FOUND,
                format!(
                    "Secret {}/{} does not exist: create it, or change spec.secretRef of \
                     GitRepoConfig {repo}",
                    repo.namespace, reference.name
                ),
            )
        })?;
    let data: BTreeMap<String, Vec<u8>> = secret
        .data
        .unwrap_or_default()
        .into_iter()
        .map(|(key, value)| (key, value.0))
        .collect();
    Credentials::from_secret(&data, &url).map_err(|error| {
        refused(
            remote_reason::SECRET_INVALID,
            format!("Secret {}/{}: {error}", repo.namespace, reference.name),
        )
    })
}
