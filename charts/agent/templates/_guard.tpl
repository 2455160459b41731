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
