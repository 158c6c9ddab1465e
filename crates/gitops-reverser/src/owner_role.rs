//! The ClusterRole of an installation. What the operator makes in the cluster belongs to it, so that all
//! of it goes when the operator is uninstalled.

use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::{ObjectMeta, PartialObjectMeta};
use kube::{Api, Client};

const KIND: &str = "ClusterRole";

/// A ClusterRole by its name.
#[derive(Clone)]
pub struct OwnerRole {
    api: Api<PartialObjectMeta<ClusterRole>>,
    name: String,
}

impl OwnerRole {
    /// The one of this name.
    #[must_use]
    pub fn new(client: Client, name: String) -> Self {
        Self {
            api: Api::all(client),
            name,
        }
    }

    /// As it is now; nothing where it cannot be read. It is asked for each time: whatever names one
    /// that was made anew since would be collected at once.
    pub async fn find(&self) -> Option<OwnerReference> {
        let role = self.api.get_metadata_opt(&self.name).await.ok().flatten()?;
        Some(OwnerReference {
            api_version: "rbac.authorization.k8s.io/v1".to_owned(),
            kind: KIND.to_owned(),
            name: self.name.clone(),
            uid: role.metadata.uid?,
            ..OwnerReference::default()
        })
    }

    /// Whether an object names it, or another one of its name.
    #[must_use]
    pub fn is_named_by(&self, metadata: &ObjectMeta) -> bool {
        let owners = metadata.owner_references.iter().flatten();
        owners
            .into_iter()
            .any(|owner| owner.kind == KIND && owner.name == self.name)
    }
}

/// Names the owner with which an object goes, once. Tells whether that is new.
pub fn belong_to(metadata: &mut ObjectMeta, owner: &OwnerReference) -> bool {
    let owners = metadata.owner_references.get_or_insert_default();
    let is_new = !owners.iter().any(|known| known.uid == owner.uid);
    if is_new {
        // One of the same name that is gone would never be there again.
        owners.retain(|known| (&known.kind, &known.name) != (&owner.kind, &owner.name));
        owners.push(owner.clone());
    }
    is_new
}
