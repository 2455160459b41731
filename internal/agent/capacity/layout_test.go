package capacity

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

func TestLayoutShowsNodesExactlyAndPodsByPlacement(t *testing.T) {
	a := newAccounts()
	for i, name := range []string{"n1", "n2", "full"} {
		a.setNode(name, nodeFacts{ours: true, counts: true, allocatable: quantity.Amounts{"cpu": 4001, "pods": int64(3 - i)}})
	}
	a.setNode("cordoned", nodeFacts{ours: true, allocatable: quantity.Amounts{"cpu": 4001, "pods": 3}})
	a.setPod(podKey{1}, podFacts{node: "n1", placement: "res-aaaaaaaaaa-1", request: request{milliCPU: 500}})
	a.setPod(podKey{2}, podFacts{node: "full", request: request{milliCPU: 1}})
	a.setPod(podKey{3}, podFacts{node: "cordoned", placement: "res-aaaaaaaaaa-1", request: request{milliCPU: 500}})
	want := Layout{
		Nodes: []quantity.NodeShape{
			{Count: 1, Free: quantity.Amounts{"cpu": 4001, "memory": 0, "pods": 2}},
			{Count: 1, Free: quantity.Amounts{"cpu": 4000, "memory": 0, "pods": 0}},
			{Count: 1, Free: quantity.Amounts{"cpu": 3501, "memory": 0, "pods": 2}},
		},
		Running: map[string][]quantity.Amounts{"res-aaaaaaaaaa-1": {{"cpu": 500, "memory": 0, "pods": 1}}},
	}
	if diff := cmp.Diff(want, a.newLayout()); diff != "" {
		t.Errorf("layout (-want +got):\n%s", diff)
	}
}
