# What an ingress controller does.
kubectl --namespace "$NS" patch ingress typical --field-manager=nginx-ingress-controller \
  --subresource=status --type=merge --patch '{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}'
