{{/*
The guard of tenant namespaces that the agent did not create: enforce, audit or off. YAML reads
off as false.
*/}}
{{- define "liqo-resource-broker-agent.elsewhere" -}}
{{- .Values.guard.elsewhere | toString | replace "false" "off" -}}
{{- end -}}

{{/* Non-empty if writes of peers are guarded. */}}
{{- define "liqo-resource-broker-agent.guardsPeers" -}}
{{- if and .Values.guard.enabled (include "liqo-resource-broker-agent.peers" .) }}true{{ end -}}
{{- end -}}

{{/* Non-empty if the agent's webhooks check and correct what peers write. */}}
{{- define "liqo-resource-broker-agent.mendsPeers" -}}
{{- if and (include "liqo-resource-broker-agent.guardsPeers" .) .Values.webhook.enabled }}true{{ end -}}
{{- end -}}

{{/*
Condition for pods that a ShadowPod controls in namespaces that Liqo created for consumers.
A consumer cannot create other pods there, and pods of an administrator do not belong to the
consumer.
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

{{/* Pod Security Standard of offloaded pods: baseline, restricted or off. YAML reads off as false. */}}
{{- define "liqo-resource-broker-agent.podSecurity" -}}
{{- ternary "off" (toString .Values.guard.podSecurity) (eq (toString .Values.guard.podSecurity) "false") -}}
{{- end -}}

{{/*
Condition for requests of the identities of reservations' slices. Liqo names an identity after its
slice, plus a hash of 12 letters. The condition needs neither the agent nor its objects.
*/}}
{{- define "liqo-resource-broker-agent.sliceIdentity" -}}
- name: of-a-slice
  expression: "request.userInfo.username.matches('^res-[a-z0-9]{10}-[1-9][0-9]*-[0-9a-f]{12}$')"
{{- end -}}

{{/* What the identities of slices write in offloaded namespaces. */}}
{{- define "liqo-resource-broker-agent.writtenBySlices" -}}
- apiGroups: [""]
  apiVersions: ["*"]
  operations: [CREATE, UPDATE, CONNECT]
  resources: [configmaps, secrets, services, persistentvolumeclaims, pods/exec, pods/attach, pods/portforward]
- apiGroups: [networking.k8s.io]
  apiVersions: ["*"]
  operations: [CREATE, UPDATE]
  resources: [ingresses]
- apiGroups: [offloading.liqo.io]
  apiVersions: ["*"]
  operations: [CREATE, UPDATE]
  resources: [shadowpods, shadowendpointslices]
{{- end -}}

{{/*
The bindings that must deny, each with a policy of the same name or as NAME=POLICY, separated by
commas.
*/}}
{{- define "liqo-resource-broker-agent.guardPolicies" -}}
{{- $fullname := include "liqo-resource-broker-agent.fullname" . -}}
{{- $names := list (printf "%s-actors" $fullname) -}}
{{- if .Values.guard.enabled }}{{ $names = concat $names (list $fullname (printf "%s-labels" $fullname)) }}{{ end -}}
{{- if include "liqo-resource-broker-agent.guardsPeers" . -}}
{{- range tuple "bindings" "edits" "evictions" "hold" "objects" "peers" "placements" "pods" "providers" "reservations" "rights" "slices" -}}
{{- $names = append $names (printf "%s-%s" $fullname .) -}}
{{- end -}}
{{- range $kind, $uses := fromYaml (include "liqo-resource-broker-agent.mountedKinds" .) }}{{ $names = append $names (printf "%s-foreign-%ss" $fullname (lower $kind | replace "persistentvolume" "")) }}{{ end -}}
{{- $names = append $names (printf "%[1]s-rights-rest=%[1]s-rights" $fullname) -}}
{{- if ne (include "liqo-resource-broker-agent.podSecurity" .) "off" }}{{ $names = append $names (printf "%s-pod-security" $fullname) }}{{ end -}}
{{- if .Values.webhook.enabled }}{{ $names = append $names (printf "%s-tolerations" $fullname) }}{{ end -}}
{{- if eq (include "liqo-resource-broker-agent.elsewhere" .) "enforce" }}{{ $names = append $names (printf "%[1]s-peers-elsewhere=%[1]s-peers" $fullname) }}{{ end -}}
{{- end -}}
{{- join "," $names -}}
{{- end -}}

{{/* Trusted ServiceAccounts of offloaded namespaces, as the end of a CEL expression. */}}
{{- define "liqo-resource-broker-agent.trustedResidents" -}}
{{- range .Values.guard.serviceAccounts }} || request.userInfo.username.endsWith(':{{ . }}'){{ end -}}
{{- end -}}

{{/* CEL expression: h is a host that the consumer may use in an Ingress. A cluster ID has no dot. */}}
{{- define "liqo-resource-broker-agent.allowedHost" -}}
{{- $terms := list -}}
{{- range .Values.guard.ingress.hosts -}}
{{- $host := replace "{consumer}" "' + variables.consumer + '" . -}}
{{- $terms = append $terms (printf "h == '%s'" $host) -}}
{{- if hasPrefix "*." . -}}
{{- $terms = append $terms (printf "h.endsWith('%s') && h.split('.').size() == %d" (trimPrefix "*" $host) (len (splitList "." .))) -}}
{{- end -}}
{{- end -}}
{{- join " || " $terms | default "false" -}}
{{- end -}}

{{/* CEL expression: k is an annotation by which kubectl, Helm, Argo CD and Liqo know objects. */}}
{{- define "liqo-resource-broker-agent.toolAnnotation" -}}
k.matches('^(kubectl[.]kubernetes[.]io|meta[.]helm[.]sh|argocd[.]argoproj[.]io|([^/]+[.])?liqo[.]io)/')
{{- end -}}

{{/* Networks of this cluster that may not contain address a, as the end of a CEL expression. */}}
{{- define "liqo-resource-broker-agent.deniedAddresses" -}}
{{- range .Values.guard.endpoints.deniedCIDRs }} && !cidr('{{ . }}').containsIP(ip(a)){{ end -}}
{{- end -}}

{{/*
CEL expression: k is a key in a domain of Liqo that no object of a user may have. Liqo recognizes
its own objects in all namespaces by such labels, and acts on them with its own rights. The keys
that are allowed say where an object comes from, or are options that users give Liqo for their
own objects. Keys of later versions of Liqo are refused until they are reviewed: see
charts/guardtest/labels.md.
*/}}
{{- define "liqo-resource-broker-agent.reservedKey" -}}
k.matches('^([^/]+[.])?liqo[.]io/') && !(k in [
'liqo.io/allow-reflection', 'liqo.io/anti-affinity-labels', 'liqo.io/anti-affinity-preset',
'liqo.io/api-server-support', 'liqo.io/creator-user', 'liqo.io/direct-connections-data',
'liqo.io/force-remote-node-port', 'liqo.io/managed-by', 'liqo.io/remote-access-modes',
'liqo.io/remote-runtime-class-name', 'liqo.io/remote-service-account-name',
'liqo.io/remote-storage-class', 'liqo.io/remote-unavailable', 'liqo.io/skip-reflection',
'liqo.io/use-direct-connections', 'offloading.liqo.io/destination', 'offloading.liqo.io/nodename',
'offloading.liqo.io/origin', 'offloading.liqo.io/service-account-expiration',
'offloading.liqo.io/service-account-for-pod-name', 'offloading.liqo.io/service-account-for-pod-uid',
'offloading.liqo.io/service-account-name'])
{{- end -}}

{{/*
The kinds of objects that a peer's objects use by name, each with a CEL expression: the pod, Ingress or
ShadowEndpointSlice uses variables.name. Volumes kube-api-access-… are not the author's: API servers
add them to every pod.
*/}}
{{- define "liqo-resource-broker-agent.mountedKinds" -}}
ConfigMap: >-
  variables.pod.?volumes.orValue([]).exists(v, v.?configMap.?name.orValue('') == variables.name ||
  !v.?name.orValue('').startsWith('kube-api-access-') && v.?projected.?sources.orValue([]).exists(s, s.?configMap.?name.orValue('') == variables.name)) ||
  variables.containers.exists(c, c.?envFrom.orValue([]).exists(e, e.?configMapRef.?name.orValue('') == variables.name) ||
  c.?env.orValue([]).exists(e, e.?valueFrom.?configMapKeyRef.?name.orValue('') == variables.name))
PersistentVolumeClaim: >-
  variables.pod.?volumes.orValue([]).exists(v, v.?persistentVolumeClaim.?claimName.orValue('') == variables.name)
Secret: >-
  variables.pod.?volumes.orValue([]).exists(v, v.?secret.?secretName.orValue('') == variables.name ||
  v.?projected.?sources.orValue([]).exists(s, s.?secret.?name.orValue('') == variables.name)) ||
  variables.containers.exists(c, c.?envFrom.orValue([]).exists(e, e.?secretRef.?name.orValue('') == variables.name) ||
  c.?env.orValue([]).exists(e, e.?valueFrom.?secretKeyRef.?name.orValue('') == variables.name)) ||
  variables.pod.?imagePullSecrets.orValue([]).exists(s, s.?name.orValue('') == variables.name) ||
  object.?spec.?tls.orValue([]).exists(t, t.?secretName.orValue('') == variables.name)
Service: >-
  object.kind == 'ShadowEndpointSlice' && object.metadata.?labels[?'kubernetes.io/service-name'].orValue('') == variables.name ||
  object.?spec.?rules.orValue([]).exists(r, r.?http.?paths.orValue([]).exists(p, p.backend.?service.?name.orValue('') == variables.name))
{{- end -}}

{{/* List of strings in CEL syntax, without the double quotes that YAML would interpret. */}}
{{- define "liqo-resource-broker-agent.celList" -}}
[{{ range $i, $item := . }}{{ if $i }}, {{ end }}'{{ $item }}'{{ end }}]
{{- end -}}

{{/* Non-empty if the agent limits the number of objects of peers. */}}
{{- define "liqo-resource-broker-agent.objectLimits" -}}
{{- if and (include "liqo-resource-broker-agent.guardsPeers" .) (or .Values.guard.limits.offloaded .Values.guard.limits.tenant) }}true{{ end -}}
{{- end -}}

{{/* The limits on kinds of Liqo. The agent applies each once Kubernetes counts that kind. */}}
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

{{/* Flags that say which guards the chart installs. */}}
{{- define "liqo-resource-broker-agent.guardArgs" }}
{{- if include "liqo-resource-broker-agent.guardsPeers" . }}
- --bind-slices
{{- end }}
- --guard-policies={{ include "liqo-resource-broker-agent.guardPolicies" . }}
{{- end -}}
