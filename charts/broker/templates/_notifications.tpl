{{/*
The Secrets that channels of notifications name, as JSON.
*/}}
{{- define "liqo-resource-broker.notificationSecrets" -}}
{{- $names := .Values.notifications.secrets }}
{{- range (.Values.brokerConfig).notifications }}
{{- range list .cloudEvents .slack .email }}
{{- with (.).secretRef }}
{{- $names = append $names .name }}
{{- end }}
{{- end }}
{{- end }}
{{- $names | uniq | sortAlpha | toJson }}
{{- end }}
