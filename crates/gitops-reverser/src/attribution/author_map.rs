//! The ConfigMap in which an administrator writes down real names and addresses.

use std::fmt;
use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use reverser_core::author::AuthorMap;

use crate::api_read::describe;
use crate::telemetry::Telemetry;
use crate::telemetry::facts::{AuthorMapRead, ConfigurationUnreadable};

/// Where the ConfigMap is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorMapName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for AuthorMapName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Tells what the ConfigMap says whenever that changes. While it is not there it says nothing.
pub async fn follow(
    client: Client,
    at: AuthorMapName,
    telemetry: Telemetry,
    tell: impl Fn(Arc<AuthorMap>),
) {
    let api: Api<ConfigMap> = Api::namespaced(client, &at.namespace);
    let only = watcher::Config::default().fields(&format!("metadata.name={}", at.name));
    let mut events = std::pin::pin!(watcher(api, only).default_backoff());
    let mut listed = None;
    while let Some(event) = events.next().await {
        let map = match event {
            Ok(watcher::Event::Init) => {
                listed = None;
                continue;
            }
            Ok(watcher::Event::InitApply(map)) => {
                listed = Some(map);
                continue;
            }
            Ok(watcher::Event::InitDone) => listed.take(),
            Ok(watcher::Event::Apply(map)) => Some(map),
            Ok(watcher::Event::Delete(_)) => None,
            // What was read stays; an error is followed by a new list.
            Err(error) => {
                telemetry.emit(ConfigurationUnreadable {
                    what: &format!("ConfigMap {at}"),
                    reason: &describe(&error),
                    cure: "; authors' names stay as they were",
                });
                continue;
            }
        };
        let (authors, bad) = read(map.as_ref());
        telemetry.emit(AuthorMapRead {
            from: &at.to_string(),
            users: authors.len(),
            bad: &bad,
        });
        tell(Arc::new(authors));
    }
}

/// Every entry of the ConfigMap counts, in the order of their keys.
fn read(map: Option<&ConfigMap>) -> (AuthorMap, Vec<String>) {
    let mut authors = AuthorMap::default();
    let mut bad = Vec::new();
    for (key, text) in map.and_then(|map| map.data.as_ref()).into_iter().flatten() {
        let lines = authors.add(text);
        bad.extend(lines.iter().map(|line| format!("{key}, {line}")));
    }
    (authors, bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_counts_and_bad_lines_are_told_with_their_place() {
        let map: ConfigMap = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "authors"},
            "data": {"people": "alice = Alice <a@example.com>\nbob\n", "robots": "ci = <ci@example.com>"},
        }))
        .unwrap();
        let (authors, bad) = read(Some(&map));
        assert_eq!(authors.len(), 2);
        assert_eq!(bad, ["people, line 2: write `user = Real Name <address>`"]);
        assert!(read(None).0.is_empty());
    }
}
