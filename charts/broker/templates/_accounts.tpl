{{/* ServiceAccounts of hooks and test: their own, or the user's existing account for all. */}}
{{- define "liqo-resource-broker.uninstallAccount" -}}
{{- if .Values.serviceAccount.create }}{{ include "liqo-resource-broker.fullname" . }}-uninstall{{ else }}{{ .Values.serviceAccount.name }}{{ end -}}
{{- end -}}

{{- define "liqo-resource-broker.checkAccount" -}}
{{- if .Values.serviceAccount.create }}{{ include "liqo-resource-broker.fullname" . }}-check{{ else }}{{ .Values.serviceAccount.name }}{{ end -}}
{{- end -}}

{{- define "liqo-resource-broker.configureAccount" -}}
{{- if .Values.serviceAccount.create }}{{ include "liqo-resource-broker.fullname" . }}-configure{{ else }}{{ .Values.serviceAccount.name }}{{ end -}}
{{- end -}}

{{/* Timeout of a hook's Job: uninstall.timeout plus one minute to start. */}}
{{- define "liqo-resource-broker.uninstallSeconds" -}}
{{- $seconds := 60 -}}
{{- range regexFindAll "[0-9]+[hms]" .Values.uninstall.timeout -1 -}}
{{- $seconds = add $seconds (mul (trimSuffix (substr (sub (len .) 1 | int) (len .) .) . | int) (index (dict "h" 3600 "m" 60 "s" 1) (substr (sub (len .) 1 | int) (len .) .))) -}}
{{- end -}}
{{- $seconds -}}
{{- end -}}
