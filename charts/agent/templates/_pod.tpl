{{/* Parts of every pod: agent, hooks, test. */}}
{{- define "liqo-resource-broker-agent.podBasics" -}}
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

{{- define "liqo-resource-broker-agent.containerBasics" -}}
image: {{ include "liqo-resource-broker-agent.image" . | quote }}
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

{{/* Address of the broker, for the agent, its hooks and its test. */}}
{{- define "liqo-resource-broker-agent.brokerArgs" -}}
{{- with .Values.broker.urls }}
- --broker-url={{ join "," . }}
{{- end }}
{{- if .Values.broker.kubernetes.existingSecret }}
- --broker-kubeconfig=/etc/agent/broker/kubeconfig
- --broker-namespace={{ .Values.broker.kubernetes.namespace }}
{{- end }}
{{- end -}}

{{- define "liqo-resource-broker-agent.brokerVolume" -}}
{{- with .Values.broker.kubernetes.existingSecret }}
- name: broker
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- end -}}

{{- define "liqo-resource-broker-agent.brokerMount" -}}
{{- if .Values.broker.kubernetes.existingSecret }}
- name: broker
  mountPath: /etc/agent/broker
  readOnly: true
{{- end }}
{{- end -}}

{{/* The flags on which it depends whether a configuration file is valid. */}}
{{- define "liqo-resource-broker-agent.offerArgs" }}
{{- range .Values.cluster.nodeLabels }}
- --node-labels={{ . }}
{{- end }}
- --peering-mode={{ .Values.peeringMode }}
{{- if include "liqo-resource-broker-agent.placeholders" . }}
- --hold=Placeholder
{{- end }}
{{- if .Values.webhook.enabled }}
- --webhook-bind-address=:9443
{{- end }}
{{- end -}}

{{- define "liqo-resource-broker-agent.args" -}}
- --zap-log-level={{ .Values.log.level }}
- --zap-encoder={{ .Values.log.format }}
- --broker-cert-path=/etc/agent/tls
{{- if .Values.config }}
- --config=/etc/agent/config/agent.yaml
{{- end }}
{{- include "liqo-resource-broker-agent.brokerArgs" . }}
{{- if not .Values.identity.existingSecret }}
- --identity-secret={{ include "liqo-resource-broker-agent.identitySecret" . }}
{{- end }}
{{- with .Values.enrolment.url }}
- --enrolment-url={{ . }}
- --enrolment-ca-hash={{ $.Values.enrolment.caHash }}
{{- if or $.Values.enrolment.token $.Values.enrolment.existingSecret }}
- --enrolment-token=env:ENROLMENT_TOKEN
{{- end }}
{{- end }}
{{- with .Values.cluster.id }}
- --cluster-id={{ . }}
{{- end }}
{{- with .Values.cluster.name }}
- --cluster-name={{ . }}
{{- end }}
{{- with .Values.cluster.endpointURL }}
- --endpoint-url={{ . }}
{{- end }}
{{- include "liqo-resource-broker-agent.offerArgs" . }}
{{- if .Values.kubeconfigs.existingSecret }}
- --kubeconfigs-dir=/etc/agent/kubeconfigs
{{- end }}
- --accept-broker-reservations={{ .Values.acceptBrokerReservations }}
- --actor={{ .Values.actor }}
- --liqo-namespace={{ .Values.liqo.namespace }}
{{- with .Values.guard.allowedProxies }}
- --allowed-proxies={{ join "," . }}
{{- end }}
- --networking={{ .Values.networking.mode }}
- --gateway-service-type={{ .Values.networking.gatewayServiceType }}
- --advertisement-name={{ .Values.advertisement.name }}
- --advertisement-namespace={{ .Values.advertisement.namespace }}
- --advertisement-requeue-interval={{ .Values.advertisement.interval }}
- --instruction-namespace={{ .Values.instructions.namespace }}
- --instruction-poll-interval={{ .Values.instructions.pollInterval }}
- --reclaim-timeout={{ .Values.reclaimTimeout }}
- --give-up-timeout={{ .Values.giveUpTimeout }}
- --expiry-notice={{ .Values.ending.notice }}
- --drain-timeout={{ .Values.ending.drainTimeout }}
{{- with .Values.tracing.endpoint }}
- --otlp-endpoint={{ . }}
{{- end }}
{{- if .Values.autoscaling.provisioningRequests.enabled }}
- --provisioning-requests
{{- end }}
{{- if .Values.autoscaling.capacityBuffers.enabled }}
- --capacity-buffers
{{- end }}
{{- if .Values.autoscaling.burstPolicies.enabled }}
- --burst-policies
{{- end }}
{{- if include "liqo-resource-broker-agent.objectLimits" . }}
{{- range $name, $limit := .Values.guard.limits.offloaded }}
- --offloaded-object-limits={{ $name }}={{ $limit }}
{{- end }}
{{- range $name, $limit := .Values.guard.limits.tenant }}
- --tenant-object-limits={{ $name }}={{ $limit }}
{{- end }}
{{- if include "liqo-resource-broker-agent.probedKinds" . }}
- --object-limits-probe={{ include "liqo-resource-broker-agent.fullname" . }}-objects
{{- end }}
{{- end }}
{{- if include "liqo-resource-broker-agent.placeholders" . }}
- --placeholder-image={{ .Values.hold.placeholder.image }}
- --placeholder-priority-class={{ include "liqo-resource-broker-agent.fullname" . }}-placeholder
{{- end }}
- --health-probe-bind-address=:8081
- --metrics-bind-address={{ ternary ":8080" "0" .Values.metrics.enabled }}
{{- if and .Values.metrics.enabled .Values.metrics.secure }}
- --metrics-secure
- --metrics-cert-path=/etc/agent/metrics-tls
{{- end }}
{{- if .Values.leaderElection.enabled }}
- --leader-elect
{{- end }}
{{- include "liqo-resource-broker-agent.guardArgs" . }}
{{- if include "liqo-resource-broker-agent.guardsPeers" . }}
{{- if ne (include "liqo-resource-broker-agent.podSecurity" .) "off" }}
- --forbid-host-access
{{- end }}
{{- end }}
{{- if include "liqo-resource-broker-agent.mendsPeers" . }}
- --peer-certificate-lifetime={{ .Values.guard.certificateLifetime }}
{{- if eq (include "liqo-resource-broker-agent.elsewhere" .) "enforce" }}
- --guard-elsewhere
{{- end }}
{{- end }}
{{- if .Values.console.enabled }}
- --console-bind-address=:8446
- --console-cert-path=/etc/agent/console-tls
{{- if .Values.console.actions }}
- --console-actions
{{- end }}
{{- end }}
{{- if .Values.webhook.enabled }}
- --webhook-cert-path=/etc/agent/webhook-tls
{{- end }}
{{- with .Values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/*
The enrolment token, for the agent only. The agent starts even if the token's Secret was
deleted after enrolment.
*/}}
{{- define "liqo-resource-broker-agent.tokenEnv" -}}
{{- if or .Values.enrolment.token .Values.enrolment.existingSecret }}
- name: ENROLMENT_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ default (printf "%s-enrolment" (include "liqo-resource-broker-agent.fullname" .)) .Values.enrolment.existingSecret }}
      key: token
      optional: true
{{- end }}
{{- end -}}

{{- define "liqo-resource-broker-agent.podEnv" -}}
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
An enrolled agent stores its identity in a Secret that it creates, and copies it into an
in-memory volume for components that read files.
*/}}
{{- define "liqo-resource-broker-agent.volumes" -}}
- name: tls
  {{- if .Values.identity.existingSecret }}
  secret:
    secretName: {{ .Values.identity.existingSecret }}
    defaultMode: 0440
  {{- else }}
  emptyDir:
    medium: Memory
    sizeLimit: 1Mi
  {{- end }}
{{- if .Values.webhook.enabled }}
- name: webhook-tls
  secret:
    secretName: {{ include "liqo-resource-broker-agent.webhookSecret" . }}
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
    secretName: {{ include "liqo-resource-broker-agent.consoleSecret" . }}
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
    secretName: {{ include "liqo-resource-broker-agent.metricsSecret" . }}
    defaultMode: 0440
    items:
      - key: tls.crt
        path: tls.crt
      - key: tls.key
        path: tls.key
{{- end }}
{{- include "liqo-resource-broker-agent.configVolume" . }}
{{- include "liqo-resource-broker-agent.brokerVolume" . }}
{{- with .Values.kubeconfigs.existingSecret }}
- name: kubeconfigs
  secret:
    secretName: {{ . }}
    defaultMode: 0440
    optional: true
{{- end }}
{{- with .Values.volumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "liqo-resource-broker-agent.volumeMounts" -}}
- name: tls
  mountPath: /etc/agent/tls
  {{- if .Values.identity.existingSecret }}
  readOnly: true
  {{- end }}
{{- if .Values.webhook.enabled }}
- name: webhook-tls
  mountPath: /etc/agent/webhook-tls
  readOnly: true
{{- end }}
{{- if .Values.console.enabled }}
- name: console-tls
  mountPath: /etc/agent/console-tls
  readOnly: true
{{- end }}
{{- if and .Values.metrics.enabled .Values.metrics.secure }}
- name: metrics-tls
  mountPath: /etc/agent/metrics-tls
  readOnly: true
{{- end }}
{{- include "liqo-resource-broker-agent.configMount" . }}
{{- include "liqo-resource-broker-agent.brokerMount" . }}
{{- if .Values.kubeconfigs.existingSecret }}
- name: kubeconfigs
  mountPath: /etc/agent/kubeconfigs
  readOnly: true
{{- end }}
{{- with .Values.volumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The agent watches the file, so an upgrade that changes it restarts nothing. */}}
{{- define "liqo-resource-broker-agent.configVolume" -}}
{{- if .Values.config }}
- name: config
  configMap:
    name: {{ include "liqo-resource-broker-agent.fullname" . }}-config
{{- end }}
{{- end -}}

{{- define "liqo-resource-broker-agent.configMount" -}}
{{- if .Values.config }}
- name: config
  mountPath: /etc/agent/config
  readOnly: true
{{- end }}
{{- end -}}

{{- define "liqo-resource-broker-agent.ports" -}}
- name: health
  containerPort: 8081
  protocol: TCP
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

{{- define "liqo-resource-broker-agent.spread" -}}
{{- range .Values.topologySpreadConstraints }}
{{- $selector := dict "matchLabels" (include "liqo-resource-broker-agent.selectorLabels" $ | fromYaml) }}
- {{- merge (dict) . (dict "labelSelector" $selector) | toYaml | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The identity for hooks and tests. They start even if it does not exist yet. */}}
{{- define "liqo-resource-broker-agent.identityVolume" -}}
- name: identity
  secret:
    secretName: {{ default (include "liqo-resource-broker-agent.identitySecret" .) .Values.identity.existingSecret }}
    defaultMode: 0440
    optional: true
{{- end -}}
