{{/* Refuses combinations of values that are valid one by one. Each message names the key and the remedy. */}}
{{- define "liqo-resource-broker-agent.refuse" -}}
{{- if and (not .Values.console.enabled) (or .Values.console.actions .Values.console.ingress.host .Values.console.httpRoute.parentRefs) -}}
{{- fail "console.actions, console.ingress and console.httpRoute have no effect without a console: set console.enabled=true" -}}
{{- end -}}
{{- include "liqo-resource-broker-agent.refuseURL" (dict "key" "cluster.endpointURL" "url" .Values.cluster.endpointURL) -}}
{{- include "liqo-resource-broker-agent.refuseURL" (dict "key" "enrolment.url" "url" .Values.enrolment.url) -}}
{{- range $i, $url := .Values.broker.urls -}}
{{- include "liqo-resource-broker-agent.refuseURL" (dict "key" (printf "broker.urls[%d]" $i) "url" $url) -}}
{{- end -}}
{{- include "liqo-resource-broker-agent.refuseAmounts" (dict "key" "resources.requests" "amounts" .Values.resources.requests) -}}
{{- include "liqo-resource-broker-agent.refuseAmounts" (dict "key" "resources.limits" "amounts" .Values.resources.limits) -}}
{{- include "liqo-resource-broker-agent.refuseConfig" .Values.config -}}
{{- $existing := .Values.certificates.existing -}}
{{- $enrolment := .Values.enrolment -}}
{{- if and (gt (int .Values.replicaCount) 1) (not .Values.leaderElection.enabled) -}}
{{- fail (printf "replicaCount is %v but one agent may work: set leaderElection.enabled=true or replicaCount=1" .Values.replicaCount) -}}
{{- end -}}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) -}}
{{- fail "serviceAccount.name is missing: name the account that you made, or set serviceAccount.create=true" -}}
{{- end -}}
{{- if and (eq .Values.peeringMode "none") (eq .Values.networking.mode "enabled") -}}
{{- fail "networking.mode is enabled but peeringMode=none does not peer: set networking.mode=auto, or another peeringMode" -}}
{{- end -}}
{{- if and (eq .Values.peeringMode "kubeconfig") (not .Values.kubeconfigs.existingSecret) -}}
{{- fail "kubeconfigs.existingSecret is missing: name a Secret with <cluster-id>.kubeconfig of each provider without an agent, or set peeringMode=brokered" -}}
{{- end -}}
{{- if and (ne .Values.peeringMode "kubeconfig") .Values.kubeconfigs.existingSecret -}}
{{- fail (printf "kubeconfigs.existingSecret is not read with peeringMode=%s: set peeringMode=kubeconfig, or leave it out" .Values.peeringMode) -}}
{{- end -}}
{{- if and .Values.identity.existingSecret $enrolment.url -}}
{{- fail "identity.existingSecret and enrolment.url exclude each other: the agent has an identity or enrols for one" -}}
{{- end -}}
{{- $kubernetes := .Values.broker.kubernetes -}}
{{- if and .Values.broker.urls $kubernetes.existingSecret -}}
{{- fail "broker.urls and broker.kubernetes are two ways to one broker: leave one out" -}}
{{- end -}}
{{- if and $kubernetes.existingSecret (not $kubernetes.namespace) -}}
{{- fail "broker.kubernetes.namespace is missing: name the namespace of this cluster in the broker's cluster, such as mailbox-rome" -}}
{{- end -}}
{{- if and $kubernetes.namespace (not $kubernetes.existingSecret) -}}
{{- fail "broker.kubernetes.existingSecret is missing: name a Secret with a kubeconfig of the broker's cluster" -}}
{{- end -}}
{{- if and .Values.identity.existingSecret (not .Values.broker.urls) (not $kubernetes.existingSecret) -}}
{{- fail "broker.urls is missing: only an agent that enrols receives the broker's address" -}}
{{- end -}}
{{- if and $enrolment.url (not $enrolment.caHash) -}}
{{- fail "enrolment.caHash is missing: take it from what broker enrol printed, so that the agent knows the broker" -}}
{{- end -}}
{{- if and (or $enrolment.token $enrolment.existingSecret) (not $enrolment.url) -}}
{{- fail "enrolment.url is missing: take it from what broker enrol printed" -}}
{{- end -}}
{{- if and $enrolment.token $enrolment.existingSecret -}}
{{- fail "enrolment.token and enrolment.existingSecret exclude each other: leave one" -}}
{{- end -}}
{{- if and (not .Values.certificates.certManager.enabled) .Values.webhook.enabled (not $existing.webhook) -}}
{{- fail "certificates.existing.webhook is missing: name a Secret with tls.crt and tls.key, set certificates.certManager.enabled=true, or set webhook.enabled=false" -}}
{{- end -}}
{{- if and (not .Values.certificates.certManager.enabled) .Values.console.enabled (not $existing.console) -}}
{{- fail "certificates.existing.console is missing: name a Secret with tls.crt and tls.key, set certificates.certManager.enabled=true, or set console.enabled=false" -}}
{{- end -}}
{{- if and (not .Values.certificates.certManager.enabled) .Values.metrics.enabled .Values.metrics.secure (not $existing.metrics) -}}
{{- fail "certificates.existing.metrics is missing: name a Secret with tls.crt, tls.key and ca.crt, or set metrics.secure=false" -}}
{{- end -}}
{{- if and .Values.webhook.enabled $existing.webhook (not .Values.webhook.caBundle) -}}
{{- fail "webhook.caBundle is missing: give the CA of certificates.existing.webhook as base64" -}}
{{- end -}}
{{- if and .Values.webhook.caBundle (not $existing.webhook) -}}
{{- fail "webhook.caBundle is for a certificate of your own, cert-manager injects the one it issues: set certificates.existing.webhook, or leave it out" -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.enabled) -}}
{{- fail "metrics.serviceMonitor.enabled has nothing to scrape: set metrics.enabled=true" -}}
{{- end -}}
{{- $min := toString .Values.podDisruptionBudget.minAvailable -}}
{{- if and (ne $min "") (ne (toString .Values.podDisruptionBudget.maxUnavailable) "") -}}
{{- fail "podDisruptionBudget.minAvailable and maxUnavailable exclude each other: leave one" -}}
{{- end -}}
{{- if and .Values.podDisruptionBudget.enabled (regexMatch "^[0-9]+$" $min) (ge (int $min) (int .Values.replicaCount)) -}}
{{- fail (printf "podDisruptionBudget.minAvailable is %s of %v replicas, so no node could be drained: lower it, or raise replicaCount" $min .Values.replicaCount) -}}
{{- end -}}
{{- end -}}

{{/* Refuses values that the API server, a Job or the program would refuse later. */}}
{{- define "liqo-resource-broker-agent.refuseURL" -}}
{{- if not (regexMatch "^(https://([A-Za-z0-9.-]+|\\[[0-9a-fA-F:.]+\\])(:[0-9]{1,5})?)?$" .url) -}}
{{- fail (printf "%s is %q: give an https address without a path, for example https://broker.example.com:8443" .key .url) -}}
{{- end -}}
{{- end -}}

{{- define "liqo-resource-broker-agent.refuseAmounts" -}}
{{- range $name, $amount := .amounts -}}
{{- if not (regexMatch "^([0-9]+([.][0-9]*)?|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$" (toString $amount)) -}}
{{- fail (printf "%s.%s is %v: write a number with a unit of Kubernetes such as m, Mi or Gi, for example 500m or 512Mi" $.key $name $amount) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The slips in config that are made most often. The agent names all others in condition Configured. */}}
{{- define "liqo-resource-broker-agent.refuseConfig" -}}
{{- $cluster := .cluster | default dict -}}
{{- range $key := list "region" "zone" -}}
{{- $value := toString (get $cluster $key | default "") -}}
{{- if not (regexMatch "^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$" $value) -}}
{{- fail (printf "config.cluster.%s is %q: use letters, digits, '-', '_' and '.', for example eu-south" $key $value) -}}
{{- end -}}
{{- end -}}
{{- $offer := .offer | default dict -}}
{{- include "liqo-resource-broker-agent.refusePercent" (dict "key" "config.offer.share" "value" (get $offer "share")) -}}
{{- include "liqo-resource-broker-agent.refusePercent" (dict "key" "config.offer.headroom" "value" (get $offer "headroom")) -}}
{{- range $name, $resource := $offer.resources -}}
{{- include "liqo-resource-broker-agent.refusePercent" (dict "key" (printf "config.offer.resources.%s.share" $name) "value" (get $resource "share")) -}}
{{- end -}}
{{- $prices := .prices | default dict -}}
{{- $currency := toString (get $prices "currency" | default "") -}}
{{- range $key := list "cpuCost" "memoryCost" "resourceCosts" "storageCost" "egressCost" -}}
{{- if and (hasKey $prices $key) (not $currency) -}}
{{- fail (printf "config.prices.currency is missing, so config.prices.%s means nothing: set it, for example EUR" $key) -}}
{{- end -}}
{{- end -}}
{{- if not (regexMatch "^([A-Z]{3})?$" $currency) -}}
{{- fail (printf "config.prices.currency is %q: give an ISO 4217 code, for example EUR" $currency) -}}
{{- end -}}
{{- end -}}

{{- define "liqo-resource-broker-agent.refusePercent" -}}
{{- $value := toString (kindIs "invalid" .value | ternary "" .value) -}}
{{- if not (regexMatch "^(([0-9]{1,2}|100)%?)?$" $value) -}}
{{- fail (printf "%s is %s: give a whole number from 0 to 100, for example 80%%" .key $value) -}}
{{- end -}}
{{- end -}}
