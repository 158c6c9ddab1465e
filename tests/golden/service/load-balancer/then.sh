# What the service controller of a cloud does.
kubectl --namespace "$NS" patch service load-balancer --field-manager=cloud-controller-manager \
  --type=merge --patch '{"metadata":{"finalizers":["service.kubernetes.io/load-balancer-cleanup"]}}'
kubectl --namespace "$NS" patch service load-balancer --field-manager=cloud-controller-manager \
  --subresource=status --type=merge --patch '{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}'
