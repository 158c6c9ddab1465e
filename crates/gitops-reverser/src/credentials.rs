//! From the Secrets that a GitRepoConfig names to credentials and to the key that signs.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use reverser_api::GitRepoConfig;
use reverser_api::conditions::{reason, remote_reason};
use reverser_git::{Credentials, RemoteUrl, Signer, SshSigner};

use crate::api_read::describe;
use crate::identity::Id;
use crate::routing::Refusal;
use crate::writer::{Access, AccessSource};

/// Reads the GitRepoConfig and its Secrets anew each time, so that rotated ones, and others, are used
/// at the next attempt.
#[must_use]
pub fn source(client: Client, repo: &Id, url: &RemoteUrl) -> AccessSource {
    let (repo, url) = (repo.clone(), url.clone());
    Arc::new(move || read(client.clone(), repo.clone(), url.clone()).boxed())
}

type SecretData = BTreeMap<String, Vec<u8>>;

async fn read(client: Client, repo: Id, url: RemoteUrl) -> Result<Access, Refusal> {
    let api: Api<GitRepoConfig> = Api::namespaced(client.clone(), &repo.namespace);
    let found = api
        .get_opt(&repo.name)
        .await
        .map_err(|error| unread(&error))?;
    let spec = found.map(|repo| repo.spec);
    if let Some(spec) = &spec {
        is_meant_for(&url, &repo, &spec.repo_url)?;
    }
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

/// Credentials are for the address that stands beside them, and never go anywhere else: a writer of
/// the address of before gets none.
fn is_meant_for(url: &RemoteUrl, repo: &Id, repo_url: &str) -> Result<(), Refusal> {
    if repo_url == url.as_str() {
        return Ok(());
    }
    Err(Refusal {
        reason: reason::PROGRESSING,
        message: format!(
            "spec.repoUrl of GitRepoConfig {repo} is another one by now: {url} is not written any more"
        ),
    })
}

async fn secret(
    client: &Client,
    repo: &Id,
    name: &str,
    field: &str,
) -> Result<SecretData, Refusal> {
    let api: Api<Secret> = Api::namespaced(client.clone(), &repo.namespace);
    let found = api.get_opt(name).await.map_err(|error| unread(&error))?;
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

fn unread(error: &kube::Error) -> Refusal {
    // Whoever may not read it has to be allowed to; anything else is tried again.
    let forbidden = matches!(error, kube::Error::Api(status) if status.code == 403);
    Refusal {
        reason: if forbidden {
            remote_reason::SECRET_INVALID
        } else {
            reason::PROGRESSING
        },
        message: format!("credentials cannot be read: {}", describe(error)),
    }
}

#[cfg(test)]
mod tests {
    use reverser_git::Scheme;

    use super::*;

    #[test]
    fn credentials_of_a_new_address_are_not_sent_to_the_old_one() {
        let old = RemoteUrl::parse("https://old.example/r", Scheme::DEFAULT_ALLOWED).expect("good");
        let repo = Id::new("team", "repo");
        assert_eq!(is_meant_for(&old, &repo, "https://old.example/r"), Ok(()));
        for new in ["https://new.example/r", "https://old.example/r.git", ""] {
            let refusal = is_meant_for(&old, &repo, new).expect_err(new);
            assert!(
                refusal.message.contains("GitRepoConfig team/repo"),
                "{refusal:?}"
            );
        }
    }
}
