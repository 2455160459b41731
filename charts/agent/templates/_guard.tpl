{{/*
How peers are guarded in tenant namespaces that the agent did not make: enforce, audit
or off. Audit and Deny are what the value was called before, and YAML reads off as false.
*/}}
{{- define "liqo-resource-broker-agent.elsewhere" -}}
{{- index (dict "enforce" "enforce" "Deny" "enforce" "audit" "audit" "Audit" "audit" "off" "off" "false" "off") (toString .Values.guard.elsewhere) -}}
{{- end -}}

{{/* Whether what peers write is guarded. */}}
{{- define "liqo-resource-broker-agent.guardsPeers" -}}
{{- if and .Values.guard.enabled (include "liqo-resource-broker-agent.peers" .) }}true{{ end -}}
{{- end -}}

{{/* Whether what peers write is mended, which takes a webhook. */}}
{{- define "liqo-resource-broker-agent.mendsPeers" -}}
{{- if and (include "liqo-resource-broker-agent.guardsPeers" .) .Values.webhook.enabled }}true{{ end -}}
{{- end -}}

{{/*
The pods that a ShadowPod controls, in namespaces that Liqo made for consumers. No consumer
can create any other pod there, and what an administrator creates is not the consumer's.
*/}}
{{- define "liqo-resource-broker-agent.offloadedPods" -}}
rules:
  - apiGroups: [""]
    apiVersions: [v1]
    operations: [CREATE]
    resources: [pods]
    scope: Namespaced
namespaceSelector:
  matchExpressions:
    - {key: liqo.io/remote-cluster-id, operator: Exists}
    - {key: liqo.io/tenant-namespace, operator: DoesNotExist}
matchConditions:
  - name: of-a-shadowpod
    expression: >-
      has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o,
      o.kind == 'ShadowPod' && o.apiVersion.startsWith('offloading.liqo.io/') && o.?controller.orValue(false))
{{- end -}}

{{/* The Pod Security Standard of offloaded pods: baseline, restricted or off, which YAML reads as false. */}}
{{- define "liqo-resource-broker-agent.podSecurity" -}}
{{- ternary "off" (toString .Values.guard.podSecurity) (eq (toString .Values.guard.podSecurity) "false") -}}
{{- end -}}

{{/*
Variables of every policy about offloaded namespaces: whose namespace it is, whether the
agent guards that consumer, and whether the caller is one of its identities. Variables are
computed when a rule asks for them.
*/}}
{{- define "liqo-resource-broker-agent.offloadedPeer" -}}
- name: consumer
  expression: "namespaceObject.metadata.labels['liqo.io/remote-cluster-id']"
- name: offloaded
  expression: >-
    has(params.status) && has(params.status.peerRights) && ('cluster.' + variables.consumer) in params.status.peerRights
- name: resident
  expression: "request.userInfo.username.startsWith('system:')"
- name: guarded
  expression: "variables.offloaded && !variables.resident && variables.consumer in request.userInfo.groups"
{{- end -}}

{{/* Service accounts of offloaded namespaces that the operator trusts, as the end of a CEL expression. */}}
{{- define "liqo-resource-broker-agent.trustedResidents" -}}
{{- range .Values.guard.serviceAccounts }} || request.userInfo.username.endsWith(':{{ . }}'){{ end -}}
{{- end -}}

{{/* Whether h is a host that consumers may use in an Ingress, as a CEL expression. */}}
{{- define "liqo-resource-broker-agent.allowedHost" -}}
{{- $terms := list -}}
{{- range .Values.guard.ingress.hosts -}}
{{- $terms = append $terms (printf "h == '%s'" .) -}}
{{- if hasPrefix "*." . -}}
{{- $terms = append $terms (printf "h.endsWith('%s') && h.split('.').size() == %d" (trimPrefix "*" .) (len (splitList "." .))) -}}
{{- end -}}
{{- end -}}
{{- join " || " $terms | default "false" -}}
{{- end -}}

{{/* Networks of this cluster in which a has no business, as the end of a CEL expression. */}}
{{- define "liqo-resource-broker-agent.deniedAddresses" -}}
{{- range .Values.guard.endpoints.deniedCIDRs }} && !cidr('{{ . }}').containsIP(ip(a)){{ end -}}
{{- end -}}

{{/* A list of strings as CEL writes it, without the double quotes that YAML would take. */}}
{{- define "liqo-resource-broker-agent.celList" -}}
[{{ range $i, $item := . }}{{ if $i }}, {{ end }}'{{ $item }}'{{ end }}]
{{- end -}}

{{/* Whether the agent bounds how many objects peers may have. */}}
{{- define "liqo-resource-broker-agent.objectLimits" -}}
{{- if and (include "liqo-resource-broker-agent.guardsPeers" .) (or .Values.guard.limits.offloaded .Values.guard.limits.tenant) }}true{{ end -}}
{{- end -}}

{{/* The limits of kinds of Liqo, with which the agent waits until Kubernetes counts these kinds. */}}
{{- define "liqo-resource-broker-agent.probedKinds" -}}
{{- $kinds := dict -}}
{{- if include "liqo-resource-broker-agent.objectLimits" . -}}
{{- range $limits := list .Values.guard.limits.offloaded .Values.guard.limits.tenant -}}
{{- range $name, $limit := $limits -}}
{{- if and (hasPrefix "count/" $name) (hasSuffix ".liqo.io" $name) }}{{ $_ := set $kinds $name true }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- keys $kinds | sortAlpha | join " " -}}
{{- end -}}
