use std::ops::Deref;

use http::Request;
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::blocking;
use super::component::Component;

/// The storage below the API servers.
///
/// It can be paused, killed and started again as every [`Component`].
#[derive(Debug)]
pub struct Etcd {
    component: Component,
    url: http::Uri,
}

/// What etcd does not do.
#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    /// It does not answer, or refuses.
    #[error("etcd does not do {path}")]
    Call {
        /// What it was asked for.
        path: &'static str,
        /// Its answer.
        #[source]
        source: Box<kube::Error>,
    },
    /// It answers, but not as it is known to.
    #[error("etcd answers {path} without a revision: {answer}")]
    NoRevision {
        /// What it was asked for.
        path: &'static str,
        /// Its answer.
        answer: Value,
    },
}

impl Etcd {
    pub(super) fn new(component: Component, url: http::Uri) -> Self {
        Self { component, url }
    }

    /// Where it listens: no encryption, no users.
    #[must_use]
    pub fn url(&self) -> &http::Uri {
        &self.url
    }

    /// Forgets everything but the present state, and gives the revision it did that at.
    pub fn compact(&self) -> Result<i64, EtcdError> {
        blocking::run(async || {
            // The revision that a compaction names stays readable, so it must not be the one of
            // the last change that a test made. The key (`testkit`) is outside of what API servers
            // read.
            let put = "/v3/kv/put";
            let answer = self.call(put, &json!({"key": "dGVzdGtpdA=="})).await?;
            let revision = answer["header"]["revision"].as_str();
            let Some(revision) = revision.and_then(|text| text.parse().ok()) else {
                return Err(EtcdError::NoRevision { path: put, answer });
            };
            // Physical: answered when it is done.
            let order = json!({"revision": revision, "physical": true});
            self.call("/v3/kv/compaction", &order).await?;
            Ok(revision)
        })
    }

    /// Writes any bytes where an API server keeps an object, for instance at
    /// `/registry/configmaps/shop/web`.
    pub fn put(&self, key: &str, value: &[u8]) -> Result<(), EtcdError> {
        let order = json!({"key": bytes(key.as_bytes()), "value": bytes(value)});
        blocking::run(async || self.call("/v3/kv/put", &order).await.map(drop))
    }

    /// Removes what is at a key.
    pub fn delete(&self, key: &str) -> Result<(), EtcdError> {
        let order = json!({"key": bytes(key.as_bytes())});
        blocking::run(async || self.call("/v3/kv/deleterange", &order).await.map(drop))
    }

    /// etcd speaks JSON beside gRPC, so the client that is there anyway will do.
    async fn call(&self, path: &'static str, body: &Value) -> Result<Value, EtcdError> {
        let failed = |source| EtcdError::Call {
            path,
            source: Box::new(source),
        };
        let client = kube::Client::try_from(kube::Config::new(self.url.clone())).map_err(failed)?;
        let request = Request::post(path).body(body.to_string().into_bytes());
        let request = request.expect("the path is a constant");
        client.request(request).await.map_err(failed)
    }

    pub(super) fn component(&self) -> &Component {
        &self.component
    }
}

/// Bytes as JSON has them.
fn bytes(bytes: &[u8]) -> ByteString {
    ByteString(bytes.to_vec())
}

impl Deref for Etcd {
    type Target = Component;

    fn deref(&self) -> &Component {
        &self.component
    }
}
