package agent

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/bounds"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/namespaces"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestResourceRequests(t *testing.T) {
	const limits = `{limits: [{spec: {limits: [{type: liqo.io/ResourceRequest, max: {cpu: 4}}]}}]}`
	cases := map[string]struct {
		spec             string
		access           namespaces.Access
		errors, warnings []string
	}{
		"a request within its bounds": {spec: `{cpu: "4", memory: 1Gi, resources: {nvidia.com/gpu: 1, pods: 20}}`},
		"a request beyond its bounds": {spec: `{cpu: "5", memory: 1Gi}`, errors: []string{"spec.cpu: Invalid value"}},
		"resources that no node has, and parts of what is counted": {
			spec:   `{cpu: "1", memory: 1Gi, resources: {gpus: 1}}`,
			errors: []string{`spec.resources[gpus]: Invalid value: "gpus": unknown resource "gpus"`},
		},
		"half a GPU": {
			spec:   `{cpu: "1", memory: 1Gi, resources: {nvidia.com/gpu: 500m}}`,
			errors: []string{`spec.resources[nvidia.com/gpu]: Invalid value: "500m": must be a whole number, for example 1`},
		},
		"an amount that overflows": {spec: `{cpu: "1", memory: 7Ei}`, errors: []string{"spec.memory: Invalid value"}},
		"a GPU without memory": {
			spec:   `{cpu: "1", resources: {nvidia.com/gpu: 1}}`,
			errors: []string{`spec: Invalid value: memory must be above zero`},
		},
		"pods that need no memory": {
			spec:   `{cpu: "2", podShapes: [{count: 1, resources: {cpu: "1"}}]}`,
			errors: []string{`spec: Invalid value: memory must be above zero`},
		},
		"pods that need cpu and memory": {spec: `{podShapes: [{count: 1, resources: {cpu: "1", memory: 1Gi}}]}`},
		"a namespace that did not opt in": {
			spec: `{cpu: "1", memory: 1Gi, namespaces: [open, closed]}`, access: namespaces.Access{Closed: []string{"closed"}},
			warnings: []string{`spec.namespaces[1]: namespace "closed" is not open`},
		},
		"a namespace whose pods would leave although it only opted in": {
			spec: `{cpu: "1", memory: 1Gi, namespaces: [open], offloading: {podOffloadingStrategy: Remote}}`, access: namespaces.Access{LocalOnly: []string{"open"}},
			warnings: []string{`spec.namespaces[0]: namespace "open" is open only to podOffloadingStrategy Local`},
		},
		"a namespace that does not exist": {
			spec: `{cpu: "1", memory: 1Gi, namespaces: [nosuch]}`, access: namespaces.Access{Missing: []string{"nosuch"}},
			warnings: []string{`spec.namespaces[0]: namespace "nosuch" does not exist; capacity is reserved, but nothing runs there until it does, with label liqo.io/broker-offload=`},
		},
		"a namespace of Kubernetes": {
			spec: `{cpu: "1", memory: 1Gi, namespaces: [kube-system]}`, access: namespaces.Access{System: []string{"kube-system"}},
			errors: []string{`spec.namespaces[0]: Invalid value: "kube-system": is a system namespace, which cannot be offloaded: leave it out`},
		},
		"a request in a namespace of Kubernetes": {
			spec: `{cpu: "1", memory: 1Gi}`, access: namespaces.Access{System: []string{"kube-system"}},
			errors: []string{`metadata.namespace: Invalid value: "kube-system": is a system namespace`},
		},
		"more cores than there are": {
			spec:   `{cpu: "1e30", memory: 1Gi}`,
			errors: []string{`spec.cpu: Invalid value: "1e30": is too large: no cluster has more than 4611686018427387`},
		},
		"a requirement that is malformed": {
			spec:   `{cpu: "1", memory: 1Gi, constraints: {requiredClaims: {availability: ">99"}}}`,
			errors: []string{`spec.constraints.requiredClaims[availability]: Invalid value: ">99" is not a requirement of a claim: write a value, or >= or <= and a decimal number`},
		},
		"pods that need more than the total": {
			spec:   `{cpu: "1", memory: 4Gi, podShapes: [{count: 3, resources: {cpu: 500m, memory: 1Gi}}]}`,
			errors: []string{`spec.podShapes: Invalid value: the pods need 1500m of cpu in all, and resources name 1: raise that, or leave it out`},
		},
		"only this cluster as provider": {
			spec:   `{cpu: "1", memory: 1Gi, constraints: {includeClusters: [rome]}}`,
			errors: []string{`spec.constraints.includeClusters[0]: Invalid value: "rome": is the requester itself, which cannot be its own provider: name other clusters`},
		},
		"this cluster beside others, and left out too": {
			spec: `{cpu: "1", memory: 1Gi, constraints: {includeClusters: [rome, paris], excludeClusters: [milan]}}`,
			warnings: []string{
				`spec.constraints.includeClusters[0]: "rome" is the requester itself, which cannot be its own provider: leave it out`,
			},
		},
		"this cluster left out": {
			spec:     `{cpu: "1", memory: 1Gi, constraints: {excludeClusters: [rome]}}`,
			warnings: []string{`spec.constraints.excludeClusters[0]: "rome" is the requester itself`},
		},
		"a cluster on both lists": {
			spec:   `{cpu: "1", memory: 1Gi, constraints: {includeClusters: [paris, milan], excludeClusters: [paris]}}`,
			errors: []string{`spec.constraints.includeClusters[0]: Invalid value: "paris": is in excludeClusters too: take it out of one of the lists`},
		},
		"a namespace whose name is too long for providers": {
			spec:     `{cpu: "1", memory: 1Gi, namespaces: [nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn, nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn]}`,
			warnings: []string{`namespace "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn" cannot be offloaded: it would be "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn-rome" at providers, which is longer than 63 characters`},
		},
		"a long name that stays the same at providers": {
			spec: `{cpu: "1", memory: 1Gi, namespaces: [nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn], offloading: {namespaceMappingStrategy: EnforceSameName}}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var rr agentv1alpha1.ResourceRequest
			var b bounds.Bounds
			runtest.Check(t, yaml.UnmarshalStrict([]byte("spec: "+tc.spec), &rr))
			runtest.Check(t, yaml.Unmarshal([]byte(limits), &b))
			v := CheckResourceRequest(&rr, "rome", b, nil, tc.access)
			var said []string
			for _, err := range v.Errors {
				said = append(said, err.Error())
			}
			wantBeginnings(t, said, tc.errors)
			wantBeginnings(t, v.Warnings, tc.warnings)
		})
	}
}

func wantBeginnings(t *testing.T, said, want []string) {
	t.Helper()
	if len(said) != len(want) {
		t.Fatalf("got %q, want %q", said, want)
	}
	for i := range want {
		if !strings.HasPrefix(said[i], want[i]) {
			t.Errorf("got %q, want %q", said[i], want[i])
		}
	}
}
