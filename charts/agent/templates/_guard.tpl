{{/*
How peers are guarded in tenant namespaces that the agent did not make: enforce, audit
or off. Audit and Deny are what the value was called before, and YAML reads off as false.
*/}}
{{- define "liqo-resource-broker-agent.elsewhere" -}}
{{- index (dict "enforce" "enforce" "Deny" "enforce" "audit" "audit" "Audit" "audit" "off" "off" "false" "off") (toString .Values.guard.elsewhere) -}}
{{- end -}}

{{/* Whether what peers write is guarded. */}}
{{- define "liqo-resource-broker-agent.guardsPeers" -}}
{{- if and .Values.guard.enabled (include "liqo-resource-broker-agent.peers" .) }}true{{ end -}}
{{- end -}}

{{/* Whether what peers write is mended, which takes a webhook. */}}
{{- define "liqo-resource-broker-agent.mendsPeers" -}}
{{- if and (include "liqo-resource-broker-agent.guardsPeers" .) .Values.webhook.enabled }}true{{ end -}}
{{- end -}}
