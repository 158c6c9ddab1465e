kubectl --namespace "$NS" debug debugged --image=registry.example.com/tools:1 --target=web \
  --container=debugger --attach=false --profile=general
