kubectl --namespace "$NS" annotate configmap leader-election --field-manager=elected \
  'control-plane.alpha.kubernetes.io/leader={"holderIdentity":"a","renewTime":"2026-01-01T00:00:00Z"}'
