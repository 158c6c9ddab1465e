//! The file by which a folder says whose it is.
//!
//! It looks like a Kubernetes object, and is marked so that kustomize, Flux and Argo CD pass over it.
//! It is no object's file: nothing here or in the planner ever deletes it.

use crate::blob_id::BlobId;
use crate::commit_message::Installation;
use crate::manifest_yaml::to_yaml;
use crate::value::{Map, Value};
use crate::yaml_read;

/// Where it is, below the folder of a destination.
pub const OWNER_MARKER: &str = ".configbutler/owner.yaml";

/// Argo CD reads this comment, wherever it stands.
const FIRST_LINE: &str = "# +argocd:skip-file-rendering\n";
const API_VERSION: &str = "configbutler.ai/v1alpha1";
const KIND: &str = "OwnerMarker";

/// Whose a folder is, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerMarker {
    /// The installation that writes it.
    pub owner: Installation,
    /// When it was written, for people.
    pub created: String,
}

/// What a folder's marker means to an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// Nobody has marked it.
    Unmarked,
    /// It is ours.
    Ours,
    /// It is another's.
    Foreign(ForeignOwner),
}

/// Another installation, as far as its marker can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignOwner {
    /// The same as long as the marker is the same: what a person writes who takes the folder over.
    pub id: String,
    /// Who it is, for people.
    pub owner: String,
    /// Who it is; nothing where its mark cannot be read.
    pub installation: Option<Installation>,
    /// Whether it lives in another cluster, which counts also where nobody can tell.
    pub other_cluster: bool,
}

impl OwnerMarker {
    /// The file.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        let Installation {
            cluster_uid,
            controller_namespace,
            controller_name,
            instance_id,
        } = &self.owner;
        let annotations = map([("config.kubernetes.io/local-config", text("true"))]);
        let metadata = map([("annotations", annotations), ("name", text("owner"))]);
        let spec = map([
            ("clusterUID", text(cluster_uid)),
            ("controllerName", text(controller_name)),
            ("controllerNamespace", text(controller_namespace)),
            ("createdAt", text(&self.created)),
            ("instanceID", text(instance_id)),
        ]);
        let document = map([
            ("apiVersion", text(API_VERSION)),
            ("kind", text(KIND)),
            ("metadata", metadata),
            ("spec", spec),
        ]);
        format!("{FIRST_LINE}{}", to_yaml(&document))
    }

    /// Reads a file; nothing if it is not a marker.
    #[must_use]
    pub fn parse(file: &str) -> Option<Self> {
        let document = yaml_read::read(file).ok()?;
        let document = document.as_map()?;
        if document.text("apiVersion")? != API_VERSION || document.text("kind")? != KIND {
            return None;
        }
        let spec = document.get("spec")?.as_map()?;
        let field = |name| spec.text(name).map(str::to_owned);
        Some(Self {
            owner: Installation {
                cluster_uid: field("clusterUID")?,
                controller_namespace: field("controllerNamespace")?,
                controller_name: field("controllerName")?,
                instance_id: field("instanceID")?,
            },
            created: field("createdAt").unwrap_or_default(),
        })
    }
}

impl Ownership {
    /// What a file means to an installation.
    #[must_use]
    pub fn of(file: &[u8], ours: &Installation) -> Self {
        let marker = std::str::from_utf8(file).ok().and_then(OwnerMarker::parse);
        let mut id = BlobId::of(file).to_string();
        id.truncate(16);
        Self::Foreign(match marker {
            Some(marker) if marker.owner == *ours => return Self::Ours,
            Some(OwnerMarker { owner, .. }) => ForeignOwner {
                id,
                owner: describe(&owner),
                other_cluster: owner.cluster_uid != ours.cluster_uid,
                installation: Some(owner),
            },
            None => ForeignOwner {
                id,
                owner: "somebody whose mark cannot be read".to_owned(),
                other_cluster: true,
                installation: None,
            },
        })
    }
}

/// A person needs to find the installation; nobody wrote these but an operator, or somebody who may
/// write to the repository, so that they are shown with limits.
fn describe(owner: &Installation) -> String {
    let Installation {
        cluster_uid,
        controller_namespace,
        controller_name,
        instance_id,
    } = owner;
    let plain = |text: &str| -> String {
        let printable = text.chars().filter(|c| !c.is_control());
        printable.take(63).collect()
    };
    format!(
        "the installation {} ({}/{}) of the cluster {}",
        plain(instance_id),
        plain(controller_namespace),
        plain(controller_name),
        plain(cluster_uid)
    )
}

fn text(text: &str) -> Value<'_> {
    Value::String(text.into())
}

fn map<'a, const N: usize>(entries: [(&'a str, Value<'a>); N]) -> Value<'a> {
    let mut map = Map::default();
    for (key, value) in entries {
        map.insert(key, value);
    }
    Value::Map(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installation(cluster: &str, instance: &str) -> Installation {
        Installation {
            cluster_uid: cluster.to_owned(),
            controller_namespace: "gitops-reverser-system".to_owned(),
            controller_name: "gitops-reverser".to_owned(),
            instance_id: instance.to_owned(),
        }
    }

    fn marker(owner: Installation) -> OwnerMarker {
        OwnerMarker {
            owner,
            created: "2026-11-16T00:00:00Z".to_owned(),
        }
    }

    #[test]
    fn a_marker_reads_like_an_object_that_others_pass_over() {
        let file = marker(installation("0f1e", "on")).to_yaml();
        assert_eq!(
            file,
            "# +argocd:skip-file-rendering\n\
             apiVersion: configbutler.ai/v1alpha1\n\
             kind: OwnerMarker\n\
             metadata:\n\
             \x20 annotations:\n\
             \x20   config.kubernetes.io/local-config: \"true\"\n\
             \x20 name: owner\n\
             spec:\n\
             \x20 clusterUID: \"0f1e\"\n\
             \x20 controllerName: gitops-reverser\n\
             \x20 controllerNamespace: gitops-reverser-system\n\
             \x20 createdAt: \"2026-11-16T00:00:00Z\"\n\
             \x20 instanceID: \"on\"\n"
        );
        assert_eq!(
            OwnerMarker::parse(&file),
            Some(marker(installation("0f1e", "on")))
        );
    }

    #[test]
    fn a_folder_is_ours_another_installations_or_another_clusters() {
        let ours = installation("here", "one");
        let file = |owner| marker(owner).to_yaml().into_bytes();
        assert_eq!(Ownership::of(&file(ours.clone()), &ours), Ownership::Ours);
        let foreign = |file: &[u8]| match Ownership::of(file, &ours) {
            Ownership::Foreign(owner) => owner,
            other => panic!("{other:?}"),
        };
        let neighbour = foreign(&file(installation("here", "two")));
        assert!(!neighbour.other_cluster && neighbour.owner.contains("installation two"));
        let elsewhere = foreign(&file(installation("there", "one")));
        assert!(elsewhere.other_cluster && elsewhere.id != neighbour.id);
    }

    #[test]
    fn what_cannot_be_read_is_not_ours_and_does_no_harm() {
        let ours = installation("here", "one");
        for file in [
            &b""[..],
            b"\xff\xfe",
            b"{",
            b"kind: OwnerMarker",
            b"apiVersion: configbutler.ai/v1alpha1\nkind: OwnerMarker\nspec: 1\n",
        ] {
            assert!(
                matches!(Ownership::of(file, &ours), Ownership::Foreign(_)),
                "{file:?}"
            );
        }
        let loud = installation("\u{7}there", &"x".repeat(10_000));
        let file = marker(loud).to_yaml();
        match Ownership::of(file.as_bytes(), &ours) {
            Ownership::Foreign(owner) => assert!(owner.owner.len() < 400, "{owner:?}"),
            other => panic!("{other:?}"),
        }
    }
}
