//! The ValidatingWebhookConfiguration as it should be: the types that are watched, where they are
//! watched, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    RuleWithOperations, ServiceReference, ValidatingWebhook, ValidatingWebhookConfiguration,
    WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    LabelSelector, LabelSelectorRequirement, OwnerReference,
};
use kube::core::ObjectMeta;
use reverser_core::catalogue::ServedType;
use reverser_core::labels::Labels;
use reverser_core::selection::Reach;

use super::handler::PATH;
use crate::owner_role::belong_to;
use crate::routing::{Need, Routing};

/// The label that every namespace has, with its own name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// Where the cluster keeps itself.
const KUBE_SYSTEM: &str = "kube-system";
/// No write waits longer for us.
const TIMEOUT_SECONDS: i32 = 2;
/// Of those that are watched everywhere.
const EVERYWHERE: &str = "authors.configbutler.ai";
/// Of those that are watched in some namespaces only.
const SOME_NAMESPACES: &str = "namespace-authors.configbutler.ai";
/// What is written every few seconds by machines, and mirrored by nobody.
const NEVER: &[(&str, &str)] = &[
    ("coordination.k8s.io", "leases"),
    ("events.k8s.io", "events"),
    ("", "events"),
];
/// How cert-manager learns whose authority to write.
pub(super) const INJECT_ANNOTATION: &str = "cert-manager.io/inject-ca-from";

/// The types that are watched, and where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Watched {
    everywhere: Vec<WatchedType>,
    in_some: Vec<WatchedType>,
    /// The namespaces of the latter.
    namespaces: BTreeSet<String>,
    /// Whether a rule selects objects in `kube-system`.
    kube_system: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct WatchedType {
    group: String,
    version: String,
    resource: String,
    namespaced: bool,
    scale: bool,
}

impl Watched {
    /// What the rules need.
    #[must_use]
    pub fn of(routing: &Routing, namespaces: &BTreeMap<String, Labels>) -> Self {
        let mut watched = Self::default();
        for need in routing.needs.values() {
            let Need {
                served,
                namespaces: places,
                routes,
            } = need;
            let kind = (served.key.group(), served.key.resource());
            if NEVER.contains(&kind) {
                continue;
            }
            let kube_system = namespaces.get(KUBE_SYSTEM);
            watched.kube_system |= routes.iter().any(|route| match &route.part.reach {
                Reach::Namespace(name) => name == KUBE_SYSTEM,
                Reach::Namespaces(selector) => kube_system.is_some_and(|labels| {
                    selector.selects(|label| labels.get(label).map(String::as_str))
                }),
                Reach::Cluster => false,
            });
            match places {
                None => watched.everywhere.push(WatchedType::of(served)),
                Some(places) => {
                    watched.in_some.push(WatchedType::of(served));
                    watched.namespaces.extend(places.iter().cloned());
                }
            }
        }
        watched
    }

    /// Whether the whole life of namespaces is watched.
    fn has_namespaces(&self) -> bool {
        let kind =
            |watched: &WatchedType| watched.group.is_empty() && watched.resource == "namespaces";
        self.everywhere.iter().any(kind)
    }

    /// How many types there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.everywhere.len() + self.in_some.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl WatchedType {
    fn of(served: &ServedType) -> Self {
        Self {
            group: served.key.group().to_owned(),
            version: served.key.version().to_owned(),
            resource: served.key.resource().to_owned(),
            namespaced: served.namespaced,
            scale: served.scale,
        }
    }

    /// Its version exactly, so that what is asked is what is watched.
    fn rule(&self) -> RuleWithOperations {
        let mut resources = vec![self.resource.clone()];
        if self.scale {
            resources.push(format!("{}/scale", self.resource));
        }
        let scope = if self.namespaced {
            "Namespaced"
        } else {
            "Cluster"
        };
        let operations = ["CREATE", "UPDATE", "DELETE"].map(str::to_owned);
        RuleWithOperations {
            api_groups: Some(vec![self.group.clone()]),
            api_versions: Some(vec![self.version.clone()]),
            operations: Some(operations.to_vec()),
            resources: Some(resources),
            scope: Some(scope.to_owned()),
        }
    }
}

/// Whoever deletes a namespace is behind the deletion of everything in it, which is the namespace
/// controller's work. A namespace counts as being in itself, so this is asked about few of them.
fn deletion_of_namespaces() -> RuleWithOperations {
    RuleWithOperations {
        api_groups: Some(vec![String::new()]),
        api_versions: Some(vec!["v1".to_owned()]),
        operations: Some(vec!["DELETE".to_owned()]),
        resources: Some(vec!["namespaces".to_owned()]),
        scope: Some("Cluster".to_owned()),
    }
}

/// Where the API server finds us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A URL, outside of the cluster.
    Url(String),
    /// A Service.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// By what the API server trusts us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trust {
    /// By these authorities, in PEM.
    Authorities(String),
    /// By what cert-manager writes, for this Certificate (`namespace/name`).
    Injected(String),
    /// By the authorities that it trusts anyway.
    System,
}

/// What does not change while the operator runs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Frame {
    /// The name of the configuration.
    pub(super) name: String,
    /// Where the API server finds us.
    pub(super) endpoint: Endpoint,
    /// The namespace of the operator, of which nothing is asked.
    pub(super) own_namespace: String,
    /// Who takes the configuration along when it goes.
    pub(super) owner: Option<OwnerReference>,
}

/// The configuration as it should be. `live` is the one that exists: what others wrote into it that
/// is theirs to write stays.
#[must_use]
pub(super) fn wanted(
    frame: &Frame,
    watched: &Watched,
    trust: &Trust,
    live: Option<&ValidatingWebhookConfiguration>,
) -> ValidatingWebhookConfiguration {
    let Frame {
        name,
        endpoint,
        own_namespace,
        owner,
    } = frame;
    let mut metadata = live.map_or_else(ObjectMeta::default, |live| live.metadata.clone());
    metadata.name = Some(name.clone());
    let labels = metadata.labels.get_or_insert_default();
    labels.insert(
        "app.kubernetes.io/managed-by".to_owned(),
        "gitops-reverser".to_owned(),
    );
    if let Trust::Injected(certificate) = trust {
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(INJECT_ANNOTATION.to_owned(), certificate.clone());
    }
    if let Some(owner) = owner {
        belong_to(&mut metadata, owner);
    }
    let webhook = |name: &str, types: &[WatchedType], namespaces: LabelSelectorRequirement| {
        let bundle = match trust {
            Trust::Authorities(pem) => Some(ByteString(pem.clone().into_bytes())),
            Trust::Injected(_) => live_bundle(live, name),
            Trust::System => None,
        };
        let mut rules: Vec<_> = types.iter().map(WatchedType::rule).collect();
        if types.iter().any(|one| one.namespaced) && !watched.has_namespaces() {
            rules.push(deletion_of_namespaces());
        }
        ValidatingWebhook {
            name: name.to_owned(),
            admission_review_versions: vec!["v1".to_owned()],
            client_config: client_config(endpoint, bundle),
            failure_policy: Some("Ignore".to_owned()),
            match_policy: Some("Equivalent".to_owned()),
            namespace_selector: Some(LabelSelector {
                match_expressions: Some(vec![namespaces]),
                match_labels: None,
            }),
            object_selector: Some(LabelSelector::default()),
            rules: Some(rules),
            side_effects: "NoneOnDryRun".to_owned(),
            timeout_seconds: Some(TIMEOUT_SECONDS),
            match_conditions: None,
        }
    };
    let mut webhooks = Vec::new();
    let mut left_out = vec![own_namespace.clone()];
    if !watched.kube_system && own_namespace != KUBE_SYSTEM {
        left_out.push(KUBE_SYSTEM.to_owned());
    }
    if !watched.everywhere.is_empty() {
        let elsewhere = namespace("NotIn", left_out);
        webhooks.push(webhook(EVERYWHERE, &watched.everywhere, elsewhere));
    }
    let places: Vec<String> = watched
        .namespaces
        .iter()
        .filter(|place| *place != own_namespace)
        .cloned()
        .collect();
    if !watched.in_some.is_empty() && !places.is_empty() {
        let there = namespace("In", places);
        webhooks.push(webhook(SOME_NAMESPACES, &watched.in_some, there));
    }
    ValidatingWebhookConfiguration {
        metadata,
        webhooks: (!webhooks.is_empty()).then_some(webhooks),
    }
}

fn namespace(operator: &str, names: Vec<String>) -> LabelSelectorRequirement {
    LabelSelectorRequirement {
        key: NAMESPACE_NAME.to_owned(),
        operator: operator.to_owned(),
        values: Some(names),
    }
}

fn client_config(endpoint: &Endpoint, ca_bundle: Option<ByteString>) -> WebhookClientConfig {
    let (service, url) = match endpoint {
        Endpoint::Url(url) => (None, Some(url.clone())),
        Endpoint::Service { namespace, name } => {
            let service = ServiceReference {
                namespace: namespace.clone(),
                name: name.clone(),
                path: Some(PATH.to_owned()),
                port: Some(443),
            };
            (Some(service), None)
        }
    };
    WebhookClientConfig {
        ca_bundle,
        service,
        url,
    }
}

/// What another has written there already.
fn live_bundle(live: Option<&ValidatingWebhookConfiguration>, name: &str) -> Option<ByteString> {
    let webhooks = live?.webhooks.as_ref()?;
    let found = webhooks.iter().find(|webhook| webhook.name == name);
    // Those of one configuration have the same.
    let webhook = found.or_else(|| webhooks.first())?;
    webhook.client_config.ca_bundle.clone()
}

/// Whether the API server can use it: it knows whom to trust.
#[must_use]
pub(super) fn is_complete(configuration: &ValidatingWebhookConfiguration, trust: &Trust) -> bool {
    let mut webhooks = configuration.webhooks.iter().flatten().peekable();
    webhooks.peek().is_some()
        && (*trust == Trust::System
            || webhooks.all(|webhook| webhook.client_config.ca_bundle.is_some()))
}

#[cfg(test)]
mod tests;
