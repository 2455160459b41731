package broker

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/yaml"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/webhooks"
)

// readYAML parses an object from YAML.
func readYAML[T any](t *testing.T, text string) *T {
	t.Helper()
	out := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), out); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return out
}

// fleet returns paris and berlin, which have agents, and milan, which an administrator
// advertises.
func fleet(t *testing.T) []brokerv1alpha1.ClusterAdvertisement {
	return readYAML[brokerv1alpha1.ClusterAdvertisementList](t, `
items:
- metadata: {name: paris, namespace: broker, labels: {app.kubernetes.io/managed-by: liqo-resource-broker}}
  spec: {clusterID: paris, resources: {capacity: {cpu: 16, memory: 64Gi}, allocatable: {cpu: 15, memory: 60Gi}}}
- metadata: {name: berlin, namespace: broker, labels: {app.kubernetes.io/managed-by: liqo-resource-broker}}
  spec: {clusterID: berlin, resources: {capacity: {cpu: 8, memory: 256Gi, nvidia.com/gpu: 4}}}
- metadata: {name: by-hand, namespace: default}
  spec: {clusterID: milan, resources: {capacity: {cpu: 4, memory: 8Gi}}}
`).Items
}

// wantVerdict compares a verdict with expected messages. Before " … " is the beginning of a
// message, which names the field, and after it part of the remedy. No expected messages means
// an empty verdict.
func wantVerdict(t *testing.T, v webhooks.Verdict, errs, warnings []string) {
	t.Helper()
	said := make([]string, len(v.Errors))
	for i, err := range v.Errors {
		said[i] = err.Error()
	}
	wantSaid(t, "error", said, errs)
	wantSaid(t, "warning", v.Warnings, warnings)
}

func wantSaid(t *testing.T, kind string, said, want []string) {
	t.Helper()
	if len(said) != len(want) {
		t.Fatalf("%d %ss, want %d:\n%s", len(said), kind, len(want), strings.Join(said, "\n"))
	}
	for i := range want {
		field, advice, _ := strings.Cut(want[i], " … ")
		if !strings.HasPrefix(said[i], field) || !strings.Contains(said[i], advice) {
			t.Errorf("%s %q, want %q", kind, said[i], want[i])
		}
	}
}

func TestSizeIsComparedWithWhatAnOverSubscribedClusterMayPromise(t *testing.T) {
	paris := brokerv1alpha1.ClusterAdvertisement{
		Spec: brokerv1alpha1.ClusterAdvertisementSpec{ClusterID: "paris", Resources: brokerv1alpha1.ResourceMetrics{
			Capacity: corev1.ResourceList{"cpu": resource.MustParse("10"), "memory": resource.MustParse("10Gi")},
		}},
		Status: brokerv1alpha1.ClusterAdvertisementStatus{OverSubscription: brokerv1alpha1.OverSubscription{"cpu": "1.5"}},
	}
	for name, tc := range map[string]struct {
		cpu, memory string
		warned      bool
	}{
		"within the ratio":                  {"15", "10Gi", false},
		"beyond the ratio":                  {"16", "10Gi", true},
		"beyond a resource without a ratio": {"15", "11Gi", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := &brokerv1alpha1.Reservation{Spec: brokerv1alpha1.ReservationSpec{RequesterID: "rome", RequestedResources: brokerv1alpha1.RequestedResources{
				"cpu": resource.MustParse(tc.cpu), "memory": resource.MustParse(tc.memory),
			}}}
			v := CheckReservation(r, &brokerv1alpha1.BrokerConfigSpec{}, []brokerv1alpha1.ClusterAdvertisement{paris})
			if len(v.Errors) > 0 || (len(v.Warnings) > 0) != tc.warned {
				t.Errorf("errors %v, warnings %q", v.Errors, v.Warnings)
			}
		})
	}
}

func TestReservations(t *testing.T) {
	cases := map[string]struct {
		spec, labels, config string
		alone                bool
		errors, warnings     []string
	}{
		"a reservation that fits": {spec: `{requesterID: rome, requestedResources: {cpu: 2, memory: 4Gi}, duration: 1h}`},
		"exactly what is allowed": {
			spec:   `{requesterID: rome, requestedResources: {cpu: "4", memory: 8Gi}, duration: 2h}`,
			config: `{maxPerReservation: {cpu: 4000m, memory: 8192Mi}, maxDuration: 2h}`,
		},
		"more than is allowed of two resources, and for too long": {
			spec:   `{requesterID: rome, requestedResources: {cpu: 5, memory: 9Gi, nvidia.com/gpu: 4}, duration: 3h}`,
			config: `{maxPerReservation: {cpu: 4, memory: 8Gi}, maxDuration: 2h}`,
			errors: []string{
				`spec.requestedResources[cpu]: Invalid value: "5" … the most is 4, set by BrokerConfig.spec.maxPerReservation; ask for less`,
				`spec.requestedResources[memory]: Invalid value: "9Gi" … the most is 8Gi`,
				`spec.duration: Invalid value: "3h0m0s" … the longest is 2h0m0s, set by BrokerConfig.spec.maxDuration; ask for less`,
			},
		},
		"an idle time that has no effect": {
			spec:   `{requesterID: rome, requestedResources: {cpu: 1, memory: 1Gi}, duration: 2h, idle: {after: 2h, action: Release}}`,
			config: `{idle: {after: 1h, action: Release}}`,
			warnings: []string{
				"spec.idle.after: 2h0m0s is not shorter than the duration 2h0m0s … leave idle out",
				"spec.idle.after: BrokerConfig.spec.idle releases the reservation after 1h0m0s already",
			},
		},
		"an idle time within the bound": {
			spec:   `{requesterID: rome, requestedResources: {cpu: 1, memory: 1Gi}, duration: 2h, idle: {after: 30m, action: Release}}`,
			config: `{idle: {after: 1h, action: Release}}`,
		},
		"any duration where none is asked for": {
			spec: `{requesterID: rome, requestedResources: {cpu: 1, memory: 1Gi}}`, config: `{maxDuration: 1m}`,
		},
		"bounds that the broker cannot read are not applied": {
			spec: `{requesterID: rome, requestedResources: {cpu: 1, memory: 1Gi}}`, config: `{maxPerReservation: {nvidia.com/gpu: 500m}}`,
			warnings: []string{"BrokerConfig.spec.maxPerReservation: … in force before"},
		},
		"larger than every known cluster, the requester's own left out": {
			spec:     `{requesterID: berlin, requestedResources: {cpu: 1, memory: 100Gi}}`,
			warnings: []string{"spec.requestedResources: larger than every known cluster … milan has 8Gi memory, paris has 60Gi memory"},
		},
		"larger than every known cluster, and it may wait": {
			spec:     `{requesterID: berlin, queuePolicy: Queue, requestedResources: {cpu: 1, memory: 100Gi}}`,
			warnings: []string{"spec.requestedResources: larger than every known cluster, so the reservation waits until one grows, or fails when queueTimeout is over"},
		},
		"larger than what pods may use of the only one asked for": {
			spec:     `{requesterID: rome, targetClusterID: paris, requestedResources: {cpu: 16, memory: 1Gi}}`,
			warnings: []string{"spec.requestedResources: larger than every known cluster … (paris has 15 cpu)"},
		},
		"as large as it likes where no cluster is known": {
			spec: `{requesterID: rome, targetClusterID: paris, requestedResources: {cpu: 100k, memory: 1Gi}}`, alone: true,
		},
		"an unknown target": {
			spec:     `{requesterID: rome, targetClusterID: pariss, requestedResources: {cpu: 1, memory: 1Gi}}`,
			warnings: []string{`spec.targetClusterID: no cluster "pariss" has advertised … known are berlin, milan, paris`},
		},
		"a target that is the requester": {
			spec:   `{requesterID: paris, targetClusterID: paris, requestedResources: {cpu: 1, memory: 1Gi}}`,
			errors: []string{`spec.targetClusterID: Invalid value: "paris" … name another cluster, or leave it out`},
		},
		"requester and target are denied": {
			spec:   `{requesterID: rome, targetClusterID: paris, requestedResources: {cpu: 1, memory: 1Gi}}`,
			config: `{deniedClusters: [rome, paris]}`,
			errors: []string{`spec.requesterID: Forbidden: cluster "rome" is denied … name another cluster`, `spec.targetClusterID: Forbidden: cluster "paris" is denied … spec.deniedClusters`},
		},
		"a requester with an agent but without approval": {
			spec:   `{requesterID: paris, requestedResources: {cpu: 1, memory: 1Gi}}`,
			config: `{admission: Approved, approvedClusters: [{clusterID: berlin}]}`,
			errors: []string{`spec.requesterID: Forbidden: cluster "paris" is not approved … spec.approvedClusters`},
		},
		"a label and a cluster without an agent need no approval": {
			spec:   `{requesterID: user-team, targetClusterID: milan, requestedResources: {cpu: 1, memory: 1Gi}}`,
			config: `{admission: Approved, approvedClusters: [{clusterID: berlin}]}`,
		},
		"resources that no node has": {
			spec: `{requesterID: rome, requestedResources: {cpu: 1, cpus: 1, gpu: 1, memory: 1Gi}}`,
			errors: []string{
				`spec.requestedResources[cpus]: Invalid value: "cpus" … use cpu, memory`,
				`spec.requestedResources[gpu]: Invalid value: "gpu" … for example nvidia.com/gpu`,
			},
		},
		"half a GPU": {
			spec:   `{requesterID: rome, requestedResources: {cpu: 1, memory: 1Gi, nvidia.com/gpu: 500m}}`,
			errors: []string{`spec.requestedResources[nvidia.com/gpu]: Invalid value: "500m" … must be a whole number, for example 1`},
		},
		"clusters, places and a currency that nobody advertises": {
			spec: `{requesterID: rome, requestedResources: {cpu: 1, memory: 1Gi}, constraints: {includeClusters: [oslo, paris], excludeClusters: [bergen], regions: [eu-north], zones: [eu-north-1a], maxPrice: {amount: "1", currency: XYZ}}}`,
			warnings: []string{
				`spec.constraints.includeClusters[0]: no cluster advertises cluster "oslo"; known are berlin, milan, paris`,
				`spec.constraints.excludeClusters[0]: no cluster advertises cluster "bergen"`,
				`spec.constraints.regions[0]: no cluster advertises region "eu-north"`,
				`spec.constraints.zones[0]: no cluster advertises zone "eu-north-1a"`,
				`spec.constraints.maxPrice.currency: no cluster has prices in XYZ, and BrokerConfig.spec.exchangeRates has no rate for it`,
			},
		},
		"a currency that the BrokerConfig converts": {
			spec:   `{requesterID: rome, requestedResources: {cpu: 1, memory: 1Gi}, constraints: {maxPrice: {amount: "1", currency: USD}}}`,
			config: `{exchangeRates: {date: "2026-11-20", base: EUR, rates: {USD: "1.1"}}}`,
		},
		"only the requester as provider": {
			spec:   `{requesterID: paris, requestedResources: {cpu: 1, memory: 1Gi}, constraints: {includeClusters: [paris]}}`,
			errors: []string{`spec.constraints.includeClusters[0]: Invalid value: "paris" … name other clusters`},
		},
		"pods that need more than the total": {
			spec:   `{requesterID: rome, requestedResources: {cpu: 1, memory: 4Gi}, podShapes: [{count: 3, resources: {cpu: 500m, memory: 1Gi}}]}`,
			errors: []string{`spec.podShapes: Invalid value: … the pods need 1500m of cpu in all, and resources name 1`},
		},
		"zero in another notation": {
			spec:   `{requesterID: rome, requestedResources: {cpu: 0e1, memory: 1Gi}}`,
			errors: []string{`spec.requestedResources: Invalid value: … above zero`},
		},
		"the label of the broker's own objects": {
			spec: `{requesterID: rome, requestedResources: {cpu: 1, memory: 1Gi}}`, labels: `{app.kubernetes.io/managed-by: liqo-resource-broker}`,
			errors: []string{`metadata.labels[app.kubernetes.io/managed-by]: Forbidden: … leave it out`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			labels := tc.labels
			if labels == "" {
				labels = "{}"
			}
			r := readYAML[brokerv1alpha1.Reservation](t, "metadata: {labels: "+labels+"}\nspec: "+tc.spec)
			config := readYAML[brokerv1alpha1.BrokerConfig](t, "spec: "+tc.config).Spec
			clusters := fleet(t)
			if tc.alone {
				clusters = nil
			}
			wantVerdict(t, CheckReservation(r, &config, clusters), tc.errors, tc.warnings)
		})
	}
}

func TestBrokerConfigs(t *testing.T) {
	const fingerprint = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	cases := map[string]struct {
		spec, status     string
		errors, warnings []string
	}{
		"nothing set":           {},
		"all fields consistent": {spec: `{scoringPreset: balanced, defaultTTL: 1h, maxDuration: 1h, maxPerReservation: {cpu: 64, nvidia.com/gpu: 0}, admission: Approved, approvedClusters: [{clusterID: paris}], deniedClusters: [berlin]}`},
		"a cluster on both lists": {
			spec:   `{approvedClusters: [{clusterID: paris}], deniedClusters: [berlin, paris]}`,
			errors: []string{`spec.deniedClusters[1]: Invalid value: "paris" … take it out of one of the lists`},
		},
		"one key for two clusters": {
			spec:   `{approvedClusters: [{clusterID: paris, keyFingerprint: "` + fingerprint + `"}, {clusterID: berlin, keyFingerprint: "` + fingerprint + `"}]}`,
			errors: []string{`spec.approvedClusters[1].keyFingerprint: Invalid value: … is approved for cluster "paris" already`},
		},
		"a default longer than the maximum": {
			spec:   `{defaultTTL: 2h, maxDuration: 1h}`,
			errors: []string{`spec.defaultTTL: Invalid value: "2h0m0s" … shorten it, or raise spec.maxDuration`},
		},
		"a bound of an unknown resource": {
			spec: `{maxPerReservation: {vcpu: 4}}`,
			errors: []string{
				`spec.maxPerReservation[vcpu]: Invalid value: "vcpu" … use cpu, memory`,
			},
		},
		"a bound of half a pod": {
			spec:   `{maxPerReservation: {pods: 500m}}`,
			errors: []string{`spec.maxPerReservation[pods]: Invalid value: "500m" … must be a whole number`},
		},
		"preset and weights": {
			spec:   `{scoringPreset: balanced, scoringWeights: {cost: 100}}`,
			errors: []string{`spec.scoringWeights: Invalid value: … not both`},
		},
		"a weight below zero": {
			spec:   `{scoringWeights: {cost: -1}}`,
			errors: []string{`spec: Invalid value: … scoringWeights`},
		},
		"unknown clusters": {
			spec: `{approvedClusters: [{clusterID: pariss}], deniedClusters: [berlinn]}`,
			warnings: []string{
				`spec.deniedClusters[0]: no cluster "berlinn" has advertised … known are berlin, milan, paris`,
				`spec.approvedClusters[0].clusterID: no cluster "pariss" has advertised or asked to enrol`,
			},
		},
		"approval before enrolment": {
			spec:   `{admission: Approved, approvedClusters: [{clusterID: rome, keyFingerprint: "` + fingerprint + `"}, {clusterID: oslo}]}`,
			status: `{pendingEnrolments: [{clusterID: oslo, since: "2026-01-01T00:00:00Z", keyFingerprint: "` + fingerprint + `"}]}`,
		},
		"approval of another key than that of the pending enrolment": {
			spec:     `{approvedClusters: [{clusterID: oslo, keyFingerprint: "` + fingerprint + `"}]}`,
			status:   `{pendingEnrolments: [{clusterID: oslo, since: "2026-01-01T00:00:00Z", keyFingerprint: "sha256:bb"}]}`,
			warnings: []string{`spec.approvedClusters[0].keyFingerprint: cluster "oslo" asked to enrol with another key, sha256:bb`},
		},
		"no approved clusters": {
			spec:     `{admission: Approved}`,
			warnings: []string{`spec.admission: only approved clusters take part`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := readYAML[brokerv1alpha1.BrokerConfig](t, "spec: "+tc.spec+"\nstatus: "+tc.status)
			wantVerdict(t, CheckBrokerConfig(c, fleet(t)), tc.errors, tc.warnings)
		})
	}
}

func TestClusterAdvertisements(t *testing.T) {
	cases := map[string]struct {
		name, spec, config string
		errors, warnings   []string
	}{
		"a new advertisement": {spec: `{clusterID: oslo, resources: {capacity: {cpu: 4}}, cost: {cpuCost: "0.1", currency: EUR}}`},
		"a changed advertisement": {
			name: "by-hand", spec: `{clusterID: milan, resources: {capacity: {cpu: 8}, reserved: {cpu: "999"}, available: {cpu: 10k}}}`,
		},
		"a second one for a cluster": {
			spec:   `{clusterID: milan, resources: {capacity: {cpu: 4}}}`,
			errors: []string{`spec.clusterID: Invalid value: "milan" … ClusterAdvertisement default/by-hand already exists for this cluster`},
		},
		"a second one for a cluster with an agent": {
			spec:   `{clusterID: paris, resources: {capacity: {cpu: 4}}}`,
			errors: []string{`spec.clusterID: Invalid value: "paris" … ClusterAdvertisement broker/paris already exists`},
		},
		"of a denied cluster": {
			spec: `{clusterID: oslo, resources: {capacity: {cpu: 4}}}`, config: `{deniedClusters: [oslo]}`,
			errors: []string{`spec.clusterID: Forbidden: cluster "oslo" is denied`},
		},
		"of a cluster without an agent where agents need approval": {
			spec: `{clusterID: oslo, resources: {capacity: {cpu: 4}}}`, config: `{admission: Approved, approvedClusters: [{clusterID: paris}]}`,
		},
		"more allocatable than there is": {
			spec:   `{clusterID: oslo, resources: {capacity: {cpu: 4, memory: 8Gi}, allocatable: {cpu: 5, memory: 8Gi}}}`,
			errors: []string{`spec.resources.allocatable[cpu]: Invalid value: "5" … lower it, or raise spec.resources.capacity`},
		},
		"more allocated than can be": {
			spec:     `{clusterID: oslo, resources: {capacity: {cpu: 4}, allocated: {cpu: 5}}}`,
			warnings: []string{`spec.resources.allocated[cpu]: 5 is more than can be allocated, 4`},
		},
		"nothing at all": {
			spec:     `{clusterID: oslo, resources: {capacity: {}}}`,
			warnings: []string{`spec.resources.capacity: the cluster offers nothing`},
		},
		"negative, fractional and endless amounts": {
			spec: `{clusterID: oslo, resources: {capacity: {cpu: -1}, allocated: {pods: 500m}}, nodeShapes: [{count: 1, free: {memory: 5Ei}}]}`,
			errors: []string{
				`spec.resources.capacity[cpu]: Invalid value: "-1" … is negative`,
				`spec.resources.allocated[pods]: Invalid value: "500m" … whole number`,
				`spec.nodeShapes[0].free[memory]: Invalid value: "5Ei" … too large`,
			},
		},
		"prices without a currency": {
			spec:     `{clusterID: oslo, resources: {capacity: {cpu: 4}}, cost: {cpuCost: "0.1"}}`,
			warnings: []string{`spec.cost.currency: prices without a currency are not compared`},
		},
		"a second price of a core": {
			spec:   `{clusterID: oslo, resources: {capacity: {cpu: 4}}, cost: {currency: EUR, resourceCosts: {cpu: "0.1"}}}`,
			errors: []string{`spec.cost.resourceCosts[cpu]: Invalid value: "cpu": the price of a core-hour is spec.cost.cpuCost`},
		},
		"an invalid price": {
			spec:   `{clusterID: oslo, resources: {capacity: {cpu: 4}}, cost: {currency: EUR, cpuCost: "9999999999"}}`,
			errors: []string{`spec: Invalid value: … price of cpu`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			object := "new"
			if tc.name != "" {
				object = tc.name
			}
			a := readYAML[brokerv1alpha1.ClusterAdvertisement](t, "metadata: {namespace: default, name: "+object+"}\nspec: "+tc.spec)
			config := readYAML[brokerv1alpha1.BrokerConfig](t, "spec: "+tc.config).Spec
			wantVerdict(t, CheckClusterAdvertisement(a, &config, fleet(t)), tc.errors, tc.warnings)
		})
	}
}
