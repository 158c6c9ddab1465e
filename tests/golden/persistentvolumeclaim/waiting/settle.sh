kubectl --namespace "$NS" wait pvc/waiting --timeout=60s \
  --for=jsonpath='{.metadata.annotations.volume\.kubernetes\.io/storage-provisioner}'=csi.example.com
