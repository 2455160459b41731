{{/* The namespace of a cluster's mailboxes. */}}
{{- define "liqo-resource-broker.mailboxNamespace" -}}
{{- default (printf "mailbox-%s" .clusterID) .namespace -}}
{{- end -}}
