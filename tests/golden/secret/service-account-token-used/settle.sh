kubectl --namespace "$NS" wait secret/service-account-token-used --for=jsonpath='{.data.token}' --timeout=180s
token=$(kubectl --namespace "$NS" get secret service-account-token-used --output=jsonpath='{.data.token}' | base64 -d)
kubectl --token="$token" auth whoami >/dev/null
kubectl --namespace "$NS" wait secret/service-account-token-used \
  --for=jsonpath='{.metadata.labels.kubernetes\.io/legacy-token-last-used}' --timeout=180s
