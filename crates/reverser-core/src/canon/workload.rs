//! What controllers write into workloads.

use super::field_owners::Owner;
use super::{AppliesTo, Draft, Rule};
use crate::value::Value;

const JOB: AppliesTo = AppliesTo::Kinds(&[("batch", "Job")]);
const POD: AppliesTo = AppliesTo::Kinds(&[("", "Pod")]);

pub(super) const AUTOSCALED_REPLICAS: Rule = Rule {
    name: "autoscaled-replicas",
    applies_to: AppliesTo::Every,
    removes: "`spec.replicas` that an autoscaler owns: set through `/scale` by a controller, not by a person",
    reason: "It follows the load, not anybody's wish, and would make a commit whenever the load changes. Where the server does not note who scaled, as on objects that were applied by the server without replicas, it stays: it may have been a person.",
    before: "
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  managedFields:
  - {manager: kubectl-create, fieldsV1: {f:spec: {f:selector: {}}}}
  - {manager: kube-controller-manager, subresource: scale, fieldsV1: {f:spec: {f:replicas: {}}}}
spec: {replicas: 17, selector: {}}
",
    after: "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {selector: {}}}",
    apply: |draft| {
        if draft.root.at(&["spec", "replicas"]).is_some()
            && draft.managed_fields.mention_scale()
            && draft.owners().iter().any(is_autoscaler)
        {
            draft.remove(&["spec"], "replicas");
        }
    },
};

pub(super) const JOB_LABELS: Rule = Rule {
    name: "job-labels",
    applies_to: JOB,
    removes: "the labels `job-name` and `controller-uid` with and without `batch.kubernetes.io/`, on the Job and on its template, unless `spec.manualSelector` is true",
    reason: "The server writes them for each Job anew; a Job that carries another's is refused.",
    before: "
apiVersion: batch/v1
kind: Job
metadata:
  name: pi
  labels: {job-name: pi, batch.kubernetes.io/job-name: pi}
spec:
  template:
    metadata:
      labels: {app: pi, controller-uid: 6f1c0f0e, batch.kubernetes.io/controller-uid: 6f1c0f0e}
",
    after: "
apiVersion: batch/v1
kind: Job
metadata: {name: pi}
spec:
  template:
    metadata:
      labels: {app: pi}
",
    apply: |draft| {
        if has_manual_selector(draft) {
            return;
        }
        let generated = |key: &str| {
            let key = key.strip_prefix("batch.kubernetes.io/").unwrap_or(key);
            matches!(key, "job-name" | "controller-uid")
        };
        for labels in [
            &["metadata", "labels"][..],
            &["spec", "template", "metadata", "labels"],
        ] {
            draft.prune(labels, |key, _| generated(key));
        }
    },
};

pub(super) const JOB_SELECTOR: Rule = Rule {
    name: "job-selector",
    applies_to: JOB,
    removes: "`spec.selector`, unless `spec.manualSelector` is true",
    reason: "The server generates it from the Job's uid, and refuses one that it did not generate.",
    before: "
apiVersion: batch/v1
kind: Job
metadata: {name: pi}
spec:
  selector:
    matchLabels: {batch.kubernetes.io/controller-uid: 6f1c0f0e}
  template: {}
",
    after: "{apiVersion: batch/v1, kind: Job, metadata: {name: pi}, spec: {template: {}}}",
    apply: |draft| {
        if !has_manual_selector(draft) {
            draft.remove(&["spec"], "selector");
        }
    },
};

pub(super) const POD_NODE: Rule = Rule {
    name: "pod-node",
    applies_to: POD,
    removes: "`spec.nodeName` that the scheduler chose; none that somebody set",
    reason: "Another cluster has other nodes, and the Pod would wait for this one for ever.",
    before: "
apiVersion: v1
kind: Pod
metadata: {name: web, uid: 6f1c0f0e}
spec: {containers: [], nodeName: node-3}
",
    after: "{apiVersion: v1, kind: Pod, metadata: {name: web, uid: 6f1c0f0e}, spec: {containers: []}}",
    apply: |draft| draft.remove_if_server_chose("nodeName"),
};

pub(super) const POD_TOKEN_VOLUME: Rule = Rule {
    name: "pod-token-volume",
    applies_to: POD,
    removes: "the volume `kube-api-access-…` and its mounts",
    reason: "Admission adds it to each Pod under a random name.",
    before: "
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: web
    volumeMounts:
    - {name: kube-api-access-x7k2p, mountPath: /var/run/secrets/kubernetes.io/serviceaccount}
  volumes:
  - {name: data, emptyDir: {}}
  - {name: kube-api-access-x7k2p, projected: {}}
",
    after: "
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: web
  volumes:
  - {name: data, emptyDir: {}}
",
    apply: |draft| {
        let Some(spec) = draft.root.map_at_mut(&["spec"]) else {
            return;
        };
        remove_token_items(spec, "volumes");
        for containers in ["containers", "initContainers"] {
            let containers = spec.get_mut(containers).and_then(Value::as_list_mut);
            for container in containers
                .into_iter()
                .flatten()
                .filter_map(Value::as_map_mut)
            {
                remove_token_items(container, "volumeMounts");
            }
        }
    },
};

pub(super) const POD_EPHEMERAL_CONTAINERS: Rule = Rule {
    name: "pod-ephemeral-containers",
    applies_to: POD,
    removes: "`spec.ephemeralContainers`",
    reason: "A debugging session, which no new Pod may begin with.",
    before: "
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [], ephemeralContainers: [{name: debugger}]}
",
    after: "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: []}}",
    apply: |draft: &mut Draft<'_>| draft.remove(&["spec"], "ephemeralContainers"),
};

pub(super) const POD_CLASS_VALUES: Rule = Rule {
    name: "pod-class-values",
    applies_to: POD,
    removes: "`spec.priority`, `preemptionPolicy` and `overhead` that admission looked up in the classes of this cluster; none that somebody set",
    reason: "A cluster whose PriorityClass or RuntimeClass says otherwise refuses the Pod.",
    before: "
apiVersion: v1
kind: Pod
metadata: {name: web, uid: 6f1c0f0e}
spec:
  containers: []
  priorityClassName: urgent
  priority: 1000
  preemptionPolicy: Never
",
    after: "
apiVersion: v1
kind: Pod
metadata: {name: web, uid: 6f1c0f0e}
spec:
  containers: []
  priorityClassName: urgent
",
    apply: |draft| {
        for field in ["priority", "preemptionPolicy", "overhead"] {
            draft.remove_if_server_chose(field);
        }
    },
};

pub(super) const SERVICE_ACCOUNT_ALIAS: Rule = Rule {
    name: "service-account-alias",
    applies_to: AppliesTo::Kinds(&[
        ("", "Pod"),
        ("", "PodTemplate"),
        ("", "ReplicationController"),
        ("apps", "DaemonSet"),
        ("apps", "Deployment"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("batch", "CronJob"),
        ("batch", "Job"),
    ]),
    removes: "`serviceAccount` beside an equal `serviceAccountName`",
    reason: "An old name of the same field: the server writes both, and reads this one only where the other is missing.",
    before: "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec: {serviceAccount: robot, serviceAccountName: robot}
",
    after: "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec: {serviceAccountName: robot}
",
    apply: |draft| {
        for pod in POD_SPECS {
            if let Some(pod) = draft.root.map_at_mut(pod)
                && pod.get("serviceAccount") == pod.get("serviceAccountName")
            {
                pod.remove("serviceAccount");
            }
        }
    },
};

/// Where the kinds of Kubernetes have the spec of a Pod.
const POD_SPECS: [&[&str]; 4] = [
    &["spec"],
    &["template", "spec"],
    &["spec", "template", "spec"],
    &["spec", "jobTemplate", "spec", "template", "spec"],
];

/// Then the server generates nothing, and refuses labels that do not fit the selector.
fn has_manual_selector(draft: &Draft<'_>) -> bool {
    draft.root.at(&["spec", "manualSelector"]) == Some(&Value::Bool(true))
}

fn is_autoscaler(owner: Owner<'_, '_>) -> bool {
    owner.subresource() == "scale"
        && owner.fields(&["spec", "replicas"]).is_some()
        && owner.is_controller()
}

fn remove_token_items(parent: &mut crate::value::Map<'_>, field: &str) {
    let Some(items) = parent.get_mut(field).and_then(Value::as_list_mut) else {
        return;
    };
    let before = items.len();
    items.retain(|item| {
        let name = item.as_map().and_then(|item| item.text("name"));
        !name.is_some_and(|name| name.starts_with("kube-api-access-"))
    });
    if items.is_empty() && before > 0 {
        parent.remove(field);
    }
}
