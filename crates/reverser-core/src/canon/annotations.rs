//! Annotations that tools and controllers leave behind. By exact key: an annotation that is not
//! listed here may be somebody's own.

use super::{AppliesTo, Draft, Rule};

pub(super) const LAST_APPLIED: Rule = Rule {
    name: "last-applied",
    applies_to: AppliesTo::Every,
    removes: "annotations in which tools keep a copy of what they applied (kubectl, kapp, Rancher, Banzai)",
    reason: "A copy of the whole object, and for a Secret a copy of its values.",
    before: r#"
apiVersion: v1
kind: Secret
metadata:
  name: web
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: '{"data":{"password":"aHVudGVyMg=="}}'
"#,
    after: "{apiVersion: v1, kind: Secret, metadata: {name: web}}",
    apply: |draft| remove_annotations(draft, LAST_APPLIED_KEYS),
};

pub(super) const CONTROLLER_NOTES: Rule = Rule {
    name: "controller-annotations",
    applies_to: AppliesTo::Every,
    removes: "annotations in which Kubernetes' own controllers keep notes",
    reason: "They change without anybody's doing, and a controller writes them again where they are needed.",
    before: "
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  annotations:
    deployment.kubernetes.io/revision: '7'
    kubernetes.io/change-cause: new image
",
    after: "
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  annotations: {kubernetes.io/change-cause: new image}
",
    apply: |draft| remove_annotations(draft, CONTROLLER_KEYS),
};

/// Keys of [`LAST_APPLIED`].
pub(super) const LAST_APPLIED_KEYS: &[&str] = &[
    "kubectl.kubernetes.io/last-applied-configuration",
    "banzaicloud.com/last-applied",
    "kapp.k14s.io/original",
    "kapp.k14s.io/original-diff-md5",
    "objectset.rio.cattle.io/applied",
];

/// Keys of [`CONTROLLER_NOTES`].
pub(super) const CONTROLLER_KEYS: &[&str] = &[
    "autoscaling.alpha.kubernetes.io/conditions",
    "autoscaling.alpha.kubernetes.io/current-metrics",
    "batch.kubernetes.io/cronjob-scheduled-timestamp",
    "batch.kubernetes.io/job-tracking",
    "control-plane.alpha.kubernetes.io/leader",
    "csi.volume.kubernetes.io/nodeid",
    "deployment.kubernetes.io/desired-replicas",
    "deployment.kubernetes.io/max-replicas",
    "deployment.kubernetes.io/revision",
    "deployment.kubernetes.io/revision-history",
    "deprecated.daemonset.template.generation",
    "endpoints.kubernetes.io/last-change-trigger-time",
    "endpoints.kubernetes.io/over-capacity",
    "kubernetes.io/config.hash",
    "kubernetes.io/config.mirror",
    "kubernetes.io/config.seen",
    "kubernetes.io/config.source",
    "kubernetes.io/limit-ranger",
    "kubernetes.io/service-account.uid",
    "node.alpha.kubernetes.io/ttl",
    "pv.kubernetes.io/bind-completed",
    "pv.kubernetes.io/bound-by-controller",
    "pv.kubernetes.io/migrated-to",
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/selected-node",
    "volume.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/storage-resizer",
    "volumes.kubernetes.io/controller-managed-attach-detach",
];

fn remove_annotations(draft: &mut Draft<'_>, keys: &[&str]) {
    draft.prune(&["metadata", "annotations"], |key, _| keys.contains(&key));
}
