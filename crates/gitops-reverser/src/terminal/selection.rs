//! From flags about objects to the configuration that the operator would follow: one repository, one
//! destination, and the rules that send objects there.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use reverser_api::access_policy::{
    DestinationAccessPolicy, NamespaceMode, NamespacedRules, RepoAccessPolicy,
};
use reverser_api::cluster_watch_rule::{
    ClusterDestinationReference, ClusterResourceRule, ClusterWatchRuleSpec, Scope,
};
use reverser_api::git_destination::{
    ACKNOWLEDGE_MASS_DELETE, GitDestinationSpec, Prune, RepoReference, Secrets, SecretsMode,
};
use reverser_api::git_repo_config::GitRepoConfigSpec;
use reverser_api::watch_rule::{DestinationReference, ResourceRule, WatchRuleSpec};
use reverser_api::{ClusterWatchRule, GitDestination, GitRepoConfig, WatchRule};
use tokio::sync::watch;

use super::cluster::Cluster;
use super::exit::{Complaint, Exit};
use super::repository::Repository;
use super::{label_text, redaction_key};
use crate::command_line::SelectionArguments;
use crate::identity::Id;
use crate::operator::KeySource;
use crate::routing::Configuration;

/// What objects flags select.
#[derive(Debug, Clone)]
pub struct Selection {
    /// The namespaces; nothing means all, and what lives in none.
    pub namespaces: Option<Vec<String>>,
    include: Vec<String>,
    /// Types that are left out.
    pub exclude: Vec<String>,
    selector: Option<LabelSelector>,
    secrets: SecretsMode,
    key: std::path::PathBuf,
}

impl Selection {
    /// Reads the flags; namespaces that are named must exist.
    pub async fn read(
        arguments: &SelectionArguments,
        cluster: &Cluster,
    ) -> Result<Self, Complaint> {
        let SelectionArguments {
            namespace,
            all_namespaces,
            include,
            exclude,
            selector,
            secrets,
            redaction_key,
        } = arguments;
        let namespaces = if *all_namespaces {
            None
        } else if namespace.is_empty() {
            Some(vec![cluster.config.default_namespace.clone()])
        } else {
            Some(namespace.clone())
        };
        let checks = namespaces.iter().flatten();
        futures::future::try_join_all(checks.map(|name| cluster.check_namespace(name))).await?;
        let selector = selector.as_deref().map(label_text::parse).transpose();
        let selector = selector.map_err(|part| {
            let sentence = format!(
                "--selector: {part:?} is not understood; write for instance app=web or env in (a,b)"
            );
            Complaint::new(Exit::Usage, sentence)
        })?;
        Ok(Self {
            namespaces,
            include: include.clone(),
            exclude: exclude.clone(),
            selector,
            secrets: secrets.map_or(SecretsMode::Redact, Into::into),
            key: redaction_key
                .clone()
                .unwrap_or_else(redaction_key::default_path),
        })
    }

    /// The key of redacted Secrets.
    #[must_use]
    pub fn key_source(&self) -> KeySource {
        redaction_key::in_file(self.key.clone())
    }

    /// What a person calls it.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.namespaces {
            None => "all namespaces".to_owned(),
            Some(names) if names.len() == 1 => format!("namespace {}", names[0]),
            Some(names) => format!("namespaces {}", names.join(", ")),
        }
    }

    /// The one destination of the configuration.
    #[must_use]
    pub fn destination() -> Id {
        Id::new("", "mirror")
    }

    /// What an operator would be told to mirror the same.
    #[must_use]
    pub fn configuration(
        &self,
        repository: &Repository,
        acknowledged: Option<&str>,
    ) -> Configuration {
        let id = Self::destination();
        let everybody = NamespacedRules {
            mode: NamespaceMode::AllNamespaces,
            namespace_selector: None,
        };
        let repo = GitRepoConfig::new(
            &id.name,
            GitRepoConfigSpec {
                repo_url: repository.url.as_str().to_owned(),
                allowed_branches: vec!["**".to_owned()],
                secret_ref: None,
                push: None,
                access_policy: RepoAccessPolicy {
                    namespaced_rules: everybody.clone(),
                    allow_cluster_rules: true,
                },
                commit: None,
            },
        );
        let mut destination = GitDestination::new(
            &id.name,
            GitDestinationSpec {
                repo_ref: RepoReference {
                    name: id.name.clone(),
                    namespace: None,
                },
                branch: repository.branch.as_str().to_owned(),
                base_folder: repository.folder.to_string(),
                access_policy: DestinationAccessPolicy {
                    namespaced_rules: everybody,
                    allow_cluster_rules: Some(true),
                },
                exclusive_mode: false,
                secrets: Some(Secrets {
                    mode: Some(self.secrets),
                }),
                prune: Prune::default(),
                ignore: None,
                suspend: false,
            },
        );
        destination.metadata.annotations = acknowledged
            .map(|id| BTreeMap::from([(ACKNOWLEDGE_MASS_DELETE.to_owned(), id.to_owned())]));
        let mut configuration = Configuration::default();
        configuration.repos.insert(id.clone(), Arc::new(repo));
        configuration
            .destinations
            .insert(id.clone(), Arc::new(destination));
        self.add_rules(&mut configuration, &id);
        configuration
    }

    fn add_rules(&self, configuration: &mut Configuration, to: &Id) {
        let types = ResourceRule {
            resources: self.include.clone(),
            ..ResourceRule::default()
        };
        let Some(namespaces) = &self.namespaces else {
            let part = |scope| ClusterResourceRule {
                scope,
                namespace_selector: None,
                selection: types.clone(),
            };
            let spec = ClusterWatchRuleSpec {
                destination_ref: ClusterDestinationReference {
                    name: to.name.clone(),
                    namespace: to.namespace.clone(),
                },
                object_selector: self.selector.clone(),
                rules: vec![part(Scope::Cluster), part(Scope::Namespaced)],
            };
            let rule = ClusterWatchRule::new(&to.name, spec);
            configuration
                .cluster_rules
                .insert(to.name.clone(), Arc::new(rule));
            return;
        };
        for namespace in namespaces {
            let spec = WatchRuleSpec {
                destination_ref: DestinationReference {
                    name: to.name.clone(),
                    namespace: Some(to.namespace.clone()),
                },
                object_selector: self.selector.clone(),
                rules: vec![types.clone()],
            };
            let rule = WatchRule::new(&to.name, spec);
            configuration
                .watch_rules
                .insert(Id::new(namespace, &to.name), Arc::new(rule));
        }
    }

    /// Tells the configuration, and again when namespaces come and go. Whoever may not list them is
    /// told that there are none that are known.
    pub async fn follow(
        self,
        client: Client,
        configuration: Configuration,
        told: watch::Sender<Option<Arc<Configuration>>>,
    ) {
        if self.namespaces.is_some() {
            let _ = told.send(Some(Arc::new(configuration)));
            return told.closed().await;
        }
        follow_namespaces(client, configuration, told).await;
    }
}

/// Completes a configuration with the namespaces of the cluster, as they come and go.
pub(crate) async fn follow_namespaces(
    client: Client,
    mut configuration: Configuration,
    told: watch::Sender<Option<Arc<Configuration>>>,
) {
    let api: Api<PartialObjectMeta<Namespace>> = Api::all(client);
    let mut events = watcher(api, watcher::Config::default())
        .default_backoff()
        .boxed();
    let mut listing = BTreeMap::new();
    loop {
        match events.try_next().await {
            Ok(None) => return,
            Ok(Some(watcher::Event::Init)) => {
                listing.clear();
                continue;
            }
            Ok(Some(watcher::Event::InitApply(namespace))) => {
                listing.insert(namespace.name_any(), namespace.labels().clone());
                continue;
            }
            Ok(Some(watcher::Event::InitDone)) => {
                configuration.namespaces = std::mem::take(&mut listing);
            }
            Ok(Some(watcher::Event::Apply(namespace))) => {
                let labels = namespace.labels().clone();
                configuration
                    .namespaces
                    .insert(namespace.name_any(), labels);
            }
            Ok(Some(watcher::Event::Delete(namespace))) => {
                configuration.namespaces.remove(&namespace.name_any());
            }
            Err(_) if told.borrow().is_some() => continue,
            Err(_) => {}
        }
        if told.send(Some(Arc::new(configuration.clone()))).is_err() {
            return;
        }
    }
}
