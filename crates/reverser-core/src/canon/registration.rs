//! What controllers complete in objects that register something: webhooks, APIs, roles, namespaces,
//! nodes.

use super::field_owners::Owner;
use super::{AppliesTo, Draft, Rule};
use crate::value::{Map, Value};

pub(super) const INJECTED_CA_BUNDLE: Rule = Rule {
    name: "injected-ca-bundle",
    applies_to: AppliesTo::Kinds(&[
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration",
        ),
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration",
        ),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("apiregistration.k8s.io", "APIService"),
    ]),
    removes: "`caBundle` that a controller injects: asked for by an annotation of cert-manager or OpenShift, or set by a controller that set nothing else there",
    reason: "It is renewed without anybody's doing, and is wrong in another cluster.",
    before: "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: check
  annotations: {cert-manager.io/inject-ca-from: shop/check}
webhooks:
- name: check.example.com
  clientConfig: {caBundle: LS0t, service: {name: check, namespace: shop}}
",
    after: "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: check
  annotations: {cert-manager.io/inject-ca-from: shop/check}
webhooks:
- name: check.example.com
  clientConfig: {service: {name: check, namespace: shop}}
",
    apply: remove_injected_ca_bundles,
};

pub(super) const AGGREGATED_RULES: Rule = Rule {
    name: "aggregated-rules",
    applies_to: AppliesTo::Kinds(&[("rbac.authorization.k8s.io", "ClusterRole")]),
    removes: "`rules` of a ClusterRole with an `aggregationRule`",
    reason: "A controller collects them from other roles, which are mirrored themselves.",
    before: "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: all}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {to: all}}]}
rules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]
",
    after: "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: all}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {to: all}}]}
",
    apply: |draft| {
        if draft
            .root
            .get("aggregationRule")
            .is_some_and(|rule| *rule != Value::Null)
        {
            draft.root.remove("rules");
        }
    },
};

pub(super) const NULL_RULES: Rule = Rule {
    name: "null-rules",
    applies_to: AppliesTo::Kinds(&[
        ("rbac.authorization.k8s.io", "Role"),
        ("rbac.authorization.k8s.io", "ClusterRole"),
    ]),
    removes: "`rules: null` and `rules: []`",
    reason: "The server writes null for a role without rules, however it was written; webhooks are shown it as it was written.",
    before: "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: nothing}, rules: null}",
    after: "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: nothing}}",
    apply: |draft| {
        let rules = draft.root.get("rules");
        if rules.is_some_and(|rules| *rules == Value::Null || *rules == Value::List(Vec::new())) {
            draft.root.remove("rules");
        }
    },
};

pub(super) const NAMESPACE_FINALIZERS: Rule = Rule {
    name: "namespace-finalizers",
    applies_to: AppliesTo::Kinds(&[("", "Namespace")]),
    removes: "`spec.finalizers` of a Namespace",
    reason: "The server sets it on every Namespace.",
    before: "{apiVersion: v1, kind: Namespace, metadata: {name: shop}, spec: {finalizers: [kubernetes]}}",
    after: "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}",
    apply: |draft| draft.prune(&["spec"], |key, _| key == "finalizers"),
};

pub(super) const NAMESPACE_NAME_LABEL: Rule = Rule {
    name: "namespace-name-label",
    applies_to: AppliesTo::Kinds(&[("", "Namespace")]),
    removes: "the label `kubernetes.io/metadata.name`",
    reason: "The server sets it on every Namespace.",
    before: "
apiVersion: v1
kind: Namespace
metadata:
  name: shop
  labels: {kubernetes.io/metadata.name: shop}
",
    after: "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}",
    apply: |draft| {
        draft.prune(&["metadata", "labels"], |key, _| {
            key == "kubernetes.io/metadata.name"
        });
    },
};

pub(super) const NODE_STATE_TAINTS: Rule = Rule {
    name: "node-state-taints",
    applies_to: AppliesTo::Kinds(&[("", "Node")]),
    removes: "taints by which controllers show the state of a Node; none of anybody else",
    reason: "They come and go with the state. A cordoned Node has `spec.unschedulable`, which stays.",
    before: "
apiVersion: v1
kind: Node
metadata: {name: node-3}
spec:
  taints:
  - {key: node.kubernetes.io/not-ready, effect: NoSchedule}
  - {key: example.com/gpu, effect: NoSchedule}
",
    after: "
apiVersion: v1
kind: Node
metadata: {name: node-3}
spec:
  taints:
  - {key: example.com/gpu, effect: NoSchedule}
",
    apply: |draft| {
        draft.prune_list(&["spec"], "taints", |taint| {
            let key = taint.as_map().and_then(|taint| taint.text("key"));
            key.is_some_and(|key| STATE_TAINTS.contains(&key))
        });
    },
};

/// Keys of [`NODE_STATE_TAINTS`].
pub(super) const STATE_TAINTS: &[&str] = &[
    "node.cloudprovider.kubernetes.io/shutdown",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
];

/// Annotations by which somebody asks a controller to inject the bundle.
const INJECTION_REQUESTS: &[&str] = &[
    "cert-manager.io/inject-apiserver-ca",
    "cert-manager.io/inject-ca-from",
    "cert-manager.io/inject-ca-from-secret",
    "service.beta.openshift.io/inject-cabundle",
];

const CONVERSION: [&str; 4] = ["spec", "conversion", "webhook", "clientConfig"];

fn remove_injected_ca_bundles(draft: &mut Draft<'_>) {
    let asked_for = INJECTION_REQUESTS
        .iter()
        .any(|key| draft.annotation(key).is_some());
    if asked_for || injected_at(draft, &CONVERSION) {
        draft.remove(&CONVERSION, "caBundle");
    }
    let is_api_service = draft.root.text("kind") == Some("APIService");
    if is_api_service && (asked_for || injected_at(draft, &["spec"])) {
        draft.remove(&["spec"], "caBundle");
    }
    let injected: Vec<bool> = webhooks(&draft.root)
        .map(|webhook| asked_for || injected_into_webhook(draft, webhook))
        .collect();
    let webhooks = draft.root.get_mut("webhooks").and_then(Value::as_list_mut);
    let webhooks = webhooks.into_iter().flatten().filter_map(Value::as_map_mut);
    for (webhook, _) in webhooks.zip(injected).filter(|(_, injected)| *injected) {
        if let Some(client) = webhook.map_at_mut(&["clientConfig"]) {
            client.remove("caBundle");
        }
    }
}

fn webhooks<'r, 'a>(root: &'r Map<'a>) -> impl Iterator<Item = &'r Map<'a>> {
    let webhooks = root.get("webhooks").and_then(Value::as_list);
    webhooks.into_iter().flatten().filter_map(Value::as_map)
}

/// Whether the bundle at a path was set by a manager that set nothing else beside it.
fn injected_at(draft: &Draft<'_>, path: &[&str]) -> bool {
    let bundle = draft
        .root
        .at(path)
        .and_then(Value::as_map)
        .and_then(|map| map.get("caBundle"));
    let shares = draft.owners().iter();
    bundle.is_some()
        && only_injectors(shares.filter_map(|owner| Some((owner, owner.fields(path)?))))
}

fn injected_into_webhook(draft: &Draft<'_>, webhook: &Map<'_>) -> bool {
    if webhook.at(&["clientConfig", "caBundle"]).is_none() {
        return false;
    }
    let is_webhook = |key: &Map<'_>| key.text("name") == webhook.text("name");
    only_injectors(draft.owners().iter().filter_map(|owner| {
        let share = owner.item(&["webhooks"], is_webhook)?;
        Some((owner, share.get("f:clientConfig")?.as_map()?))
    }))
}

/// Whether somebody set the bundle, and all who did set nothing else in the same place and are no
/// persons.
fn only_injectors<'s, 'a: 's>(shares: impl Iterator<Item = (Owner<'s, 'a>, &'s Map<'a>)>) -> bool {
    let mut setters = shares
        .filter(|(_, share)| share.get("f:caBundle").is_some())
        .peekable();
    setters.peek().is_some()
        && setters.all(|(owner, share)| {
            let only_the_bundle = |key| matches!(key, "." | "f:caBundle");
            owner.is_controller() && share.iter().all(|(key, _)| only_the_bundle(key))
        })
}
