kubectl --namespace "$NS" patch service node-port-by-edit --patch '{"spec":{"type":"NodePort"}}'
