//! What the binder writes into volumes and claims.

use super::{AppliesTo, Rule};
use crate::value::Value;

pub(super) const BOUND_VOLUME: Rule = Rule {
    name: "claim-bound-volume",
    applies_to: AppliesTo::Kinds(&[("", "PersistentVolumeClaim")]),
    removes: "`spec.volumeName` that the binder chose; none that somebody set",
    reason: "Another cluster does not have that volume, and the claim would wait for it for ever.",
    before: "
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: data
  annotations: {pv.kubernetes.io/bound-by-controller: 'yes'}
spec: {storageClassName: fast, volumeName: pvc-6f1c0f0e}
",
    after: "
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: data
  annotations: {pv.kubernetes.io/bound-by-controller: 'yes'}
spec: {storageClassName: fast}
",
    apply: |draft| {
        if draft
            .annotation("pv.kubernetes.io/bound-by-controller")
            .is_some()
        {
            draft.remove(&["spec"], "volumeName");
        }
    },
};

pub(super) const CLAIM_REFERENCE: Rule = Rule {
    name: "volume-claim-reference",
    applies_to: AppliesTo::Kinds(&[
        ("", "PersistentVolume"),
        ("snapshot.storage.k8s.io", "VolumeSnapshotContent"),
    ]),
    removes: "`uid` and `resourceVersion` in `spec.claimRef` and `volumeSnapshotRef`",
    reason: "They name one claim of this cluster; with them a new claim of the same name is never bound. Its name stays: it says whose data it is.",
    before: "
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec:
  claimRef: {namespace: shop, name: data, uid: 6f1c0f0e, resourceVersion: '12'}
",
    after: "
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec:
  claimRef: {namespace: shop, name: data}
",
    apply: |draft| {
        for reference in ["claimRef", "volumeSnapshotRef"] {
            for field in ["uid", "resourceVersion"] {
                draft.remove(&["spec", reference], field);
            }
        }
    },
};

pub(super) const CLAIM_TEMPLATE_STATUS: Rule = Rule {
    name: "claim-template-status",
    applies_to: AppliesTo::Kinds(&[("apps", "StatefulSet")]),
    removes: "`spec.volumeClaimTemplates[].status`",
    reason: "A template has no status; the server writes one all the same.",
    before: "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  volumeClaimTemplates:
  - {metadata: {name: data}, status: {phase: Pending}}
",
    after: "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  volumeClaimTemplates:
  - {metadata: {name: data}}
",
    apply: |draft| {
        let templates = draft
            .root
            .map_at_mut(&["spec"])
            .and_then(|spec| spec.get_mut("volumeClaimTemplates")?.as_list_mut());
        for template in templates
            .into_iter()
            .flatten()
            .filter_map(Value::as_map_mut)
        {
            template.remove("status");
        }
    },
};
