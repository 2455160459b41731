{{- define "liqo-resource-broker-agent.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 43 | trimSuffix "-" -}}
{{- end -}}

{{/*
Prefix of object names. It leaves 20 characters for suffixes. A longer name is cut and gets
a digest, so that names with the same beginning stay distinct.
*/}}
{{- define "liqo-resource-broker-agent.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := .Values.fullnameOverride -}}
{{- if not $full -}}
{{- $full = ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- end -}}
{{- if gt (len $full) 43 -}}
{{- $full = printf "%s-%s" ($full | trunc 36 | trimSuffix "-") (sha256sum $full | trunc 6) -}}
{{- end -}}
{{- $full -}}
{{- end -}}

{{- define "liqo-resource-broker-agent.serviceAccountName" -}}
{{- default (include "liqo-resource-broker-agent.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "liqo-resource-broker-agent.image" -}}
{{- with .Values.image -}}
{{- if .registry }}{{ .registry }}/{{ end }}{{ .repository -}}
{{- if .digest }}@{{ .digest }}{{ else }}:{{ default $.Chart.AppVersion .tag }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "liqo-resource-broker-agent.selectorLabels" -}}
app.kubernetes.io/name: {{ include "liqo-resource-broker-agent.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: agent
{{- end -}}

{{/* The selector labels as one command-line argument: key=value,key=value. */}}
{{- define "liqo-resource-broker-agent.selector" -}}
{{- $selector := include "liqo-resource-broker-agent.selectorLabels" . | fromYaml -}}
{{- $terms := list -}}
{{- range $key, $value := $selector -}}
{{- $terms = append $terms (printf "%s=%s" $key $value) -}}
{{- end -}}
{{- join "," $terms -}}
{{- end -}}

{{- define "liqo-resource-broker-agent.labels" -}}
app.kubernetes.io/name: {{ include "liqo-resource-broker-agent.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: liqo-resource-broker
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The labels of every object plus others, which take precedence. Takes a list of the context and labels. */}}
{{- define "liqo-resource-broker-agent.labelsWith" -}}
{{- merge (dict) (index . 1) (include "liqo-resource-broker-agent.labels" (index . 0) | fromYaml) | toYaml -}}
{{- end -}}

{{/* Secret in which an enrolled agent keeps its key and certificate. */}}
{{- define "liqo-resource-broker-agent.identitySecret" -}}
{{ include "liqo-resource-broker-agent.fullname" . }}-identity
{{- end -}}

{{/* Non-empty if the agent peers through Liqo. */}}
{{- define "liqo-resource-broker-agent.peers" -}}
{{- if ne .Values.peeringMode "none" }}true{{ end -}}
{{- end -}}

{{/* Non-empty if the agent may connect networks. */}}
{{- define "liqo-resource-broker-agent.connects" -}}
{{- if and (include "liqo-resource-broker-agent.peers" .) (ne .Values.networking.mode "disabled") }}true{{ end -}}
{{- end -}}
