package charttest

import (
	"strings"
	"testing"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
)

// Every invalid value is refused before anything is applied. The error names the key, and the remedy if the key alone
// does not suggest it.
func TestWrongValuesAreRefused(t *testing.T) {
	off := `certificates: {certManager: {enabled: false}, existing: {tls: t, agentsCA: a}}, enrolment: {enabled: false}`
	tests := map[string]struct {
		chart, values string
		want          []string
	}{
		"an unknown key":                 {"broker", `{replicas: 3}`, []string{"'replicas' not allowed"}},
		"an unknown key below another":   {"broker", `{image: {name: broker}}`, []string{"/image", "'name' not allowed"}},
		"a key of the other chart":       {"agent", `{publicURL: "https://b:8443"}`, []string{"'publicURL' not allowed"}},
		"text where a number belongs":    {"broker", `{replicaCount: two}`, []string{"/replicaCount", "got string, want integer"}},
		"a number below zero":            {"broker", `{replicaCount: -1}`, []string{"/replicaCount", "minimum"}},
		"a switch that is text":          {"broker", `{webhook: {enabled: "no"}}`, []string{"/webhook/enabled", "want boolean"}},
		"an address without TLS":         {"broker", `{publicURL: "http://broker.example.com:8443"}`, []string{`publicURL is "http://broker.example.com:8443": give an https address`}},
		"an address without a scheme":    {"broker", `{publicURL: broker.example.com}`, []string{`publicURL is "broker.example.com": give an https address without a path, for example https://broker.example.com:8443`}},
		"an address with a path":         {"broker", `{publicURL: "https://broker.example.com/api"}`, []string{`publicURL is "https://broker.example.com/api"`, "without a path"}},
		"an unknown type of Service":     {"broker", `{service: {type: ExternalName}}`, []string{"/service/type", "'LoadBalancer'"}},
		"a port out of range":            {"broker", `{service: {ports: {rest: 70000}}}`, []string{"/service/ports/rest", "maximum"}},
		"a digest without its algorithm": {"broker", `{image: {digest: abc}}`, []string{"/image/digest", "sha256"}},
		"an unknown pull policy":         {"agent", `{image: {pullPolicy: Sometimes}}`, []string{"/image/pullPolicy", "'IfNotPresent'"}},
		"an unknown failure policy":      {"agent", `{webhook: {failurePolicy: Warn}}`, []string{"/webhook/failurePolicy", "'Fail', 'Ignore'"}},
		"a webhook that waits too long":  {"broker", `{webhook: {timeoutSeconds: 60}}`, []string{"/webhook/timeoutSeconds", "maximum"}},
		"an unknown policy of uninstall": {"broker", `{uninstall: {policy: Force}}`, []string{"/uninstall/policy", "'Refuse', 'Drain', 'Ignore'"}},
		"a duration without a unit":      {"broker", `{uninstall: {timeout: "10"}}`, []string{"/uninstall/timeout", "does not match pattern"}},
		"a certificate of minutes":       {"broker", `{certificates: {durations: {agent: 30m}}}`, []string{"/certificates/durations/agent", "does not match pattern"}},
		"a cluster ID with a dot":        {"broker", `{certificates: {agents: [{clusterID: rome.eu}]}}`, []string{"/certificates/agents/0/clusterID", "does not match pattern"}},
		"a cluster ID that is too long":  {"agent", `{cluster: {id: a2345678901234567890123456789012345678901}}`, []string{"/cluster/id", "maxLength"}},
		"a cluster without ID":           {"broker", `{certificates: {agents: [{duration: 24h}]}}`, []string{"/certificates/agents/0", "'clusterID'"}},
		"a root that is no certificate":  {"broker", `{certificates: {additionalRoots: {agents: "-----BEGIN EC PRIVATE KEY-----"}}}`, []string{"/certificates/additionalRoots/agents", "CERTIFICATE"}},
		"an unknown kind of issuer":      {"broker", `{certificates: {issuers: {agents: {name: x, kind: Vault}}}}`, []string{"/certificates/issuers/agents/kind", "'ClusterIssuer'"}},
		"a name that is too long":        {"broker", `{fullnameOverride: a23456789012345678901234567890123456789012345}`, []string{"/fullnameOverride", "maxLength"}},
		"a label that the chart sets":    {"broker", `{podLabels: {app.kubernetes.io/name: mine}}`, []string{"/podLabels/app.kubernetes.io"}},
		"a label that is no text":        {"agent", `{commonLabels: {critical: true}}`, []string{"/commonLabels/critical", "want string"}},
		"a peer of the network by name":  {"broker", `{networkPolicy: {agents: [everybody]}}`, []string{"/networkPolicy/agents/0", "want object"}},
		"an argument that is no flag":    {"broker", `{extraArgs: [serve]}`, []string{"/extraArgs/0", "does not match pattern"}},
		"a volume without name":          {"agent", `{volumes: [{emptyDir: {}}]}`, []string{"/volumes/0", "'name'"}},
		"an unknown setting of broker":   {"broker", `{brokerConfig: {preset: balanced}}`, []string{"/brokerConfig", "'preset' not allowed"}},
		"an admission that is unknown":   {"broker", `{brokerConfig: {admission: Closed}}`, []string{"/brokerConfig/admission", "'Approved'"}},
		"an unknown mode of peering":     {"agent", `{peeringMode: manual}`, []string{"/peeringMode", "'brokered', 'kubeconfig', 'none'"}},
		"kubeconfigs that are missing":   {"agent", `{peeringMode: kubeconfig}`, []string{"kubeconfigs.existingSecret is missing"}},
		"kubeconfigs without effect":     {"agent", `{kubeconfigs: {existingSecret: others}}`, []string{"peeringMode=kubeconfig"}},
		"a broker without scheme":        {"agent", `{broker: {urls: ["broker.example.com:8443"]}}`, []string{`broker.urls[0] is "broker.example.com:8443": give an https address`}},
		"an enrolment over http":         {"agent", `{enrolment: {url: "http://b:8444", caHash: "` + caHash + `"}}`, []string{`enrolment.url is "http://b:8444"`}},
		"a preset that does not exist":   {"broker", `{brokerConfig: {scoringPreset: fast}}`, []string{"/brokerConfig/scoringPreset", "'availability', 'balanced', 'multi-criteria'"}},
		"a preset beside weights":        {"broker", `{brokerConfig: {scoringPreset: balanced, scoringWeights: {cost: 100}}}`, []string{"brokerConfig.scoringPreset and scoringWeights exclude each other: leave one"}},
		"a bound in an unknown unit":     {"broker", `{brokerConfig: {maxPerReservation: {memory: 64GB}}}`, []string{"brokerConfig.maxPerReservation.memory is 64GB"}},
		"memory in an unknown unit":      {"broker", `{resources: {limits: {memory: 512MB}}}`, []string{"resources.limits.memory is 512MB: write a number with a unit of Kubernetes such as m, Mi or Gi, for example 500m or 512Mi"}},
		"an agent's cpu in words":        {"agent", `{resources: {requests: {cpu: half}}}`, []string{"resources.requests.cpu is half"}},
		"no agent":                       {"agent", `{replicaCount: 0}`, []string{"/replicaCount", "minimum: got 0, want 1"}},
		"a share above everything":       {"agent", `{config: {offer: {share: 120%}}}`, []string{"config.offer.share is 120%: give a whole number from 0 to 100, for example 80%"}},
		"a share of cpu below nothing":   {"agent", `{config: {offer: {resources: {cpu: {share: -1}}}}}`, []string{"config.offer.resources.cpu.share is -1"}},
		"a headroom as a fraction":       {"agent", `{config: {offer: {headroom: 0.1}}}`, []string{"config.offer.headroom is 0.1"}},
		"a price without a currency":     {"agent", `{config: {prices: {cpuCost: 0.05}}}`, []string{"config.prices.currency is missing, so config.prices.cpuCost means nothing: set it, for example EUR"}},
		"a currency by its name":         {"agent", `{config: {prices: {cpuCost: 0.05, currency: EURO}}}`, []string{`config.prices.currency is "EURO": give an ISO 4217 code, for example EUR`}},
		"a region with a space":          {"agent", `{config: {cluster: {region: EU South}}}`, []string{`config.cluster.region is "EU South": use letters, digits, '-', '_' and '.', for example eu-south`}},
		"a CA hash without algorithm":    {"agent", `{enrolment: {url: "https://b:8444", caHash: 0123}}`, []string{"/enrolment/caHash"}},
		"a guard that warns":             {"agent", `{guard: {elsewhere: Warn}}`, []string{"/guard/elsewhere", "'enforce', 'audit', 'off'"}},
		"a denied network too narrow":    {"agent", `{guard: {endpoints: {deniedCIDRs: [10.0.0.0/33]}}}`, []string{"/guard/endpoints/deniedCIDRs/0", "does not match pattern"}},
		"a denied network of IPv6 alike": {"agent", `{guard: {endpoints: {deniedCIDRs: ["fd00::/129"]}}}`, []string{"/guard/endpoints/deniedCIDRs/0", "does not match pattern"}},
		"a disruption budget in words":   {"agent", `{podDisruptionBudget: {minAvailable: most}}`, []string{"/podDisruptionBudget/minAvailable"}},

		"files that one node has":            {"broker", `{export: {enabled: true, accessMode: ReadWriteOnce}}`, []string{"export.accessMode is ReadWriteOnce", "replicaCount=1 and strategy.type=Recreate"}},
		"two brokers at work":                {"broker", `{leaderElection: {enabled: false}}`, []string{"replicaCount is 2", "set leaderElection.enabled=true or replicaCount=1"}},
		"two agents at work":                 {"agent", `{replicaCount: 2, leaderElection: {enabled: false}}`, []string{"replicaCount is 2", "set leaderElection.enabled=true"}},
		"a missing account":                  {"broker", `{serviceAccount: {create: false}}`, []string{"serviceAccount.name is missing"}},
		"no certificate of the broker":       {"broker", `{certificates: {certManager: {enabled: false}}}`, []string{"certificates.existing.tls is missing", "certificates.certManager.enabled=true"}},
		"no CA of the agents":                {"broker", `{certificates: {certManager: {enabled: false}, existing: {tls: x}}}`, []string{"certificates.existing.agentsCA is missing"}},
		"enrolment without an issuer":        {"broker", `{certificates: {certManager: {enabled: false}, existing: {tls: t, agentsCA: a}}}`, []string{"enrolment.enabled", "enrolment.enabled=false"}},
		"agents without an issuer":           {"broker", `{certificates: {certManager: {enabled: false}, existing: {tls: t, agentsCA: a}, agents: [{clusterID: rome}]}, enrolment: {enabled: false}}`, []string{"certificates.agents needs cert-manager"}},
		"a webhook without certificate":      {"broker", `{` + off + `}`, []string{"certificates.existing.webhook is missing", "webhook.enabled=false"}},
		"an agent's webhook without one":     {"agent", `{certificates: {certManager: {enabled: false}}}`, []string{"certificates.existing.webhook is missing", "webhook.enabled=false"}},
		"a console without certificate":      {"broker", `{` + off + `, webhook: {enabled: false}, console: {enabled: true}}`, []string{"certificates.existing.console is missing", "console.enabled=false"}},
		"an agent's console without one":     {"agent", `{certificates: {certManager: {enabled: false}}, webhook: {enabled: false}, console: {enabled: true}}`, []string{"certificates.existing.console is missing", "console.enabled=false"}},
		"actions without a console":          {"broker", `{console: {actions: true}}`, []string{"console.actions", "console.enabled=true"}},
		"an agent's Ingress without one":     {"agent", `{console: {ingress: {host: rome.example.com}}}`, []string{"console.ingress", "console.enabled=true"}},
		"metrics without certificate":        {"broker", `{` + off + `, webhook: {enabled: false}}`, []string{"certificates.existing.metrics is missing", "metrics.secure=false"}},
		"an issuer whose root is missing":    {"broker", `{certificates: {issuers: {agents: {name: vault}}}}`, []string{"certificates.existing.agentsCA is missing"}},
		"a root whose issuer is missing":     {"broker", `{certificates: {existing: {agentsCA: root}}}`, []string{"certificates.issuers.agents.name is missing"}},
		"a cluster twice":                    {"broker", `{certificates: {agents: [{clusterID: rome}, {clusterID: rome}]}}`, []string{"certificates.agents", `"rome" twice`}},
		"a webhook without a CA":             {"broker", `{certificates: {existing: {webhook: mine}}}`, []string{"webhook.caBundle is missing"}},
		"a CA without a webhook":             {"agent", `{webhook: {caBundle: Q0E=}}`, []string{"webhook.caBundle", "certificates.existing.webhook"}},
		"a monitor of nothing":               {"agent", `{metrics: {enabled: false, serviceMonitor: {enabled: true}}}`, []string{"metrics.serviceMonitor.enabled", "metrics.enabled=true"}},
		"a disruption budget that says both": {"broker", `{podDisruptionBudget: {minAvailable: 1, maxUnavailable: 1}}`, []string{"podDisruptionBudget.minAvailable and maxUnavailable", "leave one"}},
		"a disruption budget that blocks":    {"broker", `{podDisruptionBudget: {minAvailable: 2}}`, []string{"podDisruptionBudget.minAvailable", "replicaCount"}},
		"a node port without nodes":          {"broker", `{service: {nodePorts: {rest: 30443}}}`, []string{"service.nodePorts.rest", "NodePort"}},
		"a source range without effect":      {"broker", `{service: {type: NodePort, loadBalancerSourceRanges: [10.0.0.0/8]}}`, []string{"service.loadBalancerSourceRanges", "service.type=LoadBalancer"}},
		"an identity and an enrolment":       {"agent", `{identity: {existingSecret: rome}, enrolment: {url: "https://b:8444", caHash: "` + caHash + `"}}`, []string{"identity.existingSecret and enrolment.url"}},
		"two ways to a broker":               {"agent", `{broker: {urls: ["https://broker.example.com:8443"], kubernetes: {existingSecret: k, namespace: mailbox-rome}}}`, []string{"leave one out"}},
		"a broker's cluster, nowhere in it":  {"agent", `{broker: {kubernetes: {existingSecret: k}}}`, []string{"broker.kubernetes.namespace is missing"}},
		"a namespace of nowhere":             {"agent", `{broker: {kubernetes: {namespace: mailbox-rome}}}`, []string{"broker.kubernetes.existingSecret is missing"}},
		"mailboxes of one cluster, twice":    {"broker", `{mailboxes: {clusters: [{clusterID: rome}, {clusterID: rome, namespace: other}]}}`, []string{`clusterID "rome" twice`}},
		"mailboxes of two clusters, at once": {"broker", `{mailboxes: {clusters: [{clusterID: rome, namespace: x}, {clusterID: paris, namespace: x}]}}`, []string{`namespace "x"`, "act as the other"}},
		"mailboxes beside the journal":       {"broker", `{mailboxes: {clusters: [{clusterID: rome, namespace: ` + namespace + `}]}}`, []string{"namespace of the broker itself"}},
		"an identity without a broker":       {"agent", `{identity: {existingSecret: rome}}`, []string{"broker.urls is missing"}},
		"an enrolment without a CA hash":     {"agent", `{enrolment: {url: "https://b:8444", token: t}}`, []string{"enrolment.caHash is missing"}},
		"a token without enrolment":          {"agent", `{enrolment: {token: t}}`, []string{"enrolment.url is missing"}},
		"two tokens":                         {"agent", `{enrolment: {url: "https://b:8444", token: t, existingSecret: s, caHash: "` + caHash + `"}}`, []string{"enrolment.token and enrolment.existingSecret"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := chartsUnderTest[test.chart]
			_, err := render(t, c, chart.Release{Name: c.release, Namespace: namespace}, test.values)
			if err == nil {
				t.Fatal("taken")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q:\n%v", want, err)
				}
			}
		})
	}
}
