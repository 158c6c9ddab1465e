kubectl --namespace "$NS" patch worker typed --subresource=status --type=merge \
  --patch '{"status":{"replicas":1,"phase":"Starting"}}'
