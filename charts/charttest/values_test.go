package charttest

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/mehdiazizian/liqo-resource-broker/charts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// namespace of the releases in tests, unless a test overrides it.
const namespace = "liqo-resource-broker"

// tested is a chart with sets of values that users may choose.
type tested struct {
	files fs.FS
	// release is a typical name of a release.
	release string
	values  map[string]string
}

// chartsUnderTest are keyed by folder name.
var chartsUnderTest = map[string]tested{
	"broker": {charts.Broker(), "broker", brokerValues},
	"agent":  {charts.Agent(), "agent", agentValues},
}

const caHash = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// shared are values for both charts, which concern every pod.
var shared = map[string]string{
	"defaults":                       ``,
	"three that spread over zones":   `{replicaCount: 3, topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 2, topologyKey: rack, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: other}}}]}`,
	"one, without an election":       `{replicaCount: 1, leaderElection: {enabled: false}, topologySpreadConstraints: []}`,
	"a disruption budget in percent": `{replicaCount: 3, podDisruptionBudget: {enabled: true, minAvailable: 50%}}`,
	"a disruption budget in numbers": `{replicaCount: 3, podDisruptionBudget: {enabled: true, maxUnavailable: 2}}`,
	"an image by digest from a mirror": `{image: {registry: "mirror.example.com:5000", repository: mirrored/program, digest: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
  imagePullSecrets: [{name: mirror}]}`,
	"an image that the nodes have":        `{image: {registry: "", repository: program, tag: dev, pullPolicy: Never}}`,
	"kinds installed elsewhere":           `{crds: {enabled: false}}`,
	"kinds that go with the release":      `{crds: {keep: false}, uninstall: {policy: Drain, timeout: 1h2m3s}}`,
	"an account and rights of the user's": `{serviceAccount: {create: false, name: mine}, rbac: {create: false}}`,
	"an account for a cloud":              `{serviceAccount: {name: special, annotations: {"iam.example.com/role": "arn:aws:iam::1:role/x"}}, rbac: {aggregate: false}}`,
	"placed by hand": `{nodeSelector: {node-role.kubernetes.io/control-plane: ""}, tolerations: [{key: node-role.kubernetes.io/control-plane, operator: Exists, effect: NoSchedule}],
  affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app.kubernetes.io/component: broker}}}]}},
  priorityClassName: system-cluster-critical, runtimeClassName: gvisor, schedulerName: my-scheduler,
  hostAliases: [{ip: 192.0.2.10, hostnames: [broker.example.com]}], dnsPolicy: None, dnsConfig: {nameservers: [192.0.2.53], searches: [example.com], options: [{name: ndots, value: "2"}]}}`,
	"more of everything": `{extraArgs: [--zap-stacktrace-level=panic], extraEnv: [{name: GOMEMLIMIT, value: 400MiB}],
  volumes: [{name: scratch, emptyDir: {}}], volumeMounts: [{name: scratch, mountPath: /scratch}],
  extraObjects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: extra, namespace: liqo-resource-broker}}, "{apiVersion: v1, kind: ConfigMap, metadata: {name: '{{ .Release.Name }}-extra', namespace: '{{ .Release.Namespace }}'}}"]}`,
	"labels and annotations of every kind": `{commonLabels: {team: platform, tier: control}, podLabels: {tier: pods}, podAnnotations: {example.com/a: "1"}, deploymentLabels: {team: other}, deploymentAnnotations: {example.com/b: "2"},
  metrics: {serviceMonitor: {enabled: true, additionalLabels: {release: kube-prometheus-stack, team: monitoring}, annotations: {example.com/c: "3"}}}}`,
	"alerts and dashboards": `{metrics: {rules: {enabled: true, additionalLabels: {release: kube-prometheus-stack}, annotations: {example.com/d: "4"}},
  dashboards: {enabled: true, label: dashboards, labelValue: "yes", annotations: {grafana_folder: Broker}}}}`,
	"metrics for the operator without TLS": `{metrics: {secure: false, serviceMonitor: {enabled: true}}}`,
	"metrics for the operator": `{metrics: {serviceMonitor: {enabled: true, interval: 15s, scrapeTimeout: 10s, relabelings: [{targetLabel: cluster, replacement: one}],
  metricRelabelings: [{action: drop, sourceLabels: [__name__], regex: "go_.*"}]}}}`,
	"a console":                       `{console: {enabled: true, service: {annotations: {example.com/protocol: HTTPS}}}}`,
	"a console behind an Ingress":     `{console: {enabled: true, actions: true, ingress: {host: console.example.com, className: nginx, tlsSecret: console-tls, annotations: {nginx.ingress.kubernetes.io/backend-protocol: HTTPS}}}}`,
	"a console behind a Gateway":      `{console: {enabled: true, httpRoute: {host: console.example.com, annotations: {example.com/e: "5"}, parentRefs: [{name: web, namespace: gateways, sectionName: https}]}}}`,
	"a console without a webhook":     `{console: {enabled: true}, webhook: {enabled: false}}`,
	"no metrics":                      `{metrics: {enabled: false}}`,
	"no webhook":                      `{webhook: {enabled: false}}`,
	"a webhook that does not insist":  `{webhook: {failurePolicy: Ignore, timeoutSeconds: 2}}`,
	"a network without policies":      `{networkPolicy: {enabled: false}}`,
	"a network that is narrow":        `{networkPolicy: {apiServers: [{ipBlock: {cidr: 10.0.0.1/32}}], prometheus: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}], browsers: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ingress}}}], apiServerPorts: [16443], extraEgress: [{to: [{ipBlock: {cidr: 192.0.2.0/24}}], ports: [{port: 4317, protocol: TCP}]}]}, console: {enabled: true}}`,
	"names of the user's":             `{fullnameOverride: lender, nameOverride: lending}`,
	"an uninstall without checks":     `{uninstall: {policy: Ignore, cleanup: false}, tests: {enabled: false}}`,
	"a chatty log":                    `{log: {level: 5, format: console}}`,
	"replaced, not rolled":            `{strategy: {type: Recreate, rollingUpdate: null}, revisionHistoryLimit: 0, terminationGracePeriodSeconds: 5}`,
	"an OpenShift cluster":            `{podSecurityContext: {runAsUser: null, runAsGroup: null, fsGroup: null}}`,
	"part of another chart":           `{global: {anything: [goes]}}`,
	"other amounts and slower probes": `{resources: {requests: {cpu: "1", memory: 1Gi}, limits: {cpu: "2", memory: 1Gi}}, probes: {startup: {failureThreshold: 200}, liveness: {initialDelaySeconds: 10}, readiness: {successThreshold: 2}}, enableServiceLinks: true}`,
}

var brokerValues = with(shared, map[string]string{
	"agents of other clusters": `{publicURL: "https://broker.example.com:443", service: {type: LoadBalancer, annotations: {example.com/scheme: internet-facing}, labels: {exposed: "yes"}, ports: {rest: 443, enrolment: 8444}, loadBalancerIP: 192.0.2.10, loadBalancerClass: example.com/lb, loadBalancerSourceRanges: [192.0.2.0/24, "2001:db8::/32"], externalTrafficPolicy: Local, ipFamilyPolicy: PreferDualStack, ipFamilies: [IPv4]},
  certificates: {dnsNames: [broker.internal], ipAddresses: [192.0.2.10], trustDomain: example.com}}`,
	"agents that come to node ports by IP":       `{publicURL: "https://192.0.2.7:30443", enrolmentURL: "https://[2001:db8::7]:30444", service: {type: NodePort, nodePorts: {rest: 30443, enrolment: 30444}}}`,
	"an IPv6 address":                            `{publicURL: "https://[2001:db8::7]:8443"}`,
	"without cert-manager":                       `{certificates: {certManager: {enabled: false}, existing: {tls: my-tls, agentsCA: my-agents-ca, webhook: my-webhook, console: my-console}}, webhook: {caBundle: Q0E=}, console: {enabled: true}, enrolment: {enabled: false}, metrics: {secure: false}}`,
	"without cert-manager, with TLS for metrics": `{certificates: {certManager: {enabled: false}, existing: {tls: my-tls, agentsCA: my-agents-ca, metrics: my-metrics}}, webhook: {enabled: false}, enrolment: {enabled: false}, metrics: {serviceMonitor: {enabled: true}}}`,
	"issuers of the user's":                      `{certificates: {issuers: {servers: {name: vault, kind: ClusterIssuer}, agents: {name: agents, kind: Issuer}}, existing: {agentsCA: agents-root}}}`,
	"clusters that do not enrol":                 `{enrolment: {enabled: false}, certificates: {agents: [{clusterID: rome}, {clusterID: paris, duration: 48h}], durations: {ca: 43800h, server: 720h, agent: 12h, carried: 168h}}}`,
	"two roots":                                  `{certificates: {additionalRoots: {servers: "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n", agents: "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"}}}`,
	"agents of known networks":                   `{networkPolicy: {agents: [{ipBlock: {cidr: 203.0.113.0/24}}]}}`,
	"a configuration":                            `{brokerConfig: {scoringPreset: availability, defaultTTL: 2h, maxPerReservation: {cpu: "64"}, admission: Approved, approvedClusters: [{clusterID: rome}], deniedClusters: [mallory], overSubscriptionCeilings: {cpu: "1.25"}}}`,
	"agents that come through the API server":    `{mailboxes: {limit: 2000, clusters: [{clusterID: rome}, {clusterID: paris, namespace: mailbox-paris}]}}`,
	"a journal in files":                         `{export: {enabled: true, storageClass: shared}, brokerConfig: {notifications: [{name: archive, events: [journal.record], files: {keepDays: 400}}]}}`,
	"a journal in files of the user's claim":     `{export: {enabled: true, existingClaim: archive}}`,
	"a journal in files, for one replica":        `{export: {enabled: true, accessMode: ReadWriteOnce, size: 1Gi}, replicaCount: 1, strategy: {type: Recreate, rollingUpdate: null}}`,
	"a journal that goes with it":                `{journal: {keep: false, retention: 168h}}`,
})

var agentValues = with(shared, map[string]string{
	"a cluster that publishes node labels":  `{cluster: {nodeLabels: [nvidia.com/gpu.product]}}`,
	"a cluster that enrols":                 `{cluster: {id: rome, name: Rome, endpointURL: "https://rome.example.com:6443"}, enrolment: {url: "https://broker.example.com:8444", token: "abc.def", caHash: "` + caHash + `"}}`,
	"a token in a Secret":                   `{enrolment: {url: "https://broker.example.com:8444", existingSecret: token, caHash: "` + caHash + "," + caHash + `"}}`,
	"a configuration":                       `{config: {cluster: {region: eu-south, labels: {tier: gold}, claims: {availability: 99.9}}, offer: {nodeSelector: "pool=lend,!spot", share: 80%, headroom: 10, resources: {cpu: {cap: 40, minimum: 500m, overSubscription: "1.5"}, nvidia.com/gpu: {cap: 0}}}, prices: {currency: EUR, cpuCost: 0.05}}}`,
	"a cluster that waits to be approved":   `{enrolment: {url: "https://broker.example.com:8444", caHash: "` + caHash + `"}}`,
	"a cluster that does not enrol":         `{identity: {existingSecret: rome}, broker: {urls: ["https://one.example.com:8443", "https://two.example.com:8443"]}}`,
	"a broker behind its API server":        `{identity: {existingSecret: rome}, broker: {kubernetes: {existingSecret: broker-kubeconfig, namespace: mailbox-rome}}}`,
	"providers without agents":              `{peeringMode: kubeconfig, kubeconfigs: {existingSecret: others}}`,
	"a cluster without Liqo":                `{peeringMode: none, acceptBrokerReservations: false}`,
	"Liqo elsewhere":                        `{liqo: {namespace: liqo-system}, guard: {elsewhere: enforce}}`,
	"capacity for Kueue":                    `{autoscaling: {provisioningRequests: {enabled: true}}}`,
	"capacity for pods to come":             `{autoscaling: {capacityBuffers: {enabled: true}}}`,
	"capacity for unschedulable pods":       `{autoscaling: {burstPolicies: {enabled: true}}}`,
	"capacity kept by pods":                 `{hold: {mode: Placeholder, placeholder: {image: "mirror.example.com/pause:1", priority: 100}}}`,
	"no guard":                              `{guard: {enabled: false}}`,
	"a guard of other peerings":             `{guard: {elsewhere: enforce, sameNames: [shop, web-1]}}`,
	"a guard that allows more":              `{guard: {podSecurity: restricted, volumes: [configMap, hostPath], tolerations: [node-role.kubernetes.io/control-plane], runtimeClasses: [gvisor], serviceAccounts: [deployer, other], services: [ClusterIP, LoadBalancer], ingress: {hosts: [shop.example.com, "*.rome.example.com"], classes: [nginx], annotations: [example.com/a]}, storage: {classes: [fast, ""], maxSize: 1Ti}, endpoints: {deniedCIDRs: [10.0.0.0/8, "fd00::/8"]}, limits: {terminationGracePeriodSeconds: 0, objectSize: 1, offloaded: {count/secrets: null, count/jobs.batch: 1, requests.storage: 1Ti}, tenant: {count/secrets: 100}}}}`,
	"a guard that allows everything":        `{guard: {podSecurity: off, volumes: [], services: [], ingress: {classes: []}, limits: {offloaded: null, tenant: null}}, webhook: {enabled: false}}`,
	"a guard of its own peerings alone":     `{guard: {elsewhere: off}}`,
	"a guard that warns":                    `{guard: {elsewhere: audit}, webhook: {enabled: false}}`,
	"objects in a namespace of their own":   `{advertisement: {name: mine, namespace: brokering, interval: 1m}, instructions: {namespace: brokering, pollInterval: 10s}}`,
	"a broker at other ports":               `{networkPolicy: {brokerPorts: [443, 30444]}}`,
	"without cert-manager":                  `{certificates: {certManager: {enabled: false}, existing: {webhook: my-webhook, console: my-console, metrics: my-metrics}}, webhook: {caBundle: Q0E=}, console: {enabled: true}, metrics: {serviceMonitor: {enabled: true}}}`,
	"without cert-manager, without webhook": `{certificates: {certManager: {enabled: false}}, webhook: {enabled: false}, metrics: {secure: false}}`,
	"certificates that live otherwise":      `{certificates: {durations: {ca: 43800h, server: 720h}}}`,
})

func with(sets ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, set := range sets {
		maps.Copy(out, set)
	}
	return out
}

// eachSet runs check for every set of values of every chart.
func eachSet(t *testing.T, check func(t *testing.T, rendered *chart.Rendered)) {
	t.Helper()
	for name, c := range chartsUnderTest {
		for _, set := range slices.Sorted(maps.Keys(c.values)) {
			t.Run(name+" with "+set, func(t *testing.T) {
				check(t, mustRender(t, c, chart.Release{Name: c.release, Namespace: namespace}, c.values[set]))
			})
		}
	}
}

var renderedCharts = map[[4]string]*chart.Rendered{}

// mustRender renders a chart once for each release and its values. Tests share the objects and must not change them.
func mustRender(t *testing.T, c tested, release chart.Release, values string) *chart.Rendered {
	t.Helper()
	key := [4]string{c.release, release.Name, release.Namespace, values}
	if renderedCharts[key] == nil {
		var err error
		renderedCharts[key], err = render(t, c, release, values)
		runtest.Check(t, err)
	}
	return renderedCharts[key]
}

func render(t *testing.T, c tested, release chart.Release, values string) (*chart.Rendered, error) {
	t.Helper()
	loaded, err := chart.LoadFS(c.files)
	runtest.Check(t, err)
	if err := yaml.UnmarshalStrict([]byte(values), &release.Values); err != nil {
		t.Fatalf("the values of this test: %v", err)
	}
	return chart.Render(loaded, release)
}

// allObjects returns all objects of a release.
func allObjects(r *chart.Rendered) []*unstructured.Unstructured {
	return slices.Concat(r.CRDs, r.Objects, r.Hooks)
}

// identityOf returns a unique key of an object within a cluster.
func identityOf(obj *unstructured.Unstructured) string {
	return strings.Join([]string{obj.GroupVersionKind().GroupKind().String(), obj.GetNamespace(), obj.GetName()}, " ")
}
