# A volume that belonged to a claim that is gone waits for a person to free it.
if [ "$(kubectl get pv found-by-the-binder --output=jsonpath='{.status.phase}')" = Released ]; then
  kubectl patch pv found-by-the-binder --type=merge --patch '{"spec":{"claimRef":null}}'
fi
kubectl --namespace "$NS" wait pvc/bound --for=jsonpath='{.status.phase}'=Bound --timeout=180s
