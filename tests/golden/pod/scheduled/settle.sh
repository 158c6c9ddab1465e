# What a scheduler does.
kubectl create --raw "/api/v1/namespaces/$NS/pods/scheduled/binding" -f - >/dev/null <<'END'
{"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "scheduled"},
 "target": {"apiVersion": "v1", "kind": "Node", "name": "node-3"}}
END
