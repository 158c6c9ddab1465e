# What the snapshot controller does.
kubectl patch volumesnapshotcontent snapcontent-1 --field-manager=snapshot-controller --type=merge --patch '
spec:
  volumeSnapshotRef:
    uid: 6f1c0f0e-3f3b-4a52-9c0c-0a4c8f3a8d11
    resourceVersion: "4711"
'
