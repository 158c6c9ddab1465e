# A volume cannot go while a claim has it.
kubectl --namespace "$NS" delete pvc has-a-volume
