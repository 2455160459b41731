{{- define "type_members" -}}
{{- if eq .Name "metadata" -}}
as of every object
{{- else -}}
{{ markdownRenderFieldDoc .Doc }}
{{- end -}}
{{- end -}}
