{{/* Non-empty if placeholder pods keep reserved capacity. */}}
{{- define "liqo-resource-broker-agent.placeholders" -}}
{{- if and (eq .Values.hold.mode "Placeholder") (include "liqo-resource-broker-agent.peers" .) }}true{{ end -}}
{{- end -}}
