package admission

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/offering"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// groups are those of a cluster that creates small nodes of 4 cores and nodes of 8 cores with a GPU.
var groups = []offering.NodeGroup{
	{Name: "small", Nodes: 3, Each: quantity.Amounts{"cpu": 4000, "pods": 10}, Labels: map[string]string{"pool": "small"}},
	{Name: "gpu", Nodes: 2, Each: quantity.Amounts{"cpu": 8000, "nvidia.com/gpu": 1, "pods": 10}, Labels: map[string]string{"pool": "gpu"}},
}

func newNodes(group string, count int32) []agentv1alpha1.NewNodes {
	return []agentv1alpha1.NewNodes{{Group: group, Count: count}}
}

var listed = []map[string]string{{"pool": "small"}, {"pool": "gpu"}}

// awaits is a placement for which nodes are being created.
func awaits(name, cpu, group string, count int32) *agentv1alpha1.ProviderInstruction {
	inst := provides(name, cpu, agentv1alpha1.InstructionProvisioning, false)
	inst.Status.NewNodes = newNodes(group, count)
	return inst
}

// In all cases, the cluster has one node, with 4 free cores.
func TestNodesAreCreatedOnlyForRoom(t *testing.T) {
	with := func(cpu string, change func(*agentv1alpha1.ProviderInstructionSpec)) *agentv1alpha1.ProviderInstruction {
		inst := provides("a", cpu, agentv1alpha1.InstructionPending, false)
		change(&inst.Spec)
		return inst
	}
	asIs := func(*agentv1alpha1.ProviderInstructionSpec) {}
	shaped := func(cpu string, count int32) func(*agentv1alpha1.ProviderInstructionSpec) {
		return func(s *agentv1alpha1.ProviderInstructionSpec) {
			s.PodShapes = []brokerv1alpha1.PodShape{{Count: count, Resources: brokerv1alpha1.PodResources{"cpu": resource.MustParse(cpu)}}}
		}
	}
	one := []*agentv1alpha1.ProviderInstruction{awaits("b", "6", "small", 1)}
	for name, tc := range map[string]struct {
		inst     *agentv1alpha1.ProviderInstruction
		others   []*agentv1alpha1.ProviderInstruction
		existing []int64
		cap      quantity.Amounts
		policy   *agentv1alpha1.LendingPolicySpec
		want     []agentv1alpha1.NewNodes
		refused  string
	}{
		"none for what fits": {inst: with("4", asIs)},
		"as few as possible": {inst: with("9", asIs), want: newNodes("small", 2)},
		"of several groups":  {inst: with("18", asIs), want: []agentv1alpha1.NewNodes{{Group: "small", Count: 2}, {Group: "gpu", Count: 1}}},
		"of the group that has the device": {inst: with("1", func(s *agentv1alpha1.ProviderInstructionSpec) {
			s.Resources["nvidia.com/gpu"] = resource.MustParse("1")
		}), want: newNodes("gpu", 1)},
		"of the group that its pods select": {inst: with("5", func(s *agentv1alpha1.ProviderInstructionSpec) {
			s.NodeSelector = map[string]brokerv1alpha1.LabelValue{"pool": "gpu"}
		}), want: newNodes("gpu", 1)},
		"for pods that fit on no node":             {inst: with("6", shaped("6", 1)), want: newNodes("gpu", 1)},
		"no more than the groups may have":         {inst: with("21", asIs), existing: []int64{1, 1}, refused: "4 of the lent capacity is free here"},
		"not beyond a cap":                         {inst: with("9", asIs), cap: quantity.Amounts{"cpu": 8000}, refused: "4 of the lent capacity is free here"},
		"not for pods larger than a node":          {inst: with("9", shaped("9", 1)), refused: "9"},
		"beside those for another placement":       {inst: with("4", asIs), others: one, want: newNodes("small", 1)},
		"none if those of another suffice":         {inst: with("2", asIs), others: one, want: newNodes("small", 0)},
		"none for whom the operator does not lend": {inst: with("9", asIs), policy: &agentv1alpha1.LendingPolicySpec{Paused: true}, refused: "lending is paused"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{tc.inst}
			for _, o := range tc.others {
				objects = append(objects, o)
			}
			if tc.policy != nil {
				policy := &agentv1alpha1.LendingPolicy{Spec: *tc.policy}
				policy.Name = "default"
				objects = append(objects, policy)
			}
			scheme := runtime.NewScheme()
			runtest.Check(t, agentv1alpha1.AddToScheme(scheme))
			if tc.existing == nil {
				tc.existing = []int64{0, 0}
			}
			four := quantity.Amounts{"cpu": 4000, "pods": 10}
			free := fixed{Allocatable: four, Groups: listed, NodesPerGroup: tc.existing, NodeShapes: []quantity.NodeShape{{Count: 1, Free: four}}}
			a := New(fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), free, "default",
				func() offering.Rules { return offering.Rules{Groups: groups, Cap: tc.cap} }, func(context.Context) (string, error) { return "", nil })
			for range 2 { // asked again, for example after a failed write, it answers the same
				d, err := a.Admit(t.Context(), tc.inst)
				runtest.Check(t, err)
				if !slices.Equal(d.NewNodes, tc.want) || d.Admitted != (tc.want == nil && tc.refused == "") || !strings.Contains(d.Message, tc.refused) {
					t.Errorf("%+v, want new nodes %+v and %q", d, tc.want, tc.refused)
				}
			}
		})
	}
}

// Two placements that are decided about before the cache shows the first one create no node twice.
func TestNodesOfADecisionThatIsNotShownYetCount(t *testing.T) {
	first, second := provides("a", "8", agentv1alpha1.InstructionPending, false), provides("b", "4", agentv1alpha1.InstructionPending, false)
	a := admitterOf(t, listed, first, second)
	for _, inst := range []*agentv1alpha1.ProviderInstruction{first, second} {
		d, err := a.Admit(t.Context(), inst)
		runtest.Check(t, err)
		if want := newNodes("small", 1); !slices.Equal(d.NewNodes, want) {
			t.Errorf("%s: %+v, want %+v", inst.Name, d, want)
		}
	}
}

// A change of amounts that does not fit creates no nodes, and is not kept.
func TestChangeCreatesNoNodes(t *testing.T) {
	grows, other := provides("a", "9", agentv1alpha1.InstructionActive, true), provides("b", "3", agentv1alpha1.InstructionPending, false)
	grows.Status.Granted = corev1.ResourceList{"cpu": resource.MustParse("1")}
	a := admitterOf(t, listed, grows, other)
	if d, err := a.Admit(t.Context(), grows); err != nil || d.Reason != agentv1alpha1.ReasonInsufficient || d.NewNodes != nil {
		t.Errorf("the growth: %+v, %v", d, err)
	}
	if d, err := a.Admit(t.Context(), other); err != nil || !d.Admitted {
		t.Errorf("another placement: %+v, %v", d, err)
	}
}

// A placement that would need new nodes waits until these are counted by the present groups.
func TestNewNodesAwaitTheirCount(t *testing.T) {
	inst := provides("a", "9", agentv1alpha1.InstructionPending, false)
	if d, err := admitterOf(t, nil, inst).Admit(t.Context(), inst); err == nil {
		t.Errorf("decided %+v", d)
	}
}

// admitterOf returns the Admitter of a cluster with one node with 4 free cores, whose nodes are listed with
// the given groups.
func admitterOf(t *testing.T, listed []map[string]string, all ...client.Object) *Admitter {
	scheme := runtime.NewScheme()
	runtest.Check(t, agentv1alpha1.AddToScheme(scheme))
	four := quantity.Amounts{"cpu": 4000, "pods": 10}
	free := fixed{Allocatable: four, Groups: listed, NodesPerGroup: []int64{0, 0}, NodeShapes: []quantity.NodeShape{{Count: 1, Free: four}}}
	return New(fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(all...).Build(), free, "default",
		func() offering.Rules { return offering.Rules{Groups: groups} }, func(context.Context) (string, error) { return "", nil })
}
