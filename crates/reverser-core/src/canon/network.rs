//! What the server chooses for a Service that leaves it open.
//!
//! Allocated values never appear in managedFields, so whoever is named there wrote them on
//! purpose. Without managedFields they count as the server's; see [`super::Draft::server_chose`].

use super::field_owners::FieldOwners;
use super::{AppliesTo, Draft, Rule};
use crate::value::{Map, Number, Value};

const SERVICE: AppliesTo = AppliesTo::Kinds(&[("", "Service")]);

pub(super) const CLUSTER_IP: Rule = Rule {
    name: "service-cluster-ip",
    applies_to: SERVICE,
    removes: "`spec.clusterIP` that the server chose, never `None`, and none that somebody set; the copy of it in `clusterIPs`",
    reason: "Another cluster has other addresses, and would refuse these.",
    before: "
apiVersion: v1
kind: Service
metadata: {name: web, uid: 6f1c0f0e}
spec:
  clusterIP: 10.0.0.7
  clusterIPs: [10.0.0.7]
  ports: [{port: 80}]
",
    after: "{apiVersion: v1, kind: Service, metadata: {name: web, uid: 6f1c0f0e}, spec: {ports: [{port: 80}]}}",
    apply: |draft| {
        if !is_headless(draft) {
            draft.remove_if_server_chose("clusterIP");
        }
        draft.remove_if_server_chose("clusterIPs");
    },
};

pub(super) const IP_FAMILIES: Rule = Rule {
    name: "service-ip-families",
    applies_to: SERVICE,
    removes: "`spec.ipFamilies` and `ipFamilyPolicy` that the server chose; none that somebody set",
    reason: "They follow from the networks of this cluster; one with other networks would refuse them.",
    before: "
apiVersion: v1
kind: Service
metadata: {name: web, uid: 6f1c0f0e}
spec: {ipFamilies: [IPv4], ipFamilyPolicy: SingleStack, ports: [{port: 80}]}
",
    after: "{apiVersion: v1, kind: Service, metadata: {name: web, uid: 6f1c0f0e}, spec: {ports: [{port: 80}]}}",
    apply: |draft| {
        draft.remove_if_server_chose("ipFamilies");
        // What the server would not choose is somebody's wish, also where managedFields is missing.
        let by_itself = match draft
            .root
            .at(&["spec", "ipFamilyPolicy"])
            .and_then(Value::as_str)
        {
            Some("SingleStack") => true,
            Some("RequireDualStack") => {
                is_headless(draft) && draft.root.at(&["spec", "selector"]).is_none()
            }
            _ => false,
        };
        if by_itself {
            draft.remove_if_server_chose("ipFamilyPolicy");
        }
    },
};

pub(super) const NODE_PORT: Rule = Rule {
    name: "service-node-port",
    applies_to: SERVICE,
    removes: "`spec.ports[].nodePort` that the server chose; none that somebody set",
    reason: "The port may be taken in another cluster.",
    before: r#"
apiVersion: v1
kind: Service
metadata:
  name: web
  uid: 6f1c0f0e
  managedFields:
  - manager: kubectl-create
    fieldsV1:
      f:spec:
        f:ports:
          k:{"port":443,"protocol":"TCP"}: {f:nodePort: {}, f:port: {}}
          k:{"port":80,"protocol":"TCP"}: {f:port: {}}
spec:
  ports:
  - {port: 80, protocol: TCP, nodePort: 30080}
  - {port: 443, protocol: TCP, nodePort: 30443}
"#,
    after: "
apiVersion: v1
kind: Service
metadata: {name: web, uid: 6f1c0f0e}
spec:
  ports:
  - {port: 80, protocol: TCP}
  - {port: 443, protocol: TCP, nodePort: 30443}
",
    apply: |draft| {
        if !draft.comes_from_server() || !mentions_node_port(draft.root.at(&["spec", "ports"])) {
            return;
        }
        draft.owners();
        let Draft { root, owners, .. } = draft;
        let (Some(owners), Some(ports)) = (
            owners.get(),
            root.map_at_mut(&["spec"])
                .and_then(|spec| spec.get_mut("ports")),
        ) else {
            return;
        };
        let ports = ports.as_list_mut().into_iter().flatten();
        for port in ports.filter_map(Value::as_map_mut) {
            if !somebody_set_node_port(owners, port) {
                port.remove("nodePort");
            }
        }
    },
};

pub(super) const HEALTH_CHECK_NODE_PORT: Rule = Rule {
    name: "service-health-check-node-port",
    applies_to: SERVICE,
    removes: "`spec.healthCheckNodePort` that the server chose; none that somebody set",
    reason: "The port may be taken in another cluster.",
    before: "
apiVersion: v1
kind: Service
metadata: {name: web, uid: 6f1c0f0e}
spec: {type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 31234}
",
    after: "
apiVersion: v1
kind: Service
metadata: {name: web, uid: 6f1c0f0e}
spec: {type: LoadBalancer, externalTrafficPolicy: Local}
",
    apply: |draft| draft.remove_if_server_chose("healthCheckNodePort"),
};

fn is_headless(draft: &Draft<'_>) -> bool {
    draft
        .root
        .at(&["spec", "clusterIP"])
        .and_then(Value::as_str)
        == Some("None")
}

fn mentions_node_port(ports: Option<&Value<'_>>) -> bool {
    ports
        .and_then(Value::as_list)
        .into_iter()
        .flatten()
        .filter_map(Value::as_map)
        .any(|port| port.get("nodePort").is_some())
}

fn somebody_set_node_port(owners: &FieldOwners<'_>, port: &Map<'_>) -> bool {
    const TCP: &str = "TCP";
    let number = |map: &Map<'_>| match map.get("port") {
        Some(Value::Number(Number::Int(number))) => Some(*number),
        _ => None,
    };
    let is_port = |key: &Map<'_>| {
        number(key) == number(port)
            && key.text("protocol").unwrap_or(TCP) == port.text("protocol").unwrap_or(TCP)
    };
    owners.iter().any(|owner| {
        let item = owner.item(&["spec", "ports"], is_port);
        item.is_some_and(|fields| fields.get("f:nodePort").is_some())
    })
}
