//! The cluster that flags name, and whether it answers.

use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use serde::Deserialize;
use tokio::time::Instant;

use super::exit::{Complaint, Exit};
use crate::api_read::{self, Failure, FailureReason};
use crate::command_line::ClusterArguments;

/// Who waits longer for the first answer has given up already.
const DEADLINE: Duration = Duration::from_secs(15);
/// More than an object can take: etcd holds 1.5 MiB, which base64 and the names of fields make longer.
const LIMIT: usize = 8 << 20;

/// A cluster that has answered.
pub struct Cluster {
    /// How it is reached.
    pub config: kube::Config,
    /// Asks it, without retries.
    pub client: kube::Client,
    /// What a person calls it.
    pub name: String,
    /// The uid of `kube-system`, if it may be read.
    pub uid: Option<String>,
}

#[derive(Deserialize)]
struct Namespace {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    uid: String,
}

impl Cluster {
    /// Finds the cluster, and asks it who it is.
    pub async fn connect(arguments: &ClusterArguments) -> Result<Self, Complaint> {
        let (config, name) = configuration(arguments).await?;
        let client = api_read::client(config.clone()).map_err(Complaint::failed)?;
        let mut cluster = Self {
            config,
            client,
            name,
            uid: None,
        };
        match cluster.get("/api/v1/namespaces/kube-system").await {
            Ok(body) => {
                let namespace: Option<Namespace> = serde_json::from_slice(&body).ok();
                cluster.uid = namespace.map(|namespace| namespace.metadata.uid);
            }
            // Whoever may not read it may still read what they want to mirror.
            Err(failure)
                if matches!(
                    failure.reason,
                    FailureReason::Forbidden | FailureReason::NotFound
                ) => {}
            Err(failure) => return Err(cluster.complaint(&failure)),
        }
        Ok(cluster)
    }

    /// One question.
    pub async fn get(&self, path: &str) -> Result<Vec<u8>, Failure> {
        let deadline = Instant::now() + DEADLINE;
        let incoming = api_read::get(&self.client, path, "application/json", deadline).await?;
        incoming.whole(deadline, LIMIT).await
    }

    /// Whether a namespace exists, as far as that may be known.
    pub async fn check_namespace(&self, name: &str) -> Result<(), Complaint> {
        // It becomes part of a path.
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let unknown = || {
            Complaint::new(
                Exit::NoSuchNamespace,
                format!(
                    "there is no namespace {name:?} in {}: `kubectl get namespaces` lists them",
                    self.name
                ),
            )
        };
        if name.is_empty() || !name.bytes().all(plain) {
            return Err(unknown());
        }
        match self.get(&format!("/api/v1/namespaces/{name}")).await {
            Err(failure) if failure.reason == FailureReason::NotFound => Err(unknown()),
            Err(failure) if failure.reason != FailureReason::Forbidden => {
                Err(self.complaint(&failure))
            }
            _ => Ok(()),
        }
    }

    /// What a failure means for a person.
    #[must_use]
    pub fn complaint(&self, failure: &Failure) -> Complaint {
        let Self { name, config, .. } = self;
        let url = &config.cluster_url;
        match failure.reason {
            FailureReason::Unauthorized => Complaint::new(
                Exit::CredentialsRefused,
                format!(
                    "{name} does not accept your credentials; a token may have expired: log in again, \
                     or choose another --context ({})",
                    failure.message
                ),
            ),
            FailureReason::Unreachable | FailureReason::Timeout | FailureReason::Truncated => {
                Complaint::new(
                    Exit::ClusterUnreachable,
                    format!(
                        "{name} does not answer at {url}: check that it runs and that the network \
                         reaches it, or choose another --context ({})",
                        failure.message
                    ),
                )
            }
            _ => Complaint::failed(format!("{name}: {}", failure.message)),
        }
    }
}

/// Where kubectl would look, and then the pod that this runs in.
async fn configuration(arguments: &ClusterArguments) -> Result<(kube::Config, String), Complaint> {
    let ClusterArguments {
        kubeconfig,
        context,
    } = arguments;
    let read = match kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    let none = |why: &dyn std::fmt::Display| {
        Complaint::new(
            Exit::NoKubeconfig,
            format!(
                "there is no kubeconfig that can be used: name one with --kubeconfig or KUBECONFIG, or \
                 let your cluster's tool write ~/.kube/config ({why})"
            ),
        )
    };
    let file = match read {
        Ok(file) => file,
        Err(error) if kubeconfig.is_none() && context.is_none() => {
            let pod = kube::Config::incluster().map_err(|_| none(&error))?;
            return Ok((pod, "this cluster".to_owned()));
        }
        Err(error) => return Err(none(&error)),
    };
    let known: Vec<String> = file.contexts.iter().map(|one| one.name.clone()).collect();
    let name = context.clone().or_else(|| file.current_context.clone());
    let name = name.filter(|name| !name.is_empty()).ok_or_else(|| {
        Complaint::new(
            Exit::NoSuchContext,
            format!(
                "the kubeconfig has no current context: write --context with {}",
                list(&known)
            ),
        )
    })?;
    if !known.contains(&name) {
        return Err(Complaint::new(
            Exit::NoSuchContext,
            format!(
                "the kubeconfig has no context {name:?}: write --context with {}",
                list(&known)
            ),
        ));
    }
    let options = KubeConfigOptions {
        context: Some(name.clone()),
        ..KubeConfigOptions::default()
    };
    let config = kube::Config::from_custom_kubeconfig(file, &options)
        .await
        .map_err(|error: KubeconfigError| none(&error))?;
    Ok((config, format!("context {name}")))
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        "the name of a context; there is none yet".to_owned()
    } else {
        names.join(" or ")
    }
}
