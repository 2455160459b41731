{{/* The namespace of a cluster's mailboxes. */}}
{{- define "liqo-resource-broker.mailboxNamespace" -}}
{{- default (printf "mailbox-%s" .clusterID) .namespace -}}
{{- end -}}

{{/* Whose mailboxes are answered, for the broker and for who looks at it. */}}
{{- define "liqo-resource-broker.mailboxFlags" -}}
{{- range .Values.mailboxes.clusters }}
- --mailboxes={{ .clusterID }}={{ include "liqo-resource-broker.mailboxNamespace" . }}
{{- end }}
{{- end -}}
