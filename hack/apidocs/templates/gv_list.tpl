{{- define "gvList" -}}
<!-- Written from the types under api/ by make generate. -->
# Kinds

Every field of every kind. How they play together stands in [architecture.md](architecture.md), [examples](examples) show them in use, and `kubectl explain` says the same as this page. The REST API that agents use is described by [openapi.yaml](../api/rest/v1/openapi.yaml).

{{ range . -}}
- **{{ .GroupVersionString }}**: {{ range $i, $kind := .SortedKinds }}{{ if $i }}, {{ end }}[{{ $kind }}](#{{ $kind | lower }}){{ end }}
{{ end }}
{{- range . }}
{{ template "gvDetails" . }}
{{ end }}
{{- end -}}
