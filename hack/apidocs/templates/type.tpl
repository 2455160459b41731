{{- define "type" -}}
{{- if markdownShouldRenderType . }}
### {{ .Name }}

{{ .Doc }}
{{- if .IsAlias }}

A {{ markdownRenderTypeLink .UnderlyingType }}.
{{- end }}
{{- with .SortedReferences }}

Used in {{ range $i, $type := . }}{{ if $i }}, {{ end }}{{ markdownRenderTypeLink $type }}{{ end }}.
{{- end }}
{{- if .Members }}

| field | | bounds |
|---|---|---|
{{- range .Members }}
| `{{ .Name }}` {{ markdownRenderType .Type }} | {{ template "type_members" . }} |{{ range .Validation }}{{ if not (regexMatch "^(Required|Optional|(items:)?XValidation)" .) }} {{ markdownRenderFieldDoc . }}<br />{{ end }}{{ end }} |
{{- end }}
{{- end }}
{{- if .EnumValues }}

| value | |
|---|---|
{{- range .EnumValues }}
| `{{ .Name }}` | {{ markdownRenderFieldDoc .Doc }} |
{{- end }}
{{- end }}
{{ end -}}
{{- end -}}
