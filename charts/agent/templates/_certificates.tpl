{{/* Names of the Secrets with certificates: the user's, or cert-manager's. */}}
{{- define "liqo-resource-broker-agent.webhookSecret" -}}
{{- default (printf "%s-webhook-tls" (include "liqo-resource-broker-agent.fullname" .)) .Values.certificates.existing.webhook -}}
{{- end -}}

{{- define "liqo-resource-broker-agent.consoleSecret" -}}
{{- default (printf "%s-console-tls" (include "liqo-resource-broker-agent.fullname" .)) .Values.certificates.existing.console -}}
{{- end -}}

{{- define "liqo-resource-broker-agent.metricsSecret" -}}
{{- default (printf "%s-metrics-tls" (include "liqo-resource-broker-agent.fullname" .)) .Values.certificates.existing.metrics -}}
{{- end -}}

{{/* Non-empty if cert-manager issues a certificate for the webhook, for the console, for the metrics, for any. */}}
{{- define "liqo-resource-broker-agent.issuesWebhook" -}}
{{- if and .Values.certificates.certManager.enabled .Values.webhook.enabled (not .Values.certificates.existing.webhook) }}true{{ end -}}
{{- end -}}

{{- define "liqo-resource-broker-agent.issuesConsole" -}}
{{- if and .Values.certificates.certManager.enabled .Values.console.enabled (not .Values.certificates.existing.console) }}true{{ end -}}
{{- end -}}

{{- define "liqo-resource-broker-agent.issuesMetrics" -}}
{{- if and .Values.certificates.certManager.enabled .Values.metrics.enabled .Values.metrics.secure (not .Values.certificates.existing.metrics) }}true{{ end -}}
{{- end -}}

{{- define "liqo-resource-broker-agent.issues" -}}
{{- include "liqo-resource-broker-agent.issuesWebhook" . -}}
{{- include "liqo-resource-broker-agent.issuesConsole" . -}}
{{- include "liqo-resource-broker-agent.issuesMetrics" . -}}
{{- end -}}

{{/* Spec of a serving certificate. Takes a list of the context and the purpose. */}}
{{- define "liqo-resource-broker-agent.servingCertificate" -}}
{{- $context := index . 0 -}}
{{- $fullname := include "liqo-resource-broker-agent.fullname" $context -}}
{{- $service := printf "%s-%s" $fullname (index . 1) -}}
secretName: {{ $service }}-tls
duration: {{ $context.Values.certificates.durations.server }}
dnsNames:
  - {{ $service }}
  - {{ $service }}.{{ $context.Release.Namespace }}
  - {{ $service }}.{{ $context.Release.Namespace }}.svc
  - {{ $service }}.{{ $context.Release.Namespace }}.svc.cluster.local
usages: [server auth, digital signature]
privateKey:
  algorithm: ECDSA
  size: 256
  rotationPolicy: Always
issuerRef:
  name: {{ $fullname }}-ca
  kind: Issuer
  group: cert-manager.io
{{- end -}}
