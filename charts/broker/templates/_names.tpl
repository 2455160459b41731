{{- define "liqo-resource-broker.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 43 | trimSuffix "-" -}}
{{- end -}}

{{/*
Prefix of object names. It leaves 20 characters for suffixes. A longer name is cut and gets
a digest, so that names with the same beginning stay distinct.
*/}}
{{- define "liqo-resource-broker.fullname" -}}
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

{{- define "liqo-resource-broker.serviceAccountName" -}}
{{- default (include "liqo-resource-broker.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "liqo-resource-broker.image" -}}
{{- with .Values.image -}}
{{- if .registry }}{{ .registry }}/{{ end }}{{ .repository -}}
{{- if .digest }}@{{ .digest }}{{ else }}:{{ default $.Chart.AppVersion .tag }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "liqo-resource-broker.selectorLabels" -}}
app.kubernetes.io/name: {{ include "liqo-resource-broker.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: broker
{{- end -}}

{{/* The selector labels as one command-line argument: key=value,key=value. */}}
{{- define "liqo-resource-broker.selector" -}}
{{- $selector := include "liqo-resource-broker.selectorLabels" . | fromYaml -}}
{{- $terms := list -}}
{{- range $key, $value := $selector -}}
{{- $terms = append $terms (printf "%s=%s" $key $value) -}}
{{- end -}}
{{- join "," $terms -}}
{{- end -}}

{{- define "liqo-resource-broker.labels" -}}
app.kubernetes.io/name: {{ include "liqo-resource-broker.name" . }}
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
{{- define "liqo-resource-broker.labelsWith" -}}
{{- merge (dict) (index . 1) (include "liqo-resource-broker.labels" (index . 0) | fromYaml) | toYaml -}}
{{- end -}}

{{/* The https address that agents receive, and the one at which they enrol. */}}
{{- define "liqo-resource-broker.publicURL" -}}
{{- default (printf "https://%s.%s.svc:%v" (include "liqo-resource-broker.fullname" .) .Release.Namespace .Values.service.ports.rest) .Values.publicURL -}}
{{- end -}}

{{- define "liqo-resource-broker.enrolmentURL" -}}
{{- $host := (urlParse (include "liqo-resource-broker.publicURL" .)).hostname -}}
{{- if contains ":" $host }}{{ $host = printf "[%s]" $host }}{{ end -}}
{{- default (printf "https://%s:%v" $host .Values.service.ports.enrolment) .Values.enrolmentURL -}}
{{- end -}}
