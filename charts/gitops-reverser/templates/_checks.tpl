{{/*
Values whose form the schema leaves open, because it can only answer with a pattern: here a sentence says
what to write.
*/}}
{{- define "reverser.checks" -}}
{{- $controller := .Values.controller -}}
{{- $time := "([0-9]+(h|m|s|ms))+" -}}
{{- $level := "([A-Za-z0-9_:]+=)?(error|warn|info|debug|trace)" -}}
{{- range list
  (list "image.digest" .Values.image.digest "(sha256:[0-9a-f]{64})?" "write sha256: and 64 hexadecimal digits, or leave it empty and write a tag into image.tag")
  (list "controller.instanceId" $controller.instanceId "([A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?)?" "write at most 63 letters, digits, '-', '_' and '.', the first and last a letter or digit")
  (list "controller.discovery.refresh" $controller.discovery.refresh $time "write a time such as 5m, 90s or 1h30m")
  (list "controller.leases.takeOverAfter" $controller.leases.takeOverAfter (printf "(never|%s)" $time) "write a time such as 168h, or never")
  (list "controller.committer.email" $controller.committer.email "[^@\\s]+@[^@\\s]+" "write an address such as gitops@example.com")
  (list "controller.attribution.store" $controller.attribution.store "(memory|rediss?://[^@]+)" "write memory, or a URL such as rediss://redis:6379 with its credentials in controller.attribution.storeSecret")
  (list "controller.workDir" $controller.workDir "/.+" "write an absolute path, such as /var/cache/gitops-reverser")
  (list "controller.logLevel" $controller.logLevel (printf "%s(,%s)*" $level $level) "write error, warn, info, debug or trace, and others for parts of the program, such as info,kube_runtime=warn")
  (list "controller.otlpEndpoint" $controller.otlpEndpoint "(http://[^@#?/]+(/[^@#?]*)?)?" "write a URL such as http://collector.observability:4318")
  (list "webhook.url" .Values.webhook.url "(https://.+)?" "write a URL that begins with https://, because the API server calls no other")
  (list "metrics.serviceMonitor.interval" .Values.metrics.serviceMonitor.interval $time "write a time such as 30s")
-}}
{{- if not (regexMatch (printf "^(%s)$" (index . 2)) (index . 1)) -}}
{{- fail (printf "%s: %q cannot be used; %s" (index . 0) (index . 1) (index . 3)) -}}
{{- end -}}
{{- end -}}
{{- if not .Values.metrics.enabled -}}
{{- range $name, $monitor := dict "serviceMonitor" .Values.metrics.serviceMonitor "prometheusRule" .Values.metrics.prometheusRule -}}
{{- if $monitor.enabled -}}
{{- fail (printf "metrics.%s.enabled needs metrics: set metrics.enabled to true, or leave it out" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
