uid=$(kubectl --namespace "$NS" get configmap owner --output=jsonpath='{.metadata.uid}')
kubectl --namespace "$NS" patch configmap owned --type=merge --patch "
metadata:
  ownerReferences:
  - {apiVersion: v1, kind: ConfigMap, name: owner, uid: $uid}
"
