# A volume that belonged to a claim that is gone waits for a person to free it.
if [ "$(kubectl get pv chosen-by-a-person --output=jsonpath='{.status.phase}')" = Released ]; then
  kubectl patch pv chosen-by-a-person --type=merge --patch '{"spec":{"claimRef":null}}'
fi
kubectl --namespace "$NS" wait pvc/pre-bound --for=jsonpath='{.status.phase}'=Bound --timeout=180s
