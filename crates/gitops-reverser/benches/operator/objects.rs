use serde_json::{Value, json};

/// The path of the namespace's collection, and the object.
pub(crate) fn object(index: usize, namespace: &str) -> (String, Value) {
    match index % 3 {
        0 => (
            format!("/api/v1/namespaces/{namespace}/configmaps"),
            config_map(index, namespace, "0"),
        ),
        1 => (
            format!("/api/v1/namespaces/{namespace}/services"),
            service(index, namespace),
        ),
        _ => (
            format!("/apis/apps/v1/namespaces/{namespace}/deployments"),
            deployment(index, namespace),
        ),
    }
}

/// Of so many objects the Services have addresses.
const WITH_ADDRESS: usize = 10_000;

/// The lists that hold them all.
pub(crate) const LISTS: [&str; 3] = [
    "/api/v1/configmaps",
    "/api/v1/services",
    "/apis/apps/v1/deployments",
];

fn labels(index: usize) -> Value {
    json!({
        "app.kubernetes.io/name": format!("app-{index:06}"),
        "app.kubernetes.io/part-of": format!("suite-{}", index % 40),
        "app.kubernetes.io/managed-by": "bench",
    })
}

fn config_map(index: usize, namespace: &str, value: &str) -> Value {
    let property = |line| format!("service.{line}.url=https://app-{index}.example.com/api/v{line}");
    let properties = (0..8).map(property).collect::<Vec<_>>().join("\n");
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name(index), "namespace": namespace, "labels": labels(index)},
        "data": {"value": value, "application.properties": properties},
    })
}

fn service(index: usize, namespace: &str) -> Value {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name(index), "namespace": namespace, "labels": labels(index)},
        "spec": {
            "selector": {"app.kubernetes.io/name": format!("app-{index:06}")},
            "ports": [
                {"name": "http", "port": 80, "targetPort": "http"},
                {"name": "metrics", "port": 9090, "targetPort": "metrics"},
            ],
        },
    });
    // The API server gives out addresses ever more slowly.
    if index >= WITH_ADDRESS {
        service["spec"]["clusterIP"] = json!("None");
    }
    service
}

fn deployment(index: usize, namespace: &str) -> Value {
    let app = json!({"app.kubernetes.io/name": format!("app-{index:06}")});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name(index), "namespace": namespace, "labels": labels(index)},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": app},
            "template": {
                "metadata": {"labels": app},
                "spec": {"containers": [{
                    "name": "app",
                    "image": format!("registry.example.com/app:{index}"),
                    "ports": [{"name": "http", "containerPort": 8080}],
                    "env": [{"name": "LOG_LEVEL", "value": "info"}],
                    "resources": {
                        "requests": {"cpu": "100m", "memory": "64Mi"},
                        "limits": {"memory": "128Mi"},
                    },
                }]},
            },
        },
    })
}

pub(crate) fn name(index: usize) -> String {
    format!("app-{index:06}")
}
