kubectl --namespace "$NS" wait pvc/waiting --timeout=180s \
  --for=jsonpath='{.metadata.annotations.volume\.kubernetes\.io/storage-provisioner}'=csi.example.com
