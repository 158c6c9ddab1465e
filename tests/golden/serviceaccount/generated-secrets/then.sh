kubectl --namespace "$NS" patch serviceaccount robot --field-manager=kube-controller-manager --patch '
secrets:
- name: robot-token-x7k2p
- name: robot-dockercfg-5bq9z
imagePullSecrets:
- name: robot-dockercfg-5bq9z
'
