# As `kubectl rollout restart` does, at a fixed time.
kubectl --namespace "$NS" patch deployment restarted --field-manager=kubectl-rollout --patch '
spec:
  template:
    metadata:
      annotations:
        kubectl.kubernetes.io/restartedAt: "2026-01-01T00:00:00Z"
'
kubectl --namespace "$NS" wait deployment/restarted --timeout=180s \
  --for=jsonpath='{.metadata.annotations.deployment\.kubernetes\.io/revision}'=2
