kubectl --namespace "$NS" scale deployment scaled-without-a-trace --replicas=4
