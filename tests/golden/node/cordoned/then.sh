kubectl cordon node-6
kubectl wait node/node-6 --timeout=180s \
  --for=jsonpath='{.spec.taints[?(@.key=="node.kubernetes.io/unschedulable")].effect}'=NoSchedule
