kubectl --namespace "$NS" wait deployment/typical --timeout=180s \
  --for=jsonpath='{.metadata.annotations.deployment\.kubernetes\.io/revision}'
