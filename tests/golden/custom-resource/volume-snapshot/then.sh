# What the snapshot controller does.
kubectl --namespace "$NS" patch volumesnapshot before-the-migration --field-manager=snapshot-controller \
  --type=merge --patch '
metadata:
  finalizers:
  - snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection
  - snapshot.storage.kubernetes.io/volumesnapshot-bound-protection
'
kubectl --namespace "$NS" patch volumesnapshot before-the-migration --field-manager=snapshot-controller \
  --subresource=status --type=merge --patch '{"status":{"readyToUse":true,"restoreSize":"1Gi"}}'
