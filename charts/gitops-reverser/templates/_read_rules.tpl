{{/*
What may be read to be mirrored. Mode "preset" is the list of types that an empty rule selects; a test
compares it with the program. Secrets are apart from it, because they can be taken away.
*/}}
{{- define "reverser.readRules" -}}
{{- $read := list "list" "watch" -}}
{{- $rbac := .Values.rbac -}}
{{- $rules := list -}}
{{- if eq $rbac.mode "all" -}}
{{- if $rbac.secrets -}}
{{- $rules = append $rules (dict "apiGroups" (list "*") "resources" (list "*") "verbs" $read) -}}
{{- else -}}
{{- $rules = append $rules (dict "apiGroups" (list "") "resources" (list "configmaps" "endpoints" "events" "limitranges" "namespaces" "nodes" "persistentvolumeclaims" "persistentvolumes" "pods" "podtemplates" "replicationcontrollers" "resourcequotas" "serviceaccounts" "services") "verbs" $read) -}}
{{- $groups := list "admissionregistration.k8s.io" "apiextensions.k8s.io" "apiregistration.k8s.io" "apps" "autoscaling" "batch" "certificates.k8s.io" "configbutler.ai" "coordination.k8s.io" "discovery.k8s.io" "events.k8s.io" "flowcontrol.apiserver.k8s.io" "networking.k8s.io" "node.k8s.io" "policy" "rbac.authorization.k8s.io" "resource.k8s.io" "scheduling.k8s.io" "storage.k8s.io" -}}
{{- $rules = append $rules (dict "apiGroups" (concat $groups $rbac.customGroups) "resources" (list "*") "verbs" $read) -}}
{{- end -}}
{{- else if eq $rbac.mode "preset" -}}
{{- $core := list "configmaps" "limitranges" "resourcequotas" "serviceaccounts" "services" -}}
{{- if $rbac.secrets -}}
{{- $core = append $core "secrets" -}}
{{- end -}}
{{- range list
  (list "" $core)
  (list "apiextensions.k8s.io" (list "customresourcedefinitions"))
  (list "apiregistration.k8s.io" (list "apiservices"))
  (list "apps" (list "daemonsets" "deployments" "statefulsets"))
  (list "networking.k8s.io" (list "ingresses" "networkpolicies"))
  (list "policy" (list "poddisruptionbudgets"))
  (list "rbac.authorization.k8s.io" (list "clusterrolebindings" "clusterroles" "rolebindings" "roles"))
  (list "scheduling.k8s.io" (list "priorityclasses"))
  (list "storage.k8s.io" (list "storageclasses")) -}}
{{- $rules = append $rules (dict "apiGroups" (list (first .)) "resources" (last .) "verbs" $read) -}}
{{- end -}}
{{- end -}}
{{- if and (eq $rbac.mode "custom") (not $rbac.customRules) -}}
{{- fail "rbac.mode is custom: write the rules into rbac.customRules, or choose rbac.mode preset or all" -}}
{{- end -}}
{{- toYaml (concat $rules $rbac.customRules) -}}
{{- end -}}
