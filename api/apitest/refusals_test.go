package apitest

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	reservation = `
apiVersion: broker.fluidos.eu/v1alpha1
kind: Reservation
metadata: {name: bad, namespace: default}
spec: `
	clusterAdvertisement = `
apiVersion: broker.fluidos.eu/v1alpha1
kind: ClusterAdvertisement
metadata: {name: bad, namespace: default}
spec: `
	brokerConfig = `
apiVersion: broker.fluidos.eu/v1alpha1
kind: BrokerConfig
metadata: {name: default}
spec: `
	resourceRequest = `
apiVersion: liqo.io/v1alpha1
kind: ResourceRequest
metadata: {name: bad, namespace: default}
spec: `
)

// testRefusals applies what is wrong in one way each. The answer names the field
// and says what to do.
func (s apiServer) testRefusals(t *testing.T) {
	cases := map[string]struct {
		manifest string
		want     []string
	}{
		"a reservation of a negative amount": {
			reservation + `{requesterID: rome, requestedResources: {cpu: "2", memory: "-1Gi"}}`,
			[]string{"spec.requestedResources", "an amount cannot be negative: ask for more than zero, or leave the resource out"},
		},
		"a reservation of zero everything": {
			reservation + `{requesterID: rome, requestedResources: {cpu: "0", memory: 0Gi}}`,
			[]string{"spec.requestedResources", "at least one amount must be above zero, for example cpu: 500m"},
		},
		"a reservation of nothing": {
			reservation + `{requesterID: rome, requestedResources: {}}`,
			[]string{"spec.requestedResources", "at least one amount must be above zero, for example cpu: 500m"},
		},
		"a reservation without amounts": {
			reservation + `{requesterID: rome}`,
			[]string{"spec.requestedResources: Required value"},
		},
		"a reservation of an amount that is no quantity": {
			reservation + `{requesterID: rome, requestedResources: {cpu: abc}}`,
			[]string{"spec.requestedResources.cpu", `"abc"`},
		},
		"a reservation of an amount beyond reason": {
			reservation + `{requesterID: rome, requestedResources: {cpu: "1e999"}}`,
			[]string{"spec.requestedResources.cpu", `"1e999"`},
		},
		"a reservation of an amount that takes minutes to compute with": {
			reservation + `{requesterID: rome, requestedResources: {cpu: "1e-2147483647"}}`,
			[]string{"spec.requestedResources.cpu", `"1e-2147483647"`},
		},
		"a reservation of eleven resources": {
			reservation + `{requesterID: rome, requestedResources: {cpu: 1, a/1: 1, a/2: 1, a/3: 1, a/4: 1, a/5: 1, a/6: 1, a/7: 1, a/8: 1, a/9: 1, a/10: 1}}`,
			[]string{"spec.requestedResources", "must have at most 10 items"},
		},
		"a reservation for a malformed requester": {
			reservation + `{requesterID: "user team!", requestedResources: {cpu: "2"}}`,
			[]string{"spec.requesterID", "requesterID must be a cluster ID, or another name made of letters, digits, '-', '_' and '.'"},
		},
		"a reservation for a requester that ends in a dash": {
			reservation + `{requesterID: rome-, requestedResources: {cpu: "2"}}`,
			[]string{"spec.requesterID", "requesterID must be a cluster ID"},
		},
		"a reservation for nobody": {
			reservation + `{requesterID: "", requestedResources: {cpu: "2"}}`,
			[]string{"spec.requesterID", "should be at least 1 chars long"},
		},
		"a reservation without a requester": {
			reservation + `{requestedResources: {cpu: "2"}}`,
			[]string{"spec.requesterID: Required value"},
		},
		"a reservation for ten seconds": {
			reservation + `{requesterID: rome, duration: 10s, requestedResources: {cpu: "2"}}`,
			[]string{"spec.duration", "duration must be at least 1m and at most 87600h, for example 2h30m, or left out"},
		},
		"a reservation for a negative time": {
			reservation + `{requesterID: rome, duration: -1h, requestedResources: {cpu: "2"}}`,
			[]string{"spec.duration", "duration must be at least 1m and at most 87600h, for example 2h30m, or left out"},
		},
		"a reservation for a time that is no duration": {
			reservation + `{requesterID: rome, duration: a while, requestedResources: {cpu: "2"}}`,
			[]string{"spec.duration", "duration must be at least 1m and at most 87600h, for example 2h30m, or left out"},
		},
		"a reservation of negative priority": {
			reservation + `{requesterID: rome, priority: -1, requestedResources: {cpu: "2"}}`,
			[]string{"spec.priority", "should be greater than or equal to 0"},
		},
		"a reservation with a field that does not exist": {
			reservation + `{requesterID: rome, resources: {cpu: "2"}, requestedResources: {cpu: "2"}}`,
			[]string{`unknown field "spec.resources"`},
		},
		"an advertisement with the former price of a core": {
			clusterAdvertisement + `{clusterID: paris, resources: {capacity: {cpu: 1}}, cost: {cpuPerHour: "0.1"}}`,
			[]string{"spec.cost.cpuPerHour", "name the price of a core-hour cpuCost"},
		},
		"an advertisement with the former price of memory": {
			clusterAdvertisement + `{clusterID: paris, resources: {capacity: {cpu: 1}}, cost: {memoryPerHour: "0.1"}}`,
			[]string{"spec.cost.memoryPerHour", "name the price of a GiB-hour memoryCost"},
		},
		"an advertisement with a negative price": {
			clusterAdvertisement + `{clusterID: paris, resources: {capacity: {cpu: 1}}, cost: {cpuCost: "-0.1"}}`,
			[]string{"spec.cost.cpuCost", "cpuCost must be a decimal number"},
		},
		"an advertisement with a negative price of a GPU": {
			clusterAdvertisement + `{clusterID: paris, resources: {capacity: {cpu: 1}}, cost: {resourceCosts: {nvidia.com/gpu: "-1"}}}`,
			[]string{"spec.cost.resourceCosts[nvidia.com/gpu]", "a price must be a decimal number"},
		},
		"an advertisement in a currency that is no code": {
			clusterAdvertisement + `{clusterID: paris, resources: {capacity: {cpu: 1}}, cost: {cpuCost: "0.1", currency: eur}}`,
			[]string{"spec.cost.currency", "currency must be an ISO 4217 code, for example EUR"},
		},
		"an advertisement of a cluster in upper case": {
			clusterAdvertisement + `{clusterID: Paris, resources: {capacity: {cpu: 1}}}`,
			[]string{"spec.clusterID", "clusterID must be a DNS label: lower-case letters, digits and '-' only"},
		},
		"an advertisement of a cluster whose ID has 41 characters": {
			clusterAdvertisement + `{clusterID: ` + strings.Repeat("a", 41) + `, resources: {capacity: {cpu: 1}}}`,
			[]string{"spec.clusterID", "may not be more than 40 bytes"},
		},
		"an advertisement without resources": {
			clusterAdvertisement + `{clusterID: paris}`,
			[]string{"spec.resources: Required value"},
		},
		"an advertisement with a password in its address": {
			clusterAdvertisement + `{clusterID: paris, endpointURL: "https://admin:secret@paris:6443", resources: {capacity: {cpu: 1}}}`,
			[]string{"spec.endpointURL", "endpointURL must be an https:// address without user name or password"},
		},
		"an advertisement with credentials beside its address": {
			clusterAdvertisement + `{clusterID: paris, token: secret, resources: {capacity: {cpu: 1}}}`,
			[]string{`unknown field "spec.token"`},
		},
		"a second configuration": {
			strings.Replace(brokerConfig, "name: default", "name: other", 1) + `{scoringPreset: balanced}`,
			[]string{"there is one BrokerConfig: name it default"},
		},
		"a configuration with weights that sum to 90": {
			brokerConfig + `{scoringWeights: {resourceAvailability: 60, cost: 30}}`,
			[]string{"spec.scoringWeights", "the weights must sum to 100"},
		},
		"a configuration with preset and weights": {
			brokerConfig + `{scoringPreset: balanced, scoringWeights: {resourceAvailability: 70, cost: 30}}`,
			[]string{"spec", "set scoringPreset or scoringWeights, not both"},
		},
		"a configuration with a preset that does not exist": {
			brokerConfig + `{scoringPreset: cheapest}`,
			[]string{"spec.scoringPreset", `supported values: "availability", "balanced", "multi-criteria"`},
		},
		"a configuration that calls a cluster stale after a second": {
			brokerConfig + `{staleThreshold: 1s}`,
			[]string{"spec.staleThreshold", "staleThreshold must be at least 1m"},
		},
		"a request for nothing": {
			resourceRequest + `{priority: 10}`,
			[]string{"spec", "nothing is asked for: set cpu, memory or resources"},
		},
		"a request for zero cores": {
			resourceRequest + `{cpu: "0"}`,
			[]string{"spec.cpu", "cpu must be above zero, for example 500m, or left out"},
		},
		"a request for negative memory": {
			resourceRequest + `{memory: "-1Gi"}`,
			[]string{"spec.memory", "memory must be above zero, for example 256Mi, or left out"},
		},
		"a request for an amount beyond reason": {
			resourceRequest + `{cpu: "1e999"}`,
			[]string{"spec.cpu", `"1e999"`},
		},
		"a request that names cpu twice": {
			resourceRequest + `{resources: {cpu: "1"}}`,
			[]string{"spec.resources", "cpu and memory have fields of their own: set spec.cpu and spec.memory"},
		},
		"a request that names nine resources beside cpu and memory": {
			resourceRequest + `{resources: {a/1: 1, a/2: 1, a/3: 1, a/4: 1, a/5: 1, a/6: 1, a/7: 1, a/8: 1, a/9: 1}}`,
			[]string{"spec.resources", "at most eight resources can be named beside cpu and memory"},
		},
		"a request for ten seconds": {
			resourceRequest + `{cpu: "1", duration: 10s}`,
			[]string{"spec.duration", "duration must be at least 1m and at most 87600h, for example 2h30m, or left out"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := s.Create(t.Context(), parse(t, []byte(tc.manifest)), client.DryRunAll)
			wantRefusal(t, err, tc.want...)
		})
	}
}

// testImmutableFields changes what cannot be changed.
func (s apiServer) testImmutableFields(t *testing.T) {
	namespace := s.namespace(t, "immutable")
	cases := map[string]struct {
		manifest, changed string
		want              []string
	}{
		"the requester of a reservation": {
			reservation + `{requesterID: rome, requestedResources: {cpu: "2"}}`,
			reservation + `{requesterID: paris, requestedResources: {cpu: "2"}}`,
			[]string{"spec", "a Reservation cannot be changed yet: delete it and create another"},
		},
		"the cluster of an advertisement": {
			clusterAdvertisement + `{clusterID: paris, resources: {capacity: {cpu: 1}}}`,
			clusterAdvertisement + `{clusterID: berlin, resources: {capacity: {cpu: 1}}}`,
			[]string{"spec.clusterID", "clusterID cannot be changed: delete this ClusterAdvertisement and create one for the other cluster"},
		},
		"what a request asks for": {
			resourceRequest + `{cpu: "1"}`,
			resourceRequest + `{cpu: "2"}`,
			[]string{"spec", "a ResourceRequest cannot be changed yet: delete it and create another"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			object := parse(t, []byte(tc.manifest))
			object.SetNamespace(namespace)
			if err := s.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			object.Object["spec"] = parse(t, []byte(tc.changed)).Object["spec"]
			wantRefusal(t, s.Update(t.Context(), object), tc.want...)
		})
	}
}

func wantRefusal(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("it was accepted")
	}
	for _, part := range want {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the refusal does not say %q:\n%v", part, err)
		}
	}
}
