//! The Secret that holds the certificates: the same for all replicas, because whoever writes it says
//! which version is replaced.

use std::collections::BTreeMap;

use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::PostParams;
use kube::core::ObjectMeta;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use secrecy::{ExposeSecret as _, SecretString};

use super::certificates::{self, CertificateError, Certificates, Change, Lifetimes, Step};
use super::own_writes::FIELD_MANAGER;
use crate::api_read::describe;
use crate::owner_role::belong_to;

/// The entries, as cert-manager names them too.
const AUTHORITIES: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";
const SERVING: &str = "tls.crt";
const SERVING_KEY: &str = "tls.key";

/// Where certificates are kept.
#[derive(Clone)]
pub(super) struct CertificateSecret {
    api: Api<Secret>,
    name: String,
    names: Vec<String>,
    lifetimes: Lifetimes,
}

/// Certificates as they are kept now.
pub(super) struct Kept {
    /// They.
    pub(super) certificates: Certificates,
    /// When to look again.
    pub(super) until: Timestamp,
    /// What was done just now.
    pub(super) change: Option<Change>,
}

/// Why there are no certificates.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeepError {
    /// They cannot be made.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// They cannot be kept.
    #[error("the Secret {name} cannot be read or written: {source}")]
    Secret {
        /// Its name.
        name: String,
        /// What the API server says.
        #[source]
        source: kube::Error,
    },
}

impl CertificateSecret {
    /// A Secret of this name beside the operator, for a server that is reached by these names.
    #[must_use]
    pub(super) fn new(
        client: Client,
        namespace: &str,
        name: &str,
        names: Vec<String>,
        lifetimes: Lifetimes,
    ) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
            names,
            lifetimes,
        }
    }

    /// Does the next step that is due, if any. Another replica that was faster is right.
    ///
    /// `trusted` are the authorities that callers trust, and since when; the Secret goes with `owner`.
    pub(super) async fn keep(
        &self,
        trusted: Option<&(String, Timestamp)>,
        owner: Option<&OwnerReference>,
        now: Timestamp,
    ) -> Result<Kept, KeepError> {
        let failed = |source| KeepError::Secret {
            name: self.name.clone(),
            source,
        };
        loop {
            let live = self.api.get_opt(&self.name).await.map_err(failed)?;
            let current = live.as_ref().and_then(read);
            let newest = current.as_ref().map(|current| &current.authorities);
            let since = trusted.filter(|(authorities, _)| Some(authorities) == newest);
            let since = since.map(|(_, since)| *since);
            let step =
                certificates::step(current.as_ref(), &self.names, self.lifetimes, since, now)?;
            match step {
                Step::Keep(until) => {
                    let certificates = current.expect("only what is there is kept");
                    self.hand_over(live, owner).await;
                    return Ok(Kept {
                        certificates,
                        until,
                        change: None,
                    });
                }
                Step::Replace(certificates, change) => {
                    match self.write(live, owner, &certificates).await {
                        Ok(_) => {
                            return Ok(Kept {
                                certificates: *certificates,
                                // What follows the change is asked at once.
                                until: now,
                                change: Some(change),
                            });
                        }
                        Err(kube::Error::Api(status)) if status.code == 409 => {}
                        Err(error) => return Err(failed(error)),
                    }
                }
            }
        }
    }

    /// Gives a Secret that was made without an owner to it. Where that is refused, as some clusters do
    /// who want the right to delete for it, certificates are as good as before.
    async fn hand_over(&self, live: Option<Secret>, owner: Option<&OwnerReference>) {
        if let (Some(mut secret), Some(owner)) = (live, owner)
            && belong_to(&mut secret.metadata, owner)
        {
            let _ = self.api.replace(&self.name, &params(), &secret).await;
        }
    }

    async fn write(
        &self,
        live: Option<Secret>,
        owner: Option<&OwnerReference>,
        certificates: &Certificates,
    ) -> Result<Secret, kube::Error> {
        let params = params();
        let exists = live.is_some();
        let mut secret = live.unwrap_or_else(|| self.empty());
        secret.data = Some(data(certificates));
        if let Some(owner) = owner {
            belong_to(&mut secret.metadata, owner);
        }
        if exists {
            // With the version that was read: the server refuses if it is another by now.
            self.api.replace(&self.name, &params, &secret).await
        } else {
            self.api.create(&params, &secret).await
        }
    }

    fn empty(&self) -> Secret {
        Secret {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                // It would otherwise appear in Git where the operator's namespace is mirrored.
                labels: Some(BTreeMap::from([(
                    "configbutler.ai/ignore".to_owned(),
                    "true".to_owned(),
                )])),
                ..ObjectMeta::default()
            },
            ..Secret::default()
        }
    }

    /// Tells the certificates whenever they are others, or why they cannot be read, for as long as it
    /// is asked to.
    pub(super) async fn follow(&self, mut tell: impl FnMut(Result<Certificates, String>)) {
        let only = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let events = watcher(self.api.clone(), only).default_backoff();
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Apply(secret) | watcher::Event::InitApply(secret)) => {
                    if let Some(certificates) = read(&secret) {
                        tell(Ok(certificates));
                    }
                }
                // What is known stays known, also if it is deleted.
                Ok(_) => {}
                // It is followed by a new list.
                Err(error) => tell(Err(format!("Secret {}: {}", self.name, describe(&error)))),
            }
        }
    }
}

fn params() -> PostParams {
    PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    }
}

fn read(secret: &Secret) -> Option<Certificates> {
    let text = |entry: &str| {
        let bytes = secret.data.as_ref()?.get(entry)?;
        String::from_utf8(bytes.0.clone()).ok()
    };
    Some(Certificates {
        authorities: text(AUTHORITIES)?,
        authority_key: SecretString::from(text(AUTHORITY_KEY)?),
        serving: text(SERVING)?,
        serving_key: SecretString::from(text(SERVING_KEY)?),
    })
}

fn data(certificates: &Certificates) -> BTreeMap<String, ByteString> {
    let Certificates {
        authorities,
        authority_key,
        serving,
        serving_key,
    } = certificates;
    let entries = [
        (AUTHORITIES, authorities.as_str()),
        (AUTHORITY_KEY, authority_key.expose_secret()),
        (SERVING, serving.as_str()),
        (SERVING_KEY, serving_key.expose_secret()),
    ];
    let entry =
        |(name, text): (&str, &str)| (name.to_owned(), ByteString(text.as_bytes().to_vec()));
    entries.into_iter().map(entry).collect()
}
