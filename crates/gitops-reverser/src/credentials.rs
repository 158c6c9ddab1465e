//! From the Secrets that a GitRepoConfig names to credentials and to the key that signs.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use reverser_api::GitRepoConfig;
use reverser_api::conditions::remote_reason;
use reverser_git::{Credentials, RemoteUrl, Signer, SshSigner};

use crate::identity::Id;
use crate::routing::{Refusal, Target};
use crate::writer::{Access, AccessSource};

/// Reads the GitRepoConfig and its Secrets anew each time, so that rotated ones, and others, are used
/// at the next attempt.
#[must_use]
pub fn source(client: Client, target: &Target) -> AccessSource {
    let (repo, url) = (target.repo.clone(), target.url.clone());
    Arc::new(move || read(client.clone(), repo.clone(), url.clone()).boxed())
}

type SecretData = BTreeMap<String, Vec<u8>>;

async fn read(client: Client, repo: Id, url: RemoteUrl) -> Result<Access, Refusal> {
    let api: Api<GitRepoConfig> = Api::namespaced(client.clone(), &repo.namespace);
    let found = api
        .get_opt(&repo.name)
        .await
        .map_err(|error| invalid(&error))?;
    let spec = found.map(|repo| repo.spec);
    let credentials = match spec.as_ref().and_then(|spec| spec.secret_ref.as_ref()) {
        None => Credentials::anonymous(),
        Some(reference) => {
            let field = "spec.secretRef";
            let data = secret(&client, &repo, &reference.name, field).await?;
            let named = Id::new(&repo.namespace, &reference.name);
            Credentials::from_secret(&data, &url).map_err(|error| unusable(&named, &error))?
        }
    };
    let commit = spec.and_then(|spec| spec.commit);
    let signer = match commit.and_then(|commit| commit.signing_key_secret_ref) {
        None => None,
        Some(reference) => {
            let field = "spec.commit.signingKeySecretRef";
            let data = secret(&client, &repo, &reference.name, field).await?;
            Some(signer(&Id::new(&repo.namespace, &reference.name), &data)?)
        }
    };
    Ok(Access {
        credentials,
        signer,
    })
}

async fn secret(
    client: &Client,
    repo: &Id,
    name: &str,
    field: &str,
) -> Result<SecretData, Refusal> {
    let api: Api<Secret> = Api::namespaced(client.clone(), &repo.namespace);
    let found = api.get_opt(name).await.map_err(|error| invalid(&error))?;
    let secret = found.ok_or_else(|| Refusal {
        reason: remote_reason::SECRET_NOT_FOUND,
        message: format!(
            "Secret {}/{name} does not exist: create it, or change {field} of GitRepoConfig {repo}",
            repo.namespace
        ),
    })?;
    let data = secret.data.unwrap_or_default().into_iter();
    Ok(data.map(|(key, value)| (key, value.0)).collect())
}

/// The key that signs commits. What it holds is never repeated.
fn signer(named: &Id, data: &SecretData) -> Result<Arc<dyn Signer>, Refusal> {
    let text = |keys: &[&str]| {
        let found = keys.iter().find_map(|key| data.get(*key))?;
        String::from_utf8(found.clone()).ok()
    };
    let key = text(&["ssh-privatekey", "identity"]).ok_or_else(|| Refusal {
        reason: remote_reason::SECRET_INVALID,
        message: format!("Secret {named}: it has no ssh-privatekey, which is to sign commits"),
    })?;
    let passphrase = text(&["ssh-password", "password"]).map(Into::into);
    let signer = SshSigner::new(&key.into(), passphrase.as_ref())
        .map_err(|error| unusable(named, &error))?;
    Ok(Arc::new(signer))
}

fn unusable(named: &Id, error: &dyn std::error::Error) -> Refusal {
    Refusal {
        reason: remote_reason::SECRET_INVALID,
        message: format!("Secret {named}: {error}"),
    }
}

fn invalid(error: &kube::Error) -> Refusal {
    Refusal {
        reason: remote_reason::SECRET_INVALID,
        message: format!("credentials cannot be read: {error}"),
    }
}
