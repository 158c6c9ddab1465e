kubectl --namespace "$NS" patch statefulset scaled-by-an-autoscaler --subresource=scale \
  --field-manager=keda-operator --type=merge --patch '{"spec":{"replicas":7}}'
