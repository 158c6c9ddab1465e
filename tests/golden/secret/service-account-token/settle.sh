kubectl --namespace "$NS" wait secret/service-account-token --for=jsonpath='{.data.token}' --timeout=180s
