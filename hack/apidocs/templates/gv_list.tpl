{{- define "gvList" -}}
<!-- Written from the types under api/ by make generate. -->
# CRDs

Every field of every CRD, as in `kubectl explain`. [Architecture](architecture.md) explains how they work together, [examples](examples) show them in use, and [openapi.yaml](../api/rest/v1/openapi.yaml) describes the REST API that agents use.

{{ range . -}}
- **{{ .GroupVersionString }}**: {{ range $i, $kind := .SortedKinds }}{{ if $i }}, {{ end }}[{{ $kind }}](#{{ $kind | lower }}){{ end }}
{{ end }}
{{- range . }}
{{ template "gvDetails" . }}
{{ end }}
{{- end -}}
