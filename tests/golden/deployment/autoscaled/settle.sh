kubectl --namespace "$NS" wait deployment/autoscaled --for=jsonpath='{.spec.replicas}'=3 --timeout=100s
