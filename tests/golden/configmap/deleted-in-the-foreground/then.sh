# A deletion in the foreground waits for what belongs to the object.
uid=$(kubectl --namespace "$NS" get configmap deleted-in-the-foreground --output=jsonpath='{.metadata.uid}')
kubectl --namespace "$NS" create -f - <<END
apiVersion: v1
kind: ConfigMap
metadata:
  name: waited-for
  finalizers: [example.com/wait]
  ownerReferences:
  - apiVersion: v1
    kind: ConfigMap
    name: deleted-in-the-foreground
    uid: $uid
    blockOwnerDeletion: true
END
kubectl --namespace "$NS" delete configmap deleted-in-the-foreground --wait=false --cascade=foreground
