{{/* Names of the Secrets with certificates: the user's, or cert-manager's. */}}
{{- define "liqo-resource-broker.tlsSecret" -}}
{{- default (printf "%s-tls" (include "liqo-resource-broker.fullname" .)) .Values.certificates.existing.tls -}}
{{- end -}}

{{- define "liqo-resource-broker.webhookSecret" -}}
{{- default (printf "%s-webhook-tls" (include "liqo-resource-broker.fullname" .)) .Values.certificates.existing.webhook -}}
{{- end -}}

{{- define "liqo-resource-broker.consoleSecret" -}}
{{- default (printf "%s-console-tls" (include "liqo-resource-broker.fullname" .)) .Values.certificates.existing.console -}}
{{- end -}}

{{- define "liqo-resource-broker.metricsSecret" -}}
{{- default (printf "%s-metrics-tls" (include "liqo-resource-broker.fullname" .)) .Values.certificates.existing.metrics -}}
{{- end -}}

{{- define "liqo-resource-broker.agentsIssuer" -}}
{{- default (printf "%s-agents-ca" (include "liqo-resource-broker.fullname" .)) .Values.certificates.issuers.agents.name -}}
{{- end -}}

{{/* issuerRef of the certificates of broker, webhook, console and metrics. */}}
{{- define "liqo-resource-broker.serversIssuerRef" -}}
name: {{ default (printf "%s-servers-ca" (include "liqo-resource-broker.fullname" .)) .Values.certificates.issuers.servers.name }}
kind: {{ ternary .Values.certificates.issuers.servers.kind "Issuer" (ne .Values.certificates.issuers.servers.name "") }}
group: cert-manager.io
{{- end -}}

{{- define "liqo-resource-broker.agentsIssuerKind" -}}
{{- ternary .Values.certificates.issuers.agents.kind "Issuer" (ne .Values.certificates.issuers.agents.name "") -}}
{{- end -}}

{{/* dnsNames of a Service of this release. Takes a list of the context and the Service. */}}
{{- define "liqo-resource-broker.serviceNames" -}}
{{- $context := index . 0 -}}
{{- $service := index . 1 -}}
- {{ $service }}
- {{ $service }}.{{ $context.Release.Namespace }}
- {{ $service }}.{{ $context.Release.Namespace }}.svc
- {{ $service }}.{{ $context.Release.Namespace }}.svc.cluster.local
{{- end -}}

{{/* Non-empty if the chart has its own CA for servers, for agents. */}}
{{- define "liqo-resource-broker.makesServersCA" -}}
{{- if and .Values.certificates.certManager.enabled (not .Values.certificates.issuers.servers.name) }}true{{ end -}}
{{- end -}}

{{- define "liqo-resource-broker.makesAgentsCA" -}}
{{- if and .Values.certificates.certManager.enabled (not .Values.certificates.issuers.agents.name) (not .Values.certificates.existing.agentsCA) }}true{{ end -}}
{{- end -}}

{{/* Every certificate gets a new key. */}}
{{- define "liqo-resource-broker.privateKey" -}}
algorithm: ECDSA
size: 256
rotationPolicy: Always
{{- end -}}

{{/* Non-empty if cert-manager writes its CA into the webhook configuration. */}}
{{- define "liqo-resource-broker.injectCA" -}}
{{- if not .Values.certificates.existing.webhook }}true{{ end -}}
{{- end -}}
