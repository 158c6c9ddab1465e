kubectl --namespace "$NS" apply -f - <<'END'
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: has-a-volume
spec:
  accessModes: ["ReadWriteOnce"]
  storageClassName: local
  resources:
    requests:
      storage: 1Gi
END
kubectl wait pv/bound --for=jsonpath='{.status.phase}'=Bound --timeout=180s
