kubectl --namespace "$NS" patch scalable autoscaled --subresource=scale \
  --field-manager=kube-controller-manager --type=merge --patch '{"spec":{"replicas":7}}'
