{{/* Parts of every pod: broker, hooks, test. */}}
{{- define "liqo-resource-broker.podBasics" -}}
enableServiceLinks: {{ .Values.enableServiceLinks }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with .Values.schedulerName }}
schedulerName: {{ . }}
{{- end }}
{{- with .Values.hostAliases }}
hostAliases:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.dnsPolicy }}
dnsPolicy: {{ . }}
{{- end }}
{{- with .Values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "liqo-resource-broker.containerBasics" -}}
image: {{ include "liqo-resource-broker.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- with .Values.securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "liqo-resource-broker.args" -}}
- --namespace=$(POD_NAMESPACE)
- --zap-log-level={{ .Values.log.level }}
- --zap-encoder={{ .Values.log.format }}
- --bind-address=:8443
- --cert-path=/etc/broker/tls
- --health-probe-bind-address=:8081
- --journal-retention={{ .Values.journal.retention }}
- --metrics-bind-address={{ ternary ":8080" "0" .Values.metrics.enabled }}
- --metrics-members={{ int .Values.metrics.members }}
{{- with .Values.tracing.endpoint }}
- --otlp-endpoint={{ . }}
{{- end }}
{{- if and .Values.metrics.enabled .Values.metrics.secure }}
- --metrics-secure
- --metrics-cert-path=/etc/broker/metrics-tls
{{- end }}
{{- if .Values.leaderElection.enabled }}
- --leader-elect
- --direct-bind-address=:8445
- --advertise-address=$(POD_IP)
{{- end }}
{{- include "liqo-resource-broker.mailboxFlags" . }}
- --trust-domain={{ .Values.certificates.trustDomain }}
- --public-url={{ include "liqo-resource-broker.publicURL" . }}
{{- if .Values.enrolment.enabled }}
- --enrolment-bind-address=:8444
- --enrolment-public-url={{ include "liqo-resource-broker.enrolmentURL" . }}
- --agents-issuer-name={{ include "liqo-resource-broker.agentsIssuer" . }}
- --agents-issuer-kind={{ include "liqo-resource-broker.agentsIssuerKind" . }}
- --agent-certificate-duration={{ .Values.certificates.durations.agent }}
{{- end }}
{{- if .Values.console.enabled }}
- --console-bind-address=:8446
- --console-cert-path=/etc/broker/console-tls
{{- if .Values.console.actions }}
- --console-actions
{{- end }}
{{- end }}
{{- if .Values.notifications.loopback }}
- --notify-loopback
{{- end }}
{{- if .Values.export.enabled }}
- --export-directory=/var/lib/broker/export
{{- end }}
{{- if .Values.webhook.enabled }}
- --webhook-bind-address=:9443
- --webhook-cert-path=/etc/broker/webhook-tls
{{- end }}
{{- with .Values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "liqo-resource-broker.podEnv" -}}
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: POD_IP
  valueFrom:
    fieldRef:
      fieldPath: status.podIP
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/*
Only the certificate of the agents' CA is mounted, never its key. Files of a projected
volume follow changes of their Secrets; a subPath would not.
*/}}
{{- define "liqo-resource-broker.volumes" -}}
- name: tls
  projected:
    defaultMode: 0440
    sources:
      - secret:
          name: {{ include "liqo-resource-broker.tlsSecret" . }}
          items:
            - key: tls.crt
              path: tls.crt
            - key: tls.key
              path: tls.key
            - key: ca.crt
              path: ca.crt
      - secret:
          {{- if .Values.certificates.existing.agentsCA }}
          name: {{ .Values.certificates.existing.agentsCA }}
          items:
            - key: ca.crt
              path: agents-ca.crt
          {{- else }}
          name: {{ include "liqo-resource-broker.fullname" . }}-agents-ca
          items:
            - key: tls.crt
              path: agents-ca.crt
          {{- end }}
      - configMap:
          name: {{ include "liqo-resource-broker.fullname" . }}-additional-roots
          items:
            - key: servers
              path: ca-additional.crt
            - key: agents
              path: agents-ca-additional.crt
{{- if .Values.webhook.enabled }}
- name: webhook-tls
  secret:
    secretName: {{ include "liqo-resource-broker.webhookSecret" . }}
    defaultMode: 0440
    items:
      - key: tls.crt
        path: tls.crt
      - key: tls.key
        path: tls.key
{{- end }}
{{- if .Values.console.enabled }}
- name: console-tls
  secret:
    secretName: {{ include "liqo-resource-broker.consoleSecret" . }}
    defaultMode: 0440
    items:
      - key: tls.crt
        path: tls.crt
      - key: tls.key
        path: tls.key
{{- end }}
{{- if and .Values.metrics.enabled .Values.metrics.secure }}
- name: metrics-tls
  secret:
    secretName: {{ include "liqo-resource-broker.metricsSecret" . }}
    defaultMode: 0440
    items:
      - key: tls.crt
        path: tls.crt
      - key: tls.key
        path: tls.key
{{- end }}
{{- if .Values.export.enabled }}
- name: export
  persistentVolumeClaim:
    claimName: {{ .Values.export.existingClaim | default (printf "%s-export" (include "liqo-resource-broker.fullname" .)) }}
{{- end }}
{{- with .Values.volumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "liqo-resource-broker.volumeMounts" -}}
- name: tls
  mountPath: /etc/broker/tls
  readOnly: true
{{- if .Values.webhook.enabled }}
- name: webhook-tls
  mountPath: /etc/broker/webhook-tls
  readOnly: true
{{- end }}
{{- if .Values.console.enabled }}
- name: console-tls
  mountPath: /etc/broker/console-tls
  readOnly: true
{{- end }}
{{- if and .Values.metrics.enabled .Values.metrics.secure }}
- name: metrics-tls
  mountPath: /etc/broker/metrics-tls
  readOnly: true
{{- end }}
{{- if .Values.export.enabled }}
- name: export
  mountPath: /var/lib/broker/export
{{- end }}
{{- with .Values.volumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "liqo-resource-broker.ports" -}}
- name: rest
  containerPort: 8443
  protocol: TCP
- name: health
  containerPort: 8081
  protocol: TCP
{{- if .Values.leaderElection.enabled }}
- name: direct
  containerPort: 8445
  protocol: TCP
{{- end }}
{{- if .Values.enrolment.enabled }}
- name: enrolment
  containerPort: 8444
  protocol: TCP
{{- end }}
{{- if .Values.webhook.enabled }}
- name: webhook
  containerPort: 9443
  protocol: TCP
{{- end }}
{{- if .Values.console.enabled }}
- name: console
  containerPort: 8446
  protocol: TCP
{{- end }}
{{- if .Values.metrics.enabled }}
- name: metrics
  containerPort: 8080
  protocol: TCP
{{- end }}
{{- end -}}

{{- define "liqo-resource-broker.spread" -}}
{{- range .Values.topologySpreadConstraints }}
{{- $selector := dict "matchLabels" (include "liqo-resource-broker.selectorLabels" $ | fromYaml) }}
- {{- merge (dict) . (dict "labelSelector" $selector) | toYaml | nindent 2 }}
{{- end }}
{{- end -}}
