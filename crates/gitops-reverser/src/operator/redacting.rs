//! The key by which Secrets are redacted: made once, and kept in a Secret beside the operator.

use std::collections::BTreeMap;
use std::io::Read as _;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::core::ObjectMeta;
use kube::{Api, Client};
use reverser_api::conditions::remote_reason;
use reverser_api::git_destination::SecretsMode;
use reverser_core::redaction::RedactionKey;

use crate::routing::{Refusal, Routing};

/// The Secret that holds the key.
const SECRET: &str = "gitops-reverser-redaction";
/// Its entry.
const ENTRY: &str = "key";

/// Gives the key, or says why it cannot be had.
pub type KeySource =
    Box<dyn Fn() -> BoxFuture<'static, Result<RedactionKey, String>> + Send + Sync>;

/// Where the key comes from, and whether it is here.
pub(super) struct Redaction {
    source: KeySource,
    state: State,
}

#[derive(PartialEq)]
enum State {
    /// Nobody has asked for it.
    NotNeeded,
    Missing,
    Known,
}

impl Redaction {
    pub(super) fn new(source: KeySource) -> Self {
        Self {
            source,
            state: State::NotNeeded,
        }
    }

    /// Whether somebody needs the key, and it could not be had.
    pub(super) fn is_missing(&self) -> bool {
        self.state == State::Missing
    }

    /// The key, the first time that a destination needs it. While it cannot be had, destinations that
    /// need it are refused.
    pub(super) async fn prepare(&mut self, routing: &mut Routing) -> Option<RedactionKey> {
        let needs_key = |destination: &Result<crate::routing::Destination, Refusal>| {
            destination
                .as_ref()
                .is_ok_and(|destination| destination.form.secrets == SecretsMode::Redact)
        };
        if self.state == State::Known {
            return None;
        }
        if !routing.destinations.values().any(needs_key) {
            self.state = State::NotNeeded;
            return None;
        }
        // The operator's loop waits here, however long the server wants us to.
        let key = tokio::time::timeout(crate::api_read::ANSWER, (self.source)()).await;
        match key.unwrap_or_else(|_late| Err("it did not come in time".to_owned())) {
            Ok(key) => {
                self.state = State::Known;
                Some(key)
            }
            Err(why) => {
                self.state = State::Missing;
                let destinations = routing.destinations.values_mut();
                for destination in destinations.filter(|destination| needs_key(destination)) {
                    *destination = Err(Refusal {
                        reason: remote_reason::SECRET_INVALID,
                        message: format!("Secrets that are redacted need a key, and {why}"),
                    });
                }
                None
            }
        }
    }
}

/// The key of this installation: kept in a Secret beside the operator, and made where it is missing.
#[must_use]
pub fn installation_key(client: Client, namespace: &str) -> KeySource {
    let api: Api<Secret> = Api::namespaced(client, namespace);
    Box::new(move || {
        let api = api.clone();
        let told = |why| format!("the Secret {SECRET} beside the operator cannot be had: {why}");
        async move { read_or_create(&api).await.map_err(told) }.boxed()
    })
}

/// The key of an installed operator, which is not made for it where it is missing.
#[must_use]
pub fn key_of_operator(client: Client, namespace: &str) -> KeySource {
    let namespace = namespace.to_owned();
    Box::new(move || {
        let api: Api<Secret> = Api::namespaced(client.clone(), &namespace);
        let told = format!("the Secret {namespace}/{SECRET} cannot be had: ");
        async move {
            let secret = api.get(SECRET).await.map_err(|error| match error {
                kube::Error::Api(status) => status.message,
                error => error.to_string(),
            });
            secret.and_then(key_in).map_err(|why| told + &why)
        }
        .boxed()
    })
}

async fn read_or_create(api: &Api<Secret>) -> Result<RedactionKey, String> {
    let failed = |error: kube::Error| error.to_string();
    if let Some(secret) = api.get_opt(SECRET).await.map_err(failed)? {
        return key_in(secret);
    }
    let mut bytes = [0; 32];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut bytes))
        .map_err(|error| error.to_string())?;
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(SECRET.to_owned()),
            // It would otherwise appear in Git where the operator's namespace is mirrored.
            labels: Some(BTreeMap::from([(
                "configbutler.ai/ignore".to_owned(),
                "true".to_owned(),
            )])),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(
            ENTRY.to_owned(),
            ByteString(bytes.to_vec()),
        )])),
        ..Secret::default()
    };
    match api.create(&PostParams::default(), &secret).await {
        Ok(created) => key_in(created),
        // Another replica was faster: its key counts.
        Err(kube::Error::Api(status)) if status.code == 409 => {
            key_in(api.get(SECRET).await.map_err(failed)?)
        }
        Err(error) => Err(failed(error)),
    }
}

fn key_in(secret: Secret) -> Result<RedactionKey, String> {
    let data = secret.data.unwrap_or_default();
    let bytes = data
        .get(ENTRY)
        .and_then(|key| <[u8; 32]>::try_from(&key.0[..]).ok());
    bytes
        .map(RedactionKey::new)
        .ok_or_else(|| format!("its entry {ENTRY} is not 32 bytes long"))
}
