//! The documents in which an API server tells what it serves; bytes in, values out.
//!
//! Aggregated documents (`APIGroupDiscoveryList`, v2 and v2beta1, which look alike) name everything
//! at once. Servers without them answer the same question with a list of groups, and each version
//! of each group has a document of its own. Which of them an answer is stands in its `kind`.

use std::collections::HashSet;

use reverser_core::catalogue::ServedType;
use reverser_core::object_key::{KeyError, TypeKey};
use serde::Deserialize;

/// The answer to `/api` or `/apis`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Root {
    /// Everything at once.
    Aggregated(Vec<Group>),
    /// Only names: each version is to be asked for.
    Names(Vec<GroupNames>),
}

/// A group with all that it serves.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// Its name; empty for core.
    pub(super) name: String,
    /// Its versions, the preferred one first.
    pub(super) versions: Vec<GroupVersion>,
}

/// One version of a group.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GroupVersion {
    /// For instance `v1`.
    pub(super) version: String,
    /// Why what it serves cannot be taken for all that it serves.
    pub(super) doubt: Option<String>,
    /// What can be listed and watched.
    pub(super) types: Vec<ServedType>,
}

/// A group whose versions have documents of their own.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GroupNames {
    /// Its name; empty for core.
    pub(super) name: String,
    /// Its versions, the preferred one first.
    pub(super) versions: Vec<String>,
}

/// Why an answer is no such document.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// Not JSON, or without fields that it must have.
    #[error("cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// Something else.
    #[error("it is of the kind {0:?}")]
    Kind(String),
    /// For another version than was asked for.
    #[error("it is about {0:?}")]
    OtherVersion(String),
}

#[derive(Deserialize)]
struct KindOnly {
    #[serde(default)]
    kind: String,
}

/// Reads the answer to `/api` or `/apis`.
pub(super) fn read_root(body: &[u8]) -> Result<Root, DocumentError> {
    let KindOnly { kind } = serde_json::from_slice(body)?;
    match kind.as_str() {
        "APIGroupDiscoveryList" => {
            let list: wire::GroupDiscoveryList = serde_json::from_slice(body)?;
            let groups = list.items.unwrap_or_default();
            Ok(Root::Aggregated(groups.into_iter().map(group).collect()))
        }
        "APIGroupList" => {
            let list: wire::GroupList = serde_json::from_slice(body)?;
            let groups = list.groups.unwrap_or_default();
            Ok(Root::Names(groups.into_iter().map(names).collect()))
        }
        "APIVersions" => {
            let list: wire::Versions = serde_json::from_slice(body)?;
            let core = GroupNames {
                name: String::new(),
                versions: list.versions,
            };
            // A group without versions is no group.
            let groups = (!core.versions.is_empty()).then_some(core);
            Ok(Root::Names(groups.into_iter().collect()))
        }
        _ => Err(DocumentError::Kind(kind)),
    }
}

/// Reads the document of one version of a group.
pub(super) fn read_version(
    body: &[u8],
    group: &str,
    version: &str,
    preferred: bool,
) -> Result<GroupVersion, DocumentError> {
    let KindOnly { kind } = serde_json::from_slice(body)?;
    if kind != "APIResourceList" {
        return Err(DocumentError::Kind(kind));
    }
    let list: wire::ResourceList = serde_json::from_slice(body)?;
    let asked = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    if list.group_version != asked {
        return Err(DocumentError::OtherVersion(list.group_version));
    }
    let resources = list.resources.unwrap_or_default();
    // These documents name subresources as resources: `pods/log`.
    let scaled: HashSet<String> = resources
        .iter()
        .filter_map(|resource| resource.name.strip_suffix("/scale"))
        .map(str::to_owned)
        .collect();
    let described = resources.into_iter().map(|resource| Described {
        scale: scaled.contains(&resource.name),
        resource: resource.name,
        kind: resource.kind,
        namespaced: resource.namespaced,
        verbs: resource.verbs.unwrap_or_default(),
    });
    Ok(watchable(group, version, preferred, described))
}

fn group(group: wire::GroupDiscovery) -> Group {
    let name = group.metadata.name;
    let versions = group.versions.unwrap_or_default();
    let versions = versions.into_iter().enumerate().map(|(at, version)| {
        let resources = version.resources.unwrap_or_default();
        let described = resources.into_iter().map(|resource| Described {
            resource: resource.resource,
            kind: resource
                .response_kind
                .map(|response| response.kind)
                .unwrap_or_default(),
            namespaced: resource.scope == "Namespaced",
            verbs: resource.verbs.unwrap_or_default(),
            scale: resource
                .subresources
                .iter()
                .flatten()
                .any(|sub| sub.subresource == "scale"),
        });
        let mut read = watchable(&name, &version.version, at == 0, described);
        if version.freshness.as_deref() == Some("Stale") {
            let stale = "the server that serves it does not answer";
            read.doubt.get_or_insert_with(|| stale.to_owned());
        }
        read
    });
    Group {
        versions: versions.collect(),
        name,
    }
}

fn names(group: wire::Group) -> GroupNames {
    let mut versions: Vec<String> = group.versions.into_iter().map(|one| one.version).collect();
    if let Some(preferred) = group.preferred_version {
        // Stable: the others keep their order.
        versions.sort_by_key(|version| *version != preferred.version);
    }
    GroupNames {
        name: group.name,
        versions,
    }
}

/// A resource as either kind of document describes it.
struct Described {
    resource: String,
    kind: String,
    namespaced: bool,
    verbs: Vec<String>,
    scale: bool,
}

/// Those that can be listed and watched. A name that cannot be one is a doubt about its version.
fn watchable(
    group: &str,
    version: &str,
    preferred: bool,
    described: impl Iterator<Item = Described>,
) -> GroupVersion {
    let mut read = GroupVersion {
        version: version.to_owned(),
        doubt: None,
        types: Vec::new(),
    };
    for one in described {
        let can = |verb: &str| one.verbs.iter().any(|known| known == verb);
        if one.resource.contains('/') || !can("list") || !can("watch") {
            continue;
        }
        match served(group, version, preferred, one) {
            Ok(served) => read.types.push(served),
            Err(error) => read.doubt = Some(error.to_string()),
        }
    }
    read
}

fn served(
    group: &str,
    version: &str,
    preferred: bool,
    described: Described,
) -> Result<ServedType, KeyError> {
    let Described {
        resource,
        kind,
        namespaced,
        verbs: _,
        scale,
    } = described;
    Ok(ServedType {
        key: TypeKey::new(group, version, resource)?,
        kind,
        namespaced,
        preferred,
        scale,
    })
}

/// The documents as they are written. Go writes an empty list as `null` or not at all.
mod wire {
    use serde::Deserialize;

    #[derive(Deserialize)]
    pub(super) struct GroupDiscoveryList {
        pub(super) items: Option<Vec<GroupDiscovery>>,
    }

    #[derive(Deserialize)]
    pub(super) struct GroupDiscovery {
        pub(super) metadata: Metadata,
        pub(super) versions: Option<Vec<VersionDiscovery>>,
    }

    #[derive(Deserialize)]
    pub(super) struct Metadata {
        /// Absent for core.
        #[serde(default)]
        pub(super) name: String,
    }

    #[derive(Deserialize)]
    pub(super) struct VersionDiscovery {
        pub(super) version: String,
        pub(super) freshness: Option<String>,
        pub(super) resources: Option<Vec<ResourceDiscovery>>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct ResourceDiscovery {
        pub(super) resource: String,
        pub(super) response_kind: Option<ResponseKind>,
        #[serde(default)]
        pub(super) scope: String,
        pub(super) verbs: Option<Vec<String>>,
        pub(super) subresources: Option<Vec<Subresource>>,
    }

    #[derive(Deserialize)]
    pub(super) struct Subresource {
        #[serde(default)]
        pub(super) subresource: String,
    }

    #[derive(Deserialize)]
    pub(super) struct ResponseKind {
        #[serde(default)]
        pub(super) kind: String,
    }

    #[derive(Deserialize)]
    pub(super) struct GroupList {
        pub(super) groups: Option<Vec<Group>>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct Group {
        pub(super) name: String,
        pub(super) versions: Vec<Version>,
        pub(super) preferred_version: Option<Version>,
    }

    #[derive(Deserialize)]
    pub(super) struct Version {
        pub(super) version: String,
    }

    #[derive(Deserialize)]
    pub(super) struct Versions {
        pub(super) versions: Vec<String>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct ResourceList {
        pub(super) group_version: String,
        pub(super) resources: Option<Vec<Resource>>,
    }

    #[derive(Deserialize)]
    pub(super) struct Resource {
        pub(super) name: String,
        #[serde(default)]
        pub(super) kind: String,
        #[serde(default)]
        pub(super) namespaced: bool,
        pub(super) verbs: Option<Vec<String>>,
    }
}

#[cfg(test)]
mod tests;
