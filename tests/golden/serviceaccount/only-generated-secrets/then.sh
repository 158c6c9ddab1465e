kubectl --namespace "$NS" patch serviceaccount builder --field-manager=kube-controller-manager --patch '
secrets:
- name: builder-token-x7k2p
'
