{{/* Refuses combinations of values that are valid one by one. Each message names the key and the remedy. */}}
{{- define "liqo-resource-broker.refuse" -}}
{{- if and (not .Values.console.enabled) (or .Values.console.actions .Values.console.ingress.host .Values.console.httpRoute.parentRefs) -}}
{{- fail "console.actions, console.ingress and console.httpRoute have no effect without a console: set console.enabled=true" -}}
{{- end -}}
{{- include "liqo-resource-broker.refuseURL" (dict "key" "publicURL" "url" .Values.publicURL) -}}
{{- include "liqo-resource-broker.refuseURL" (dict "key" "enrolmentURL" "url" .Values.enrolmentURL) -}}
{{- include "liqo-resource-broker.refuseAmounts" (dict "key" "resources.requests" "amounts" .Values.resources.requests) -}}
{{- include "liqo-resource-broker.refuseAmounts" (dict "key" "resources.limits" "amounts" .Values.resources.limits) -}}
{{- include "liqo-resource-broker.refuseAmounts" (dict "key" "brokerConfig.maxPerReservation" "amounts" .Values.brokerConfig.maxPerReservation) -}}
{{- if and .Values.brokerConfig.scoringPreset .Values.brokerConfig.scoringWeights -}}
{{- fail "brokerConfig.scoringPreset and scoringWeights exclude each other: leave one" -}}
{{- end -}}
{{- $certManager := .Values.certificates.certManager.enabled -}}
{{- $existing := .Values.certificates.existing -}}
{{- $issuer := .Values.certificates.issuers.agents.name -}}
{{- if and (gt (int .Values.replicaCount) 1) (not .Values.leaderElection.enabled) -}}
{{- fail (printf "replicaCount is %v but one broker may work: set leaderElection.enabled=true or replicaCount=1" .Values.replicaCount) -}}
{{- end -}}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) -}}
{{- fail "serviceAccount.name is missing: name the account that you made, or set serviceAccount.create=true" -}}
{{- end -}}
{{- if not $certManager -}}
{{- if not $existing.tls -}}
{{- fail "certificates.existing.tls is missing: name a Secret with tls.crt, tls.key and ca.crt, or set certificates.certManager.enabled=true" -}}
{{- end -}}
{{- if not $existing.agentsCA -}}
{{- fail "certificates.existing.agentsCA is missing: name a Secret with the agents' CA as ca.crt, or set certificates.certManager.enabled=true" -}}
{{- end -}}
{{- if .Values.enrolment.enabled -}}
{{- fail "enrolment.enabled needs cert-manager, which signs what enrols: set certificates.certManager.enabled=true, or enrolment.enabled=false" -}}
{{- end -}}
{{- if .Values.certificates.agents -}}
{{- fail "certificates.agents needs cert-manager, which signs them: set certificates.certManager.enabled=true, or leave it out" -}}
{{- end -}}
{{- if and .Values.webhook.enabled (not $existing.webhook) -}}
{{- fail "certificates.existing.webhook is missing: name a Secret with tls.crt and tls.key, or set webhook.enabled=false" -}}
{{- end -}}
{{- if and .Values.console.enabled (not $existing.console) -}}
{{- fail "certificates.existing.console is missing: name a Secret with tls.crt and tls.key, or set console.enabled=false" -}}
{{- end -}}
{{- if and .Values.metrics.enabled .Values.metrics.secure (not $existing.metrics) -}}
{{- fail "certificates.existing.metrics is missing: name a Secret with tls.crt, tls.key and ca.crt, or set metrics.secure=false" -}}
{{- end -}}
{{- end -}}
{{- if and $issuer (not $existing.agentsCA) -}}
{{- fail "certificates.existing.agentsCA is missing: name a Secret with the root of certificates.issuers.agents as ca.crt" -}}
{{- end -}}
{{- if and $existing.agentsCA (not $issuer) (or .Values.enrolment.enabled .Values.certificates.agents) -}}
{{- fail "certificates.issuers.agents.name is missing: name the issuer whose root is in certificates.existing.agentsCA, so that what it signs is trusted" -}}
{{- end -}}
{{- $clusters := list -}}
{{- range .Values.certificates.agents -}}
{{- if has .clusterID $clusters -}}
{{- fail (printf "certificates.agents names clusterID %q twice: leave one" .clusterID) -}}
{{- end -}}
{{- $clusters = append $clusters .clusterID -}}
{{- end -}}
{{- $mailboxes := dict -}}
{{- $boxed := list -}}
{{- range .Values.mailboxes.clusters -}}
{{- $namespace := include "liqo-resource-broker.mailboxNamespace" . -}}
{{- if has .clusterID $boxed -}}
{{- fail (printf "mailboxes.clusters names clusterID %q twice: leave one" .clusterID) -}}
{{- end -}}
{{- $boxed = append $boxed .clusterID -}}
{{- if hasKey $mailboxes $namespace -}}
{{- fail (printf "mailboxes.clusters gives namespace %q to %q and to %q: give each its own, or one could act as the other" $namespace (get $mailboxes $namespace) .clusterID) -}}
{{- end -}}
{{- if eq $namespace $.Release.Namespace -}}
{{- fail (printf "mailboxes.clusters gives %q the namespace of the broker itself: give it its own" .clusterID) -}}
{{- end -}}
{{- $_ := set $mailboxes $namespace .clusterID -}}
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
{{- if and .Values.export.enabled (not .Values.export.existingClaim) (ne .Values.export.accessMode "ReadWriteMany") -}}
{{- if or (gt (int .Values.replicaCount) 1) (ne .Values.strategy.type "Recreate") -}}
{{- fail (printf "export.accessMode is %s, so the volume is mounted on one node: set it to ReadWriteMany, or replicaCount=1 and strategy.type=Recreate" .Values.export.accessMode) -}}
{{- end -}}
{{- end -}}
{{- $min := toString .Values.podDisruptionBudget.minAvailable -}}
{{- if and (ne $min "") (ne (toString .Values.podDisruptionBudget.maxUnavailable) "") -}}
{{- fail "podDisruptionBudget.minAvailable and maxUnavailable exclude each other: leave one" -}}
{{- end -}}
{{- if and (regexMatch "^[0-9]+$" $min) (ge (int $min) (int .Values.replicaCount)) -}}
{{- fail (printf "podDisruptionBudget.minAvailable is %s of %v replicas, so no node could be drained: lower it, or raise replicaCount" $min .Values.replicaCount) -}}
{{- end -}}
{{- range $port := list "rest" "enrolment" -}}
{{- if and (index $.Values.service.nodePorts $port) (eq $.Values.service.type "ClusterIP") -}}
{{- fail (printf "service.nodePorts.%s has no effect with service.type=ClusterIP: set service.type to NodePort or LoadBalancer" $port) -}}
{{- end -}}
{{- end -}}
{{- range $key := list "loadBalancerIP" "loadBalancerClass" "loadBalancerSourceRanges" -}}
{{- if and (index $.Values.service $key) (ne $.Values.service.type "LoadBalancer") -}}
{{- fail (printf "service.%s has no effect with service.type=%s: set service.type=LoadBalancer" $key $.Values.service.type) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Refuses values that the API server, a Job or the program would refuse later. */}}
{{- define "liqo-resource-broker.refuseURL" -}}
{{- if not (regexMatch "^(https://([A-Za-z0-9.-]+|\\[[0-9a-fA-F:.]+\\])(:[0-9]{1,5})?)?$" .url) -}}
{{- fail (printf "%s is %q: give an https address without a path, for example https://broker.example.com:8443" .key .url) -}}
{{- end -}}
{{- end -}}

{{- define "liqo-resource-broker.refuseAmounts" -}}
{{- range $name, $amount := .amounts -}}
{{- if not (regexMatch "^([0-9]+([.][0-9]*)?|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$" (toString $amount)) -}}
{{- fail (printf "%s.%s is %v: write a number with a unit of Kubernetes such as m, Mi or Gi, for example 500m or 512Mi" $.key $name $amount) -}}
{{- end -}}
{{- end -}}
{{- end -}}
