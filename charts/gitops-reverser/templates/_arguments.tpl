{{/*
The flags of the controller, one line each, from the values under "controller". A test compares them
with the flags that the program has.
*/}}
{{- define "reverser.arguments" -}}
{{- $controller := .Values.controller -}}
{{- if lt (int $controller.leases.leaseSec) (mul 2 (int $controller.leases.renewSec) | int) -}}
{{- fail "controller.leases.leaseSec must be at least twice controller.leases.renewSec, or one renewal that fails would lose the Lease" -}}
{{- end -}}
{{- if gt (int $controller.git.batch.quietMs) (mul 1000 (int $controller.git.batch.maxWaitSec) | int) -}}
{{- fail "controller.git.batch.quietMs is longer than controller.git.batch.maxWaitSec: nothing would ever wait for quiet" -}}
{{- end -}}
- controller
- --instance-id={{ default (include "reverser.fullname" .) $controller.instanceId }}
{{- with include "reverser.ownerClusterRole" . }}
- --owner-cluster-role={{ . }}
{{- end }}
- --enable-watch-ingestion={{ $controller.enableWatchIngestion }}
- --discovery-refresh={{ $controller.discovery.refresh }}
- --watch-all={{ $controller.discovery.watchAll }}
{{- range $controller.discovery.exclusions }}
- --discovery-exclude={{ . }}
{{- end }}
{{- if not .Values.rbac.secrets }}
- --discovery-exclude=secrets
{{- end }}
- --discovery-no-default-exclusions={{ $controller.discovery.noDefaultExclusions }}
- --discovery-max-types={{ $controller.discovery.maxTypes }}
- --watch-max-concurrent-lists={{ $controller.discovery.maxConcurrentLists }}
{{- range $controller.discovery.disableNoiseRules }}
- --disable-noise-rule={{ . }}
{{- end }}
- --leader-elect={{ $controller.leaderElect }}
- --leases-renew-sec={{ $controller.leases.renewSec }}
- --leases-lease-sec={{ $controller.leases.leaseSec }}
{{- with $controller.leases.namespace }}
- --leases-namespace={{ . }}
{{- end }}
- --leases-take-over-after={{ $controller.leases.takeOverAfter }}
- --workers-max-global={{ $controller.workers.maxGlobal }}
- --workers-max-per-repo={{ $controller.workers.maxPerRepo }}
- --work-dir={{ $controller.workDir }}
- --git-batch-max-files={{ $controller.git.batch.maxFiles }}
- --git-batch-max-bytes-mib={{ $controller.git.batch.maxBytesMiB }}
- --git-batch-max-wait-sec={{ $controller.git.batch.maxWaitSec }}
- --git-batch-quiet-ms={{ $controller.git.batch.quietMs }}
- --git-poll-sec={{ $controller.git.pollSec }}
- --deletes-cap-per-cycle={{ $controller.deletes.capPerCycle }}
- --allow-url-schemes={{ join "," $controller.allowUrlSchemes }}
{{- range $controller.allowedRepoUrls }}
- --allowed-repo-urls={{ . }}
{{- end }}
- --secrets-mode={{ $controller.secretsMode }}
- {{ printf "--committer-name=%s" $controller.committer.name | quote }}
- {{ printf "--committer-email=%s" $controller.committer.email | quote }}
- --attribution-grace-ms={{ $controller.attribution.graceMs }}
- --attribution-ttl-sec={{ $controller.attribution.ttlSec }}
- --attribution-max-entries={{ $controller.attribution.maxEntries }}
- --attribution-store={{ $controller.attribution.store }}
{{- if $controller.attribution.storeSecret }}
- --attribution-store-credentials-dir=/etc/gitops-reverser/attribution-store
{{- end }}
{{- with $controller.attribution.authorMap }}
- --author-map-configmap={{ $.Release.Namespace }}/{{ . }}
{{- end }}
{{- $webhook := .Values.webhook }}
- --webhook-bind-address={{ if $webhook.enabled }}:9443{{ else }}0{{ end }}
{{- if $webhook.enabled }}
{{- with $webhook.url }}
- --webhook-url={{ . }}
{{- end }}
- --webhook-service-name={{ include "reverser.fullname" . }}-webhook
- --webhook-service-namespace={{ .Release.Namespace }}
- --webhook-configuration-name={{ include "reverser.fullname" . }}
{{- if include "reverser.webhookSecret" . }}
- --webhook-cert-dir=/etc/gitops-reverser/webhook
{{- if $webhook.certManager.enabled }}
- --webhook-inject-ca-from={{ .Release.Namespace }}/{{ include "reverser.fullname" . }}-webhook
{{- end }}
{{- else }}
- --webhook-certificate-secret={{ include "reverser.fullname" . }}-webhook-certificate
{{- end }}
{{- if $webhook.clientCaConfigMap }}
- --webhook-client-ca=/etc/gitops-reverser/client-ca/ca.crt
{{- end }}
{{- end }}
- --metrics-bind-address={{ if .Values.metrics.enabled }}:8080{{ else }}0{{ end }}
- --health-probe-bind-address=:8081
- --log-format={{ $controller.logFormat }}
- --log-level={{ $controller.logLevel }}
{{- with $controller.otlpEndpoint }}
- --otlp-endpoint={{ . }}
{{- end }}
{{- with $controller.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end -}}
