kubectl wait clusterrole/aggregated --for=jsonpath='{.rules[0].resources[0]}'=services --timeout=180s
