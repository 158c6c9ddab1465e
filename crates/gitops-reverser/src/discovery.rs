//! What the cluster serves, found out in a way that a failing group does not spoil.
//!
//! ## Expected flow
//! `/api` and `/apis` are asked for aggregated documents; a server that does not have them answers
//! with names, and each version of each group is asked for by itself. [`discover`] is called at
//! start, now and then, and when a CustomResourceDefinition or an APIService changed; what it finds
//! is compared with what was known.
//!
//! ## Guarantees
//! - A version of a group that fails, or whose server does not answer (`Stale`), keeps the types
//!   that were known of it, and is named in [`Discovered::failed_groups`].
//! - An answer that is missing, broken or empty changes nothing: it is an error.
//!
//! ## Caveats
//! A group that is not named any more is gone from the catalogue. That is no proof that its objects
//! are gone: an API server that just started may not name custom resources yet.

use std::time::Duration;

use futures::StreamExt as _;
use reverser_core::catalogue::{Catalogue, ServedType};
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::api_read::{self, Failure, FailureReason};
use crate::telemetry::spans;

/// The documents as the server writes them; pure.
mod documents;

pub use documents::DocumentError;
use documents::{Group, GroupVersion, Root};

/// Aggregated documents if the server has them, otherwise names; the server takes the first that
/// it knows.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
     application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
const PLAIN: &str = "application/json";
/// A cluster with a thousand types answers within two; a server that asks others, within ten.
const DEADLINE: Duration = Duration::from_secs(30);
/// A thousand custom types are three megabytes.
const LIMIT: usize = 64 * 1024 * 1024;
/// As many as kubectl asks for at a time.
const AT_ONCE: usize = 10;

/// What was found.
#[must_use = "failed groups are to be shown"]
#[derive(Debug)]
pub struct Discovered {
    /// What the cluster serves, with the last known types of groups that failed.
    pub catalogue: Catalogue,
    /// Groups of which not everything could be learnt.
    pub failed_groups: Vec<FailedGroup>,
}

/// A group of which not everything could be learnt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedGroup {
    /// Its name; empty for core.
    pub group: String,
    /// The version that failed.
    pub version: String,
    /// Why.
    pub reason: String,
}

/// Why nothing was found; what was known stays.
#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    /// No answer.
    #[error("the API server does not tell what it serves at {path}")]
    Ask {
        /// What was asked for.
        path: String,
        /// Why.
        #[source]
        source: Failure,
    },
    /// An answer that is something else.
    #[error("what the API server answers at {path} is no list of what it serves")]
    Document {
        /// What was asked for.
        path: String,
        /// Why.
        #[source]
        source: DocumentError,
    },
    /// An answer that no API server gives which is well.
    #[error("the API server says that it serves nothing at {path}")]
    Empty {
        /// What was asked for.
        path: String,
    },
}

/// Finds out what the cluster serves. What fails keeps what was known before.
///
/// The client is one of [`api_read::client`]: with retries a group that is down takes long.
pub async fn discover(
    client: &kube::Client,
    known: &Catalogue,
) -> Result<Discovered, DiscoveryError> {
    let both = async { tokio::try_join!(root(client, "/api"), root(client, "/apis")) };
    let (core, groups) = both.instrument(spans::discovery()).await?;
    Ok(merge(core.into_iter().chain(groups), known))
}

async fn root(client: &kube::Client, path: &str) -> Result<Vec<Group>, DiscoveryError> {
    let body = match ask(client, path, AGGREGATED).await {
        // Neither form is known to it, nor that one may choose.
        Err(failure) if failure.reason == FailureReason::Refused(406) => {
            ask(client, path, PLAIN).await
        }
        answer => answer,
    };
    let body = body.map_err(|source| DiscoveryError::Ask {
        path: path.to_owned(),
        source,
    })?;
    let root = documents::read_root(&body).map_err(|source| DiscoveryError::Document {
        path: path.to_owned(),
        source,
    })?;
    let groups = match root {
        Root::Aggregated(groups) => groups,
        Root::Names(names) => one_by_one(client, path, names).await,
    };
    if groups.is_empty() {
        return Err(DiscoveryError::Empty {
            path: path.to_owned(),
        });
    }
    Ok(groups)
}

async fn one_by_one(
    client: &kube::Client,
    path: &str,
    names: Vec<documents::GroupNames>,
) -> Vec<Group> {
    // A group that does not answer holds up only itself.
    futures::stream::iter(names)
        .map(|names| group_of(client, path, names))
        .buffered(AT_ONCE)
        .collect()
        .await
}

async fn group_of(
    client: &kube::Client,
    path: &str,
    documents::GroupNames { name, versions }: documents::GroupNames,
) -> Group {
    let place = if name.is_empty() {
        path.to_owned()
    } else {
        format!("{path}/{name}")
    };
    let versions = futures::stream::iter(versions.into_iter().enumerate())
        .map(|(at, version)| version_of(client, &place, &name, version, at == 0))
        .buffered(AT_ONCE)
        .collect()
        .await;
    Group { name, versions }
}

async fn version_of(
    client: &kube::Client,
    place: &str,
    group: &str,
    version: String,
    preferred: bool,
) -> GroupVersion {
    let read = match ask(client, &format!("{place}/{version}"), PLAIN).await {
        Ok(body) => documents::read_version(&body, group, &version, preferred)
            .map_err(|error| error.to_string()),
        Err(failure) => Err(failure.message),
    };
    read.unwrap_or_else(|doubt| GroupVersion {
        version,
        doubt: Some(doubt),
        types: Vec::new(),
    })
}

async fn ask(client: &kube::Client, path: &str, accept: &'static str) -> Result<Vec<u8>, Failure> {
    let deadline = Instant::now() + DEADLINE;
    let incoming = api_read::get(client, path, accept, deadline).await?;
    incoming.whole(deadline, LIMIT).await
}

/// What is said now, and where it is in doubt, also what was known before.
fn merge(groups: impl Iterator<Item = Group>, known: &Catalogue) -> Discovered {
    let mut types: Vec<ServedType> = Vec::new();
    let mut failed_groups = Vec::new();
    for Group { name, versions } in groups {
        for GroupVersion {
            version,
            doubt,
            types: said,
        } in versions
        {
            types.extend(said);
            if let Some(reason) = doubt {
                // What is named twice counts as it was named first.
                types.extend(last_known(known, &name, &version).cloned());
                failed_groups.push(FailedGroup {
                    group: name.clone(),
                    version,
                    reason,
                });
            }
        }
    }
    Discovered {
        catalogue: Catalogue::from_types(types),
        failed_groups,
    }
}

fn last_known<'a>(
    known: &'a Catalogue,
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = &'a ServedType> {
    known
        .iter()
        .filter(move |served| served.key.group() == group && served.key.version() == version)
}

#[cfg(test)]
mod tests {
    use reverser_core::object_key::TypeKey;

    use super::*;

    fn served(group: &str, version: &str, resource: &str) -> ServedType {
        ServedType {
            key: TypeKey::new(group, version, resource).unwrap(),
            kind: "Kind".to_owned(),
            namespaced: false,
            preferred: true,
            scale: false,
        }
    }

    fn group(name: &str, doubt: Option<&str>, resources: &[&str]) -> Group {
        let types = resources.iter().map(|one| served(name, "v1", one));
        Group {
            name: name.to_owned(),
            versions: vec![GroupVersion {
                version: "v1".to_owned(),
                doubt: doubt.map(str::to_owned),
                types: types.collect(),
            }],
        }
    }

    fn keys(catalogue: &Catalogue) -> Vec<String> {
        let keys = catalogue.iter().map(|served| served.key.to_string());
        keys.collect()
    }

    #[test]
    fn a_doubtful_group_keeps_what_was_known_of_it_and_the_others_follow() {
        let before = [
            group("good", None, &["old", "both"]),
            group("bad", None, &["one", "two"]),
        ];
        let known = merge(before.into_iter(), &Catalogue::default());
        assert!(known.failed_groups.is_empty());
        let now = [
            group("good", None, &["both", "new"]),
            group("bad", Some("down"), &["two", "three"]),
        ];
        let found = merge(now.into_iter(), &known.catalogue);
        assert_eq!(
            keys(&found.catalogue),
            [
                "bad/v1/one",
                "bad/v1/three",
                "bad/v1/two",
                "good/v1/both",
                "good/v1/new"
            ]
        );
        let failed = FailedGroup {
            group: "bad".to_owned(),
            version: "v1".to_owned(),
            reason: "down".to_owned(),
        };
        assert_eq!(found.failed_groups, [failed]);
        // And again: what is kept stays kept.
        let again = merge(
            [group("bad", Some("down"), &[])].into_iter(),
            &found.catalogue,
        );
        assert_eq!(keys(&again.catalogue).len(), 3);
    }

    #[test]
    fn a_group_that_is_not_named_any_more_is_gone() {
        let known = merge(
            [group("a", None, &["x"])].into_iter(),
            &Catalogue::default(),
        );
        let found = merge([group("b", None, &["y"])].into_iter(), &known.catalogue);
        assert_eq!(keys(&found.catalogue), ["b/v1/y"]);
        assert!(found.failed_groups.is_empty());
    }
}
