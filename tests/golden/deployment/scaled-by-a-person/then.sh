kubectl --namespace "$NS" scale deployment scaled-by-a-person --replicas=4
