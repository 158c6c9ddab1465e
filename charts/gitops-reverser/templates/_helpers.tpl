{{/* The name of objects: at most 50 characters, because suffixes come after it. */}}
{{- define "reverser.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "reverser.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "reverser.labels" -}}
{{ include "reverser.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "reverser.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "reverser.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.create is false: write the name of an existing ServiceAccount into serviceAccount.name" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The ClusterRole with which everything goes that the operator makes; nothing, if there is none. */}}
{{- define "reverser.ownerClusterRole" -}}
{{- if .Values.rbac.ownerClusterRole -}}
{{ .Values.rbac.ownerClusterRole }}
{{- else if .Values.rbac.create -}}
{{ include "reverser.fullname" . }}
{{- end -}}
{{- end -}}

{{- define "reverser.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{/* The labels and more, of which those that are given count: (list . more). */}}
{{- define "reverser.labelsWith" -}}
{{- toYaml (merge (deepCopy (last .)) (include "reverser.labels" (first .) | fromYaml)) -}}
{{- end -}}

{{/* The Secret with certificates of the webhook that somebody else keeps; nothing, if the operator does. */}}
{{- define "reverser.webhookSecret" -}}
{{- if .Values.webhook.certManager.enabled -}}
{{ include "reverser.fullname" . }}-webhook-tls
{{- else -}}
{{ .Values.webhook.existingSecret }}
{{- end -}}
{{- end -}}
