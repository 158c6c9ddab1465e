kubectl --namespace "$NS" delete configmap being-deleted --wait=false
