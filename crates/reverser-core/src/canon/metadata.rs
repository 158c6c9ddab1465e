//! What the server writes into every object.

use super::{AppliesTo, Draft, Rule};
use crate::value::{Map, Value};

pub(super) const SERVER_FIELDS: Rule = Rule {
    name: "server-metadata",
    applies_to: AppliesTo::Every,
    removes: "`metadata.uid`, `resourceVersion`, `generation`, `creationTimestamp`, `selfLink`, `managedFields`",
    reason: "The server gives each object its own; a new cluster refuses or ignores them.",
    before: "
apiVersion: v1
kind: ConfigMap
metadata:
  name: web
  uid: 6f1c0f0e-3f3b-4a52-9c0c-0a4c8f3a8d11
  resourceVersion: '4711'
  generation: 3
  creationTimestamp: '2026-01-01T00:00:00Z'
  managedFields: [{manager: kubectl}]
",
    after: "{apiVersion: v1, kind: ConfigMap, metadata: {name: web}}",
    // managedFields is set aside when the object is read, because other rules ask it.
    apply: |draft| remove_metadata(draft, SERVER_METADATA),
};

const SERVER_METADATA: &[&str] = &[
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "selfLink",
];

pub(super) const DELETION: Rule = Rule {
    name: "deletion-metadata",
    applies_to: AppliesTo::Every,
    removes: "`metadata.deletionTimestamp`, `deletionGracePeriodSeconds`",
    reason: "An object that is going away is still what it was; only its disappearance is news.",
    before: "
apiVersion: v1
kind: ConfigMap
metadata:
  name: web
  finalizers: [example.com/wait]
  deletionTimestamp: '2026-01-01T00:00:00Z'
  deletionGracePeriodSeconds: 0
",
    after: "{apiVersion: v1, kind: ConfigMap, metadata: {name: web, finalizers: [example.com/wait]}}",
    apply: |draft| remove_metadata(draft, &["deletionTimestamp", "deletionGracePeriodSeconds"]),
};

pub(super) const GENERATE_NAME: Rule = Rule {
    name: "generate-name",
    applies_to: AppliesTo::Every,
    removes: "`metadata.generateName`",
    reason: "The name is known by now.",
    before: "
apiVersion: v1
kind: ConfigMap
metadata:
  generateName: web-
  name: web-x7k2p
",
    after: "{apiVersion: v1, kind: ConfigMap, metadata: {name: web-x7k2p}}",
    apply: |draft| remove_metadata(draft, &["generateName"]),
};

pub(super) const OWNER_REFERENCES: Rule = Rule {
    name: "owner-references",
    applies_to: AppliesTo::Every,
    removes: "`metadata.ownerReferences`",
    reason: "They name owners by uid, which means nothing in another cluster: there the garbage collector would delete the object.",
    before: "
apiVersion: v1
kind: ConfigMap
metadata:
  name: web
  ownerReferences:
  - {apiVersion: v1, kind: ConfigMap, name: owner, uid: 6f1c0f0e-3f3b-4a52-9c0c-0a4c8f3a8d11}
",
    after: "{apiVersion: v1, kind: ConfigMap, metadata: {name: web}}",
    apply: |draft| remove_metadata(draft, &["ownerReferences"]),
};

pub(super) const CONTROLLER_FINALIZERS: Rule = Rule {
    name: "controller-finalizers",
    applies_to: AppliesTo::Every,
    removes: "finalizers of Kubernetes itself (also `external-attacher/…`); none of anybody else",
    reason: "A controller adds them again where it is there to remove them; where it is not, the object could never be deleted.",
    before: "
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: data
  finalizers: [kubernetes.io/pvc-protection, example.com/backup]
",
    after: "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, finalizers: [example.com/backup]}
",
    apply: |draft| {
        draft.prune_list(&["metadata"], "finalizers", |finalizer| {
            finalizer.as_str().is_some_and(|finalizer| {
                FINALIZERS.contains(&finalizer) || finalizer.starts_with("external-attacher/")
            })
        });
    },
};

/// Finalizers of [`CONTROLLER_FINALIZERS`].
pub(super) const FINALIZERS: &[&str] = &[
    "batch.kubernetes.io/job-tracking",
    "customresourcecleanup.apiextensions.k8s.io",
    "external-provisioner.volume.kubernetes.io/finalizer",
    // These two are a deletion's, and say how its dependents are treated.
    "foregroundDeletion",
    "orphan",
    "kubernetes.io/pv-controller",
    "kubernetes.io/pv-protection",
    "kubernetes.io/pvc-protection",
    "kubernetes.io/vac-protection",
    "networking.k8s.io/service-cidr-finalizer",
    "resource.kubernetes.io/delete-protection",
    "service.kubernetes.io/load-balancer-cleanup",
    "snapshot.storage.kubernetes.io/pvc-as-source-protection",
    "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection",
    "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection",
    "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection",
];

pub(super) const TEMPLATE_TIMESTAMP: Rule = Rule {
    name: "template-creation-timestamp",
    applies_to: AppliesTo::Every,
    removes: "`creationTimestamp: null` in the `metadata` of templates",
    reason: "Servers before Kubernetes 1.34 write it where nobody did.",
    before: "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    metadata:
      creationTimestamp: null
      labels: {app: web}
",
    after: "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    metadata:
      labels: {app: web}
",
    apply: |draft| {
        if let Some(spec) = draft.root.get_mut("spec") {
            remove_null_timestamps(spec);
        }
        // Only a PodTemplate has its template outside of a spec.
        if let Some(metadata) = draft.root.map_at_mut(&["template", "metadata"]) {
            remove_null_timestamp(metadata);
        }
    },
};

pub(super) const STATUS: Rule = Rule {
    name: "status",
    applies_to: AppliesTo::Every,
    removes: "`status`",
    reason: "It is what controllers observe, not what anybody asked for.",
    before: "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {replicas: 2}
status: {readyReplicas: 2}
",
    after: "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 2}}",
    apply: |draft| {
        draft.root.remove("status");
    },
};

fn remove_metadata(draft: &mut Draft<'_>, fields: &[&str]) {
    if let Some(metadata) = draft.root.map_at_mut(&["metadata"]) {
        for field in fields {
            metadata.remove(field);
        }
    }
}

fn remove_null_timestamps(value: &mut Value<'_>) {
    match value {
        Value::List(list) => list.iter_mut().for_each(remove_null_timestamps),
        Value::Map(map) => {
            if let Some(metadata) = map.map_at_mut(&["metadata"]) {
                remove_null_timestamp(metadata);
            }
            map.values_mut()
                .for_each(|(_, value)| remove_null_timestamps(value));
        }
        _ => {}
    }
}

fn remove_null_timestamp(metadata: &mut Map<'_>) {
    if metadata.get("creationTimestamp") == Some(&Value::Null) {
        metadata.remove("creationTimestamp");
    }
}
