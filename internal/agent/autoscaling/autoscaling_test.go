package autoscaling

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/yaml"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func podsOf(t *testing.T, name, spec string, count int32) Pods {
	t.Helper()
	out := Pods{Template: name, Count: count}
	runtest.Check(t, yaml.Unmarshal([]byte(spec), &out.Spec))
	return out
}

func TestPodsBecomeShapes(t *testing.T) {
	const worker = `{containers: [{name: a, resources: {requests: {cpu: 500m, memory: 256Mi}}}]}`
	cases := map[string]struct {
		spec string
		want string
	}{
		"the sum of containers": {
			`{containers: [{name: a, resources: {requests: {cpu: 500m, memory: 256Mi}}}, {name: b, resources: {requests: {cpu: 250m, memory: 256Mi}}}]}`,
			`{cpu: 750m, memory: 512Mi}`,
		},
		"an init container that needs more than all containers": {
			`{initContainers: [{name: i, resources: {requests: {cpu: "2", memory: 128Mi}}}], containers: [{name: a, resources: {requests: {cpu: 500m, memory: 256Mi}}}]}`,
			`{cpu: "2", memory: 256Mi}`,
		},
		"a sidecar, which runs beside the containers": {
			`{initContainers: [{name: i, restartPolicy: Always, resources: {requests: {cpu: "1", memory: 128Mi}}}], containers: [{name: a, resources: {requests: {cpu: 500m, memory: 256Mi}}}]}`,
			`{cpu: 1500m, memory: 384Mi}`,
		},
		"limits without requests": {
			`{containers: [{name: a, resources: {requests: {cpu: 500m}, limits: {cpu: "1", memory: 256Mi, nvidia.com/gpu: 1}}}]}`,
			`{cpu: 500m, memory: 256Mi, nvidia.com/gpu: "1"}`,
		},
		"overhead": {
			`{overhead: {cpu: 100m}, containers: [{name: a, resources: {requests: {cpu: 500m, memory: 256Mi}}}]}`,
			`{cpu: 600m, memory: 256Mi}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var want brokerv1alpha1.PodResources
			runtest.Check(t, yaml.Unmarshal([]byte(tc.want), &want))
			shapes, err := PodShapes([]Pods{podsOf(t, "worker", tc.spec, 3)})
			runtest.Check(t, err)
			if len(shapes) != 1 || shapes[0].Count != 3 {
				t.Fatalf("shapes %v, want one of three pods", shapes)
			}
			for name, amount := range want {
				if got := shapes[0].Resources[name]; got.Cmp(amount) != 0 {
					t.Errorf("%s is %s, want %s", name, got.String(), amount.String())
				}
			}
			if len(shapes[0].Resources) != len(want) {
				t.Errorf("resources %v, want %v", shapes[0].Resources, want)
			}
		})
	}

	t.Run("pods of equal size share a shape", func(t *testing.T) {
		shapes, err := PodShapes([]Pods{podsOf(t, "a", worker, 3), podsOf(t, "b", worker, 4), podsOf(t, "c", worker, math.MaxInt32)})
		if err != nil || len(shapes) != 1 || shapes[0].Count != math.MaxInt32 {
			t.Errorf("shapes %v, error %v", shapes, err)
		}
	})
}

func TestParametersUseTheWordsOfResourceRequests(t *testing.T) {
	pods := []Pods{podsOf(t, "worker", `{containers: [{name: a, resources: {requests: {cpu: 500m, memory: 256Mi}}}]}`, 2)}
	spec, err := RequestSpec(pods, map[string]Parameter{
		"duration": "4h", "priority": "10", "queuePolicy": "Queue", "queueTimeout": "30m", "healing": "Wait", "group": "train",
		"regions": "eu-south, eu-west", "zones": "eu-south-1a", "includeClusters": "paris,oslo", "excludeClusters": "madrid",
		"affinity": "web", "antiAffinity": "train", "dataLocality": "images", "maxPrice": "12.5 EUR",
		"clusterSelector": "tier=gold,site in (a,b),!old", "nodeSelector": "gpu=a100,disk=ssd", "requiredClaims": "availability=>=99.9,iso27001=",
	})
	runtest.Check(t, err)
	var want agentv1alpha1.ResourceRequestSpec
	err = yaml.Unmarshal([]byte(`
duration: 4h
priority: 10
queuePolicy: Queue
queueTimeout: 30m
healing: Wait
group: train
podShapes: [{count: 2, resources: {cpu: 500m, memory: 256Mi}}]
constraints:
  regions: [eu-south, eu-west]
  zones: [eu-south-1a]
  includeClusters: [paris, oslo]
  excludeClusters: [madrid]
  affinity: [web]
  antiAffinity: [train]
  dataLocality: images
  maxPrice: {amount: "12.5", currency: EUR}
  clusterSelector: {matchExpressions: [
    {key: old, operator: DoesNotExist}, {key: site, operator: In, values: [a, b]}, {key: tier, operator: In, values: [gold]}]}
  nodeSelector: {gpu: a100, disk: ssd}
  requiredClaims: {availability: ">=99.9", iso27001: ""}
`), &want)
	runtest.Check(t, err)
	if diff := cmp.Diff(want, spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestWrongProvisioningRequestsAreExplained(t *testing.T) {
	const good = `{containers: [{name: a, resources: {requests: {cpu: 500m, memory: 256Mi}}}]}`
	cases := map[string]struct {
		pod        string
		parameters map[string]Parameter
		want       []string
	}{
		"a pod without requests": {
			`{containers: [{name: a}]}`, nil,
			[]string{`pod template "worker" has no request for cpu and memory: set resources.requests`},
		},
		"everything that is wrong at once": {
			good, map[string]Parameter{"duration": "4 hours", "regoins": "eu", "priority": "-1"},
			[]string{
				`parameter "duration": "4 hours" is not a duration from 1m0s to 87600h: write for example 2h30m`,
				`parameter "priority": "-1" is not a priority: write a whole number from 0 to 1000000`,
				`parameter "regoins" is unknown: use affinity,`,
			},
		},
		"a word that the field does not have": {
			good, map[string]Parameter{"queuePolicy": "Wait"}, []string{`parameter "queuePolicy": "Wait" is unknown: use Fail or Queue`},
		},
		"a timeout without a queue": {
			good, map[string]Parameter{"queueTimeout": "1h"}, []string{`parameter "queueTimeout": "1h" has no effect without queuePolicy=Queue`},
		},
		"a price without currency": {
			good, map[string]Parameter{"maxPrice": "12"}, []string{`parameter "maxPrice": "12" is not a price per hour: write an amount and a currency, for example "1.50 EUR"`},
		},
		"an empty entry":                  {good, map[string]Parameter{"regions": "eu,"}, []string{`parameter "regions": "eu," has an empty entry`}},
		"labels without a value":          {good, map[string]Parameter{"nodeSelector": "gpu"}, []string{`parameter "nodeSelector": "gpu" has "gpu" where KEY=VALUE must be`}},
		"a selector that cannot be read":  {good, map[string]Parameter{"clusterSelector": "a in"}, []string{`parameter "clusterSelector": "a in" is not a label selector`}},
		"an operator that clusters lack":  {good, map[string]Parameter{"clusterSelector": "a>1"}, []string{`has operator "gt": use =`}},
		"a region that is not a name":     {good, map[string]Parameter{"regions": "eu south"}, []string{`constraints.regions`, `eu south`}},
		"a resource that is not a number": {`{containers: [{name: a, resources: {requests: {cpu: 500m, memory: 256Mi, nvidia.com/gpu: 500m}}}]}`, nil, []string{`podShapes[0]`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := RequestSpec([]Pods{podsOf(t, "worker", tc.pod, 1)}, tc.parameters)
			if err == nil {
				t.Fatal("it was accepted")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not contain %q", err, want)
				}
			}
		})
	}
	t.Run("more sizes of pods than a request has shapes", func(t *testing.T) {
		var sets []Pods
		for i := range maxShapes + 1 {
			set := podsOf(t, "worker", good, 1)
			set.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(i+1), resource.DecimalSI)
			sets = append(sets, set)
		}
		if _, err := RequestSpec(sets, nil); err == nil || !strings.Contains(err.Error(), "podSets: 17 different sizes of pods") {
			t.Errorf("error %v", err)
		}
	})
}
