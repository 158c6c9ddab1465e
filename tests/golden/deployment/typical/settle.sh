kubectl --namespace "$NS" wait deployment/typical --timeout=60s \
  --for=jsonpath='{.metadata.annotations.deployment\.kubernetes\.io/revision}'
