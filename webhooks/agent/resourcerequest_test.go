package agent

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/bounds"
)

func TestResourceRequests(t *testing.T) {
	const limits = `{limits: [{spec: {limits: [{type: liqo.io/ResourceRequest, max: {cpu: 4}}]}}]}`
	cases := map[string]struct {
		spec             string
		closed           []string
		errors, warnings []string
	}{
		"a request within its bounds": {spec: `{cpu: "4", resources: {nvidia.com/gpu: 1, pods: 20}}`},
		"a request beyond its bounds": {spec: `{cpu: "5"}`, errors: []string{"spec.cpu: Invalid value"}},
		"resources that no node has, and parts of what is counted": {
			spec:   `{cpu: "1", resources: {gpus: 1}}`,
			errors: []string{`spec.resources[gpus]: Invalid value: "gpus": unknown resource "gpus"`},
		},
		"half a GPU": {
			spec:   `{resources: {nvidia.com/gpu: 500m}}`,
			errors: []string{`spec.resources[nvidia.com/gpu]: Invalid value`},
		},
		"an amount that overflows": {spec: `{memory: 7Ei}`, errors: []string{"spec.memory: Invalid value"}},
		"a namespace that did not opt in": {
			spec: `{cpu: "1", namespaces: [open, closed]}`, closed: []string{"closed"},
			warnings: []string{`spec.namespaces[1]: namespace "closed" is not open`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var rr agentv1alpha1.ResourceRequest
			var b bounds.Bounds
			if err := yaml.UnmarshalStrict([]byte("spec: "+tc.spec), &rr); err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal([]byte(limits), &b); err != nil {
				t.Fatal(err)
			}
			v := CheckResourceRequest(&rr, b, nil, tc.closed)
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
