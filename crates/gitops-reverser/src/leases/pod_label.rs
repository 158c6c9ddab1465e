//! The label by which a Service finds the leader's pod.
//!
//! Only a process that runs in a pod, which says so by `POD_NAME` and `POD_NAMESPACE`, has one.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

use crate::telemetry::Telemetry;
use crate::telemetry::facts::PodLabelFailed;

/// The pod that leads has it, with the value `true`.
const LEADER: &str = "configbutler.ai/leader";
/// Pods that agree in these are of one installation.
const OF_ONE_INSTALLATION: [&str; 2] = ["app.kubernetes.io/name", "app.kubernetes.io/instance"];
/// How soon what failed is tried again.
const RETRY: Duration = Duration::from_secs(2);
/// How often it is made sure that the label is where it belongs.
const AGAIN: Duration = Duration::from_secs(30);
/// A call that hangs must not keep the label from moving.
const DEADLINE: Duration = Duration::from_secs(5);

/// The pod that this process runs in.
#[derive(Clone)]
pub struct OwnPod {
    pods: Api<Pod>,
    name: String,
}

impl OwnPod {
    /// Nothing outside of a pod.
    #[must_use]
    pub fn find(client: Client) -> Option<Self> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let (name, namespace) = (variable("POD_NAME")?, variable("POD_NAMESPACE")?);
        Some(Self {
            pods: Api::namespaced(client, &namespace),
            name,
        })
    }

    /// A container that starts again in a pod that led does not lead.
    pub async fn begin(&self, telemetry: &Telemetry) {
        if let Err(error) = in_time(self.take_off(&self.name)).await {
            telemetry.emit(PodLabelFailed {
                pod: &self.name,
                reason: &error,
            });
        }
    }

    /// Labels this pod and no other of the installation, for as long as this runs.
    pub async fn lead(self, telemetry: Telemetry) {
        loop {
            let wait = match Box::pin(in_time(self.move_label())).await {
                Ok(()) => AGAIN,
                Err(reason) => {
                    telemetry.emit(PodLabelFailed {
                        pod: &self.name,
                        reason: &reason,
                    });
                    RETRY
                }
            };
            tokio::time::sleep(wait).await;
        }
    }

    async fn move_label(&self) -> Result<(), kube::Error> {
        let own = self.pods.get(&self.name).await?;
        if own.labels().get(LEADER).is_none_or(|value| value != "true") {
            self.label(&self.name, Some("true")).await?;
        }
        let selector = others(&own);
        let leaders = self
            .pods
            .list(&ListParams::default().labels(&selector))
            .await?;
        for pod in leaders {
            let name = pod.name_any();
            if name != self.name {
                self.take_off(&name).await?;
            }
        }
        Ok(())
    }

    async fn take_off(&self, pod: &str) -> Result<(), kube::Error> {
        match self.label(pod, None).await {
            // It has gone, and its label with it.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            result => result,
        }
    }

    async fn label(&self, pod: &str, value: Option<&str>) -> Result<(), kube::Error> {
        let patch = json!({"metadata": {"labels": {LEADER: value}}});
        let patch = Patch::Merge(patch);
        let patched = self.pods.patch(pod, &PatchParams::default(), &patch).await;
        patched.map(drop)
    }
}

/// Selects the pods of the same installation that have the label.
fn others(own: &Pod) -> String {
    let mut selector = format!("{LEADER}=true");
    for key in OF_ONE_INSTALLATION {
        match own.labels().get(key) {
            Some(value) => selector.extend([",", key, "=", value]),
            None => selector.extend([",!", key]),
        }
    }
    selector
}

async fn in_time(work: impl Future<Output = Result<(), kube::Error>>) -> Result<(), String> {
    match tokio::time::timeout(DEADLINE, work).await {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("the API server did not answer in time".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn only_pods_of_the_same_installation_lose_the_label() {
        let mut pod = Pod::default();
        assert_eq!(
            others(&pod),
            "configbutler.ai/leader=true,!app.kubernetes.io/name,!app.kubernetes.io/instance"
        );
        pod.metadata.labels = Some(BTreeMap::from([(
            "app.kubernetes.io/instance".to_owned(),
            "prod".to_owned(),
        )]));
        assert!(others(&pod).ends_with(",!app.kubernetes.io/name,app.kubernetes.io/instance=prod"));
    }
}
