package admission

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/advertisement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/offering"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// fixed is a capacity snapshot that does not change.
type fixed capacity.Snapshot

func (f fixed) Snapshot() capacity.Snapshot { return capacity.Snapshot(f) }

func (f fixed) Layout() capacity.Layout { return capacity.Layout{Nodes: f.NodeShapes} }

func (fixed) Synced() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

func provides(name, cpu string, phase agentv1alpha1.InstructionPhase, enforced bool) *agentv1alpha1.ProviderInstruction {
	return &agentv1alpha1.ProviderInstruction{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       agentv1alpha1.ProviderInstructionSpec{RequesterClusterID: "rome", ReservationName: "res-a", Resources: corev1.ResourceList{"cpu": resource.MustParse(cpu)}},
		Status:     agentv1alpha1.ProviderInstructionStatus{Phase: phase, Enforced: enforced},
	}
}

func liqoReady(status metav1.ConditionStatus, reason string) *metav1.Condition {
	return &metav1.Condition{Type: agentv1alpha1.ConditionLiqoReady, Status: status, Reason: reason}
}

// unready returns a value for the field unready of admission. It depends on whether the cluster is
// leaving and on the given condition LiqoReady.
func unready(leaving bool, liqo *metav1.Condition) func(context.Context) (string, error) {
	adv, now := &agentv1alpha1.Advertisement{}, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	if leaving {
		adv.Annotations = map[string]string{agentv1alpha1.LeavingUntilAnnotation: now.Add(time.Second).Format(time.RFC3339)}
	}
	return func(context.Context) (string, error) { return advertisement.WhyUnready(adv, liqo, now), nil }
}

func TestAdmission(t *testing.T) {
	cores := func(n int64) quantity.Amounts { return quantity.Amounts{"cpu": n * 1000} }
	tests := map[string]struct {
		allocated quantity.Amounts
		used      map[string]quantity.Amounts
		others    []*agentv1alpha1.ProviderInstruction
		stretch   quantity.Ratios
		cap       quantity.Amounts
		policy    *agentv1alpha1.LendingPolicySpec
		liqo      *metav1.Condition
		leaving   bool
		cpu       string
		refused   string
	}{
		"what is free": {cpu: "8"},
		"as much as it offers of more than there is": {stretch: quantity.Ratios{"cpu": 150}, cpu: "12"},
		"more than it offers":                        {stretch: quantity.Ratios{"cpu": 150}, cpu: "13", refused: "12 of the lent capacity is free here"},
		"beside its own pods, of what it offers":     {stretch: quantity.Ratios{"cpu": 150}, allocated: cores(3), cpu: "10", refused: "9 of the lent capacity is free here"},
		"up to a cap":                                {cap: cores(6), cpu: "6"},
		"beyond a cap":                               {cap: cores(6), cpu: "7", refused: "6 of the lent capacity is free here"},
		"beyond a cap, beside what others have of it": {
			cap: cores(6), others: []*agentv1alpha1.ProviderInstruction{provides("b", "4", agentv1alpha1.InstructionActive, true)}, cpu: "3", refused: "2 of the lent capacity is free here",
		},
		"more than there is":                            {cpu: "9", refused: "8 of the lent capacity is free here"},
		"what this cluster's own pods took meanwhile":   {allocated: cores(3), cpu: "6", refused: "5 of the lent capacity is free here"},
		"beside what is kept for others":                {others: []*agentv1alpha1.ProviderInstruction{provides("b", "4", agentv1alpha1.InstructionActive, true)}, cpu: "4"},
		"into what is kept for others":                  {others: []*agentv1alpha1.ProviderInstruction{provides("b", "4", agentv1alpha1.InstructionActive, true)}, cpu: "5", refused: "4 of the lent capacity is free here"},
		"where another uses less than it holds":         {used: map[string]quantity.Amounts{"b": cores(1)}, others: []*agentv1alpha1.ProviderInstruction{provides("b", "4", agentv1alpha1.InstructionActive, true)}, cpu: "5", refused: "4 of the lent capacity is free here"},
		"where another uses more than it holds":         {used: map[string]quantity.Amounts{"b": cores(6)}, others: []*agentv1alpha1.ProviderInstruction{provides("b", "4", agentv1alpha1.InstructionActive, true)}, cpu: "3", refused: "2 of the lent capacity is free here"},
		"where pods of a forgotten placement still run": {used: map[string]quantity.Amounts{"gone": cores(6)}, cpu: "3", refused: "2 of the lent capacity is free here"},
		"beside what was released or refused": {others: []*agentv1alpha1.ProviderInstruction{
			provides("b", "4", agentv1alpha1.InstructionReleased, false), provides("c", "4", agentv1alpha1.InstructionRefused, false),
		}, cpu: "8"},
		"whom the operator allows":        {policy: &agentv1alpha1.LendingPolicySpec{Consumers: &agentv1alpha1.Consumers{Allow: []agentv1alpha1.ClusterID{"rome"}}}, cpu: "8"},
		"a consumer that is not allowed":  {policy: &agentv1alpha1.LendingPolicySpec{Consumers: &agentv1alpha1.Consumers{Allow: []agentv1alpha1.ClusterID{"milan"}}}, cpu: "1", refused: "does not lend to rome"},
		"a denied consumer":               {policy: &agentv1alpha1.LendingPolicySpec{Consumers: &agentv1alpha1.Consumers{Deny: []agentv1alpha1.ClusterID{"rome"}}}, cpu: "1", refused: "does not lend to rome"},
		"a recalled reservation":          {policy: &agentv1alpha1.LendingPolicySpec{Recalls: []agentv1alpha1.Recall{{Reservation: "res-a"}}}, cpu: "1", refused: "has called this reservation back"},
		"a recalled consumer":             {policy: &agentv1alpha1.LendingPolicySpec{Recalls: []agentv1alpha1.Recall{{Consumer: "rome"}}}, cpu: "1", refused: "does not lend to rome"},
		"all consumers recalled":          {policy: &agentv1alpha1.LendingPolicySpec{Recalls: []agentv1alpha1.Recall{{Consumer: "*"}}}, cpu: "1", refused: "lending is paused"},
		"while lending is paused":         {policy: &agentv1alpha1.LendingPolicySpec{Paused: true}, cpu: "1", refused: "lending is paused"},
		"while Liqo does not run":         {liqo: liqoReady(metav1.ConditionFalse, agentv1alpha1.ReasonLiqoNotRunning), cpu: "1", refused: "cannot peer at present"},
		"with a Liqo that cannot be read": {liqo: liqoReady(metav1.ConditionUnknown, agentv1alpha1.ReasonLiqoHidden), cpu: "1"},
		"with a Liqo that limits nothing": {liqo: liqoReady(metav1.ConditionFalse, agentv1alpha1.ReasonLimitsNotEnforced), cpu: "1"},
		"while it is uninstalled":         {leaving: true, cpu: "1", refused: "is being uninstalled"},
		"beside what is not decided yet":  {others: []*agentv1alpha1.ProviderInstruction{provides("b", "4", agentv1alpha1.InstructionPending, false)}, cpu: "8"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{provides("a", test.cpu, agentv1alpha1.InstructionPending, false)}
			for _, o := range test.others {
				objects = append(objects, o)
			}
			if test.policy != nil {
				objects = append(objects, &agentv1alpha1.LendingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: *test.policy})
			}
			scheme := runtime.NewScheme()
			runtest.Check(t, agentv1alpha1.AddToScheme(scheme))
			c := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
			a := New(c, fixed{Allocatable: cores(8), Allocated: test.allocated, Used: test.used}, "default", func() offering.Rules { return offering.Rules{Ratios: test.stretch, Cap: test.cap} },
				unready(test.leaving, test.liqo))
			got, err := a.Admit(t.Context(), objects[0].(*agentv1alpha1.ProviderInstruction))
			runtest.Check(t, err)
			if got.Admitted != (test.refused == "") || !strings.Contains(got.Message, test.refused) {
				t.Errorf("got %+v, want a refusal with %q", got, test.refused)
			}
		})
	}
}

// TestAdmissionCountsPlacementsMissingInTheCache checks that a stale cache does not make the agent
// admit the same capacity twice.
func TestAdmissionCountsPlacementsMissingInTheCache(t *testing.T) {
	scheme := runtime.NewScheme()
	runtest.Check(t, agentv1alpha1.AddToScheme(scheme))
	first, second := provides("a", "5", "", false), provides("b", "5", "", false)
	c := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(first, second).Build()
	a := New(c, fixed{Allocatable: quantity.Amounts{"cpu": 8000}}, "default", func() offering.Rules { return offering.Rules{} },
		unready(false, nil))
	for _, step := range []struct {
		inst *agentv1alpha1.ProviderInstruction
		want bool
	}{{first, true}, {second, false}, {first, true}} {
		got, err := a.Admit(t.Context(), step.inst)
		if err != nil || got.Admitted != step.want {
			t.Errorf("%s: got %+v, %v, want admitted: %v", step.inst.Name, got, err, step.want)
		}
	}
}

// arranged is a capacity snapshot with nodes and running pods.
type arranged struct {
	fixed
	layout capacity.Layout
}

func (a arranged) Layout() capacity.Layout { return a.layout }

// shaped returns an instruction for pods of the given number of cores.
func shaped(name string, count int32, cores string, enforced bool, nodes map[string]brokerv1alpha1.LabelValue) *agentv1alpha1.ProviderInstruction {
	each := resource.MustParse(cores)
	total := each.DeepCopy()
	total.Mul(int64(count))
	inst := provides(name, total.String(), agentv1alpha1.InstructionActive, enforced)
	inst.Spec.PodShapes = []brokerv1alpha1.PodShape{{Count: count, Resources: brokerv1alpha1.PodResources{"cpu": each}}}
	inst.Spec.NodeSelector = nodes
	return inst
}

// sized adds pods of another size to an instruction.
func sized(inst *agentv1alpha1.ProviderInstruction, count int32, cores string) *agentv1alpha1.ProviderInstruction {
	inst.Spec.PodShapes = append(inst.Spec.PodShapes, brokerv1alpha1.PodShape{Count: count, Resources: brokerv1alpha1.PodResources{"cpu": resource.MustParse(cores)}})
	total := inst.Spec.Resources["cpu"]
	for range count {
		total.Add(resource.MustParse(cores))
	}
	inst.Spec.Resources["cpu"] = total
	return inst
}

func tolerating(inst *agentv1alpha1.ProviderInstruction) *agentv1alpha1.ProviderInstruction {
	inst.Spec.Tolerations = []brokerv1alpha1.Toleration{{Key: "dedicated", Operator: "Exists"}}
	return inst
}

func selecting(inst *agentv1alpha1.ProviderInstruction, nodes map[string]brokerv1alpha1.LabelValue) *agentv1alpha1.ProviderInstruction {
	inst.Spec.NodeSelector = nodes
	return inst
}

// Two nodes have four free cores each. One of them has a GPU, and the taint that is named after it.
func TestNodesTaintedForADeviceCountForPlacementsOfIt(t *testing.T) {
	const gpu = corev1.ResourceName("nvidia.com/gpu")
	for name, test := range map[string]struct {
		cpu, gpus string
		refused   string
	}{
		"cpu on the other node":       {cpu: "4", gpus: "0"},
		"cpu on the node of the GPU":  {cpu: "5", gpus: "0", refused: "have only 4 free"},
		"a GPU, and cpu on all nodes": {cpu: "8", gpus: "1"},
	} {
		wants := provides("a", test.cpu, agentv1alpha1.InstructionPending, false)
		wants.Spec.Resources[gpu] = resource.MustParse(test.gpus)
		scheme := runtime.NewScheme()
		runtest.Check(t, agentv1alpha1.AddToScheme(scheme))
		free := arranged{layout: capacity.Layout{Nodes: []quantity.NodeShape{
			{Count: 1, Free: quantity.Amounts{"cpu": 4000, "pods": 110}},
			{Count: 1, Free: quantity.Amounts{"cpu": 4000, "pods": 110, gpu: 1}, Taints: []brokerv1alpha1.Taint{{Key: string(gpu), Effect: "NoSchedule"}}},
		}}}
		free.Allocatable, free.NodeShapes = quantity.Amounts{"cpu": 8000, "pods": 220, gpu: 1}, free.layout.Nodes
		a := New(fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(wants).Build(), free, "default",
			func() offering.Rules { return offering.Rules{} }, unready(false, nil))
		got, err := a.Admit(t.Context(), wants)
		if err != nil || got.Admitted != (test.refused == "") || !strings.Contains(got.Message, test.refused) {
			t.Errorf("%s: got %+v, %v, want a refusal with %q", name, got, err, test.refused)
		}
	}
}

// Four nodes have four free cores each, and two of the nodes have a GPU.
func TestAdmissionPacksPodsOnNodes(t *testing.T) {
	gpu := map[string]brokerv1alpha1.LabelValue{"gpu": "a100"}
	cores := func(n int64) quantity.Amounts { return quantity.Amounts{"cpu": n * 1000, "pods": 1} }
	tests := map[string]struct {
		wants   *agentv1alpha1.ProviderInstruction
		others  []*agentv1alpha1.ProviderInstruction
		running map[string][]quantity.Amounts
		// tainted is true if the nodes without a GPU have a taint that is offered.
		tainted bool
		refused string
	}{
		"pods that fill every node":            {wants: shaped("a", 4, "4", false, nil)},
		"pods that fit into the sum only":      {wants: shaped("a", 5, "3", false, nil), refused: "of 5 pods of cpu 3 only 4 fit on the nodes here"},
		"a pod that is larger than any node":   {wants: shaped("a", 1, "5", false, nil), refused: "of 1 pods of cpu 5 only 0 fit"},
		"no shapes, so the sum decides":        {wants: provides("a", "16", agentv1alpha1.InstructionPending, false)},
		"pods that fit on the nodes asked for": {wants: shaped("a", 2, "4", false, gpu)},
		"pods that need other nodes as well":   {wants: shaped("a", 3, "4", false, gpu), refused: "of 3 pods of cpu 4 only 2 fit"},
		"amounts beside tainted nodes":         {tainted: true, wants: provides("a", "8", agentv1alpha1.InstructionPending, false)},
		"amounts that are free on tainted nodes only": {
			tainted: true, wants: provides("a", "9", agentv1alpha1.InstructionPending, false), refused: "requested 9 of cpu, but the nodes that the request selects and tolerates have only 8 free",
		},
		"amounts that are free on nodes that the request tolerates": {tainted: true, wants: tolerating(provides("a", "16", agentv1alpha1.InstructionPending, false))},
		"pods on tainted nodes":                    {tainted: true, wants: shaped("a", 3, "4", false, nil), refused: "of 3 pods of cpu 4 only 2 fit"},
		"pods on nodes that the request tolerates": {tainted: true, wants: tolerating(shaped("a", 4, "4", false, nil))},
		"pods next to those that tolerate the taint": {
			tainted: true, wants: shaped("a", 2, "4", false, nil), others: []*agentv1alpha1.ProviderInstruction{tolerating(shaped("b", 1, "1", true, nil))},
			refused: "of 2 pods of cpu 4 only 1 fit",
		},
		"amounts that are free on the nodes asked for": {wants: selecting(provides("a", "8", agentv1alpha1.InstructionPending, false), gpu)},
		"amounts that are free on other nodes as well": {
			wants:   selecting(provides("a", "9", agentv1alpha1.InstructionPending, false), gpu),
			refused: "requested 9 of cpu, but the nodes that the request selects and tolerates have only 8 free",
		},
		"amounts next to pods promised on the same nodes": {
			wants:  selecting(provides("a", "5", agentv1alpha1.InstructionPending, false), gpu),
			others: []*agentv1alpha1.ProviderInstruction{shaped("b", 1, "4", true, gpu)}, refused: "have only 4 free",
		},
		"amounts next to others on the same nodes": {
			wants:   selecting(provides("a", "6", agentv1alpha1.InstructionPending, false), gpu),
			others:  []*agentv1alpha1.ProviderInstruction{selecting(provides("b", "3", agentv1alpha1.InstructionActive, true), gpu)},
			refused: "have only 5 free",
		},
		"amounts on nodes of which there are none": {
			wants:   selecting(provides("a", "1", agentv1alpha1.InstructionPending, false), map[string]brokerv1alpha1.LabelValue{"gpu": "h100"}),
			refused: "have only 0 free",
		},
		"next to pods that may start on any node": {wants: shaped("a", 2, "4", false, nil), others: []*agentv1alpha1.ProviderInstruction{shaped("b", 3, "1", true, nil)}, refused: "of 2 pods of cpu 4 only 1 fit"},
		"next to pods that may start on some":     {wants: shaped("a", 2, "4", false, nil), others: []*agentv1alpha1.ProviderInstruction{shaped("b", 2, "1", true, nil)}},
		"next to a pod bound to one kind of node": {wants: shaped("a", 1, "4", false, nil), others: []*agentv1alpha1.ProviderInstruction{shaped("b", 1, "4", true, gpu)}},
		"where pods bound to some nodes need all of them": {
			wants: shaped("a", 1, "4", false, nil), others: []*agentv1alpha1.ProviderInstruction{shaped("b", 2, "4", true, gpu)},
			refused: "1 pods of cpu 4 fit here, but only on nodes that pods promised to others need",
		},
		"small pods where others were promised whole nodes": {
			wants: shaped("a", 3, "1", false, nil), others: []*agentv1alpha1.ProviderInstruction{shaped("b", 2, "4", true, nil)},
			refused: "3 pods of cpu 1 fit here, but only on nodes that pods promised to others need",
		},
		"small pods where others were promised whole nodes and enough are left": {
			wants: shaped("a", 2, "1", false, nil), others: []*agentv1alpha1.ProviderInstruction{shaped("b", 2, "4", true, nil)},
		},
		"next to a promise whose pods all run": {
			wants: shaped("a", 4, "4", false, nil), others: []*agentv1alpha1.ProviderInstruction{shaped("b", 3, "1", true, nil)},
			running: map[string][]quantity.Amounts{"b": {cores(1), cores(1), cores(1)}},
		},
		"next to a promise that has ended": {
			wants: shaped("a", 2, "4", false, nil), others: []*agentv1alpha1.ProviderInstruction{func() *agentv1alpha1.ProviderInstruction {
				b := shaped("b", 3, "1", true, nil)
				b.Spec.Release = true
				return b
			}()},
		},
		"next to amounts whose pods could be small and start on every node": {
			wants: shaped("a", 3, "4", false, nil), others: []*agentv1alpha1.ProviderInstruction{provides("b", "4", agentv1alpha1.InstructionActive, true)},
			refused: "of 3 pods of cpu 4 only 0 fit",
		},
		"next to amounts that leave enough beside every pod": {
			wants: shaped("a", 2, "3", false, nil), others: []*agentv1alpha1.ProviderInstruction{provides("b", "3", agentv1alpha1.InstructionActive, true)},
		},
		"next to amounts of which one pod runs": {
			wants: shaped("a", 4, "4", false, nil), others: []*agentv1alpha1.ProviderInstruction{provides("b", "1", agentv1alpha1.InstructionActive, true)},
			running: map[string][]quantity.Amounts{"b": {cores(1)}},
		},
		"amounts that are too small to take the room of promised pods": {
			wants: provides("a", "1", agentv1alpha1.InstructionPending, false), others: []*agentv1alpha1.ProviderInstruction{shaped("b", 4, "3", true, nil)},
		},
		"amounts that could take the room of promised pods": {
			wants: provides("a", "2", agentv1alpha1.InstructionPending, false), others: []*agentv1alpha1.ProviderInstruction{shaped("b", 4, "3", true, nil)},
			refused: "small pods could take room that pods promised to others need",
		},
		"pods that other sizes of the request may keep from starting": {
			wants:   sized(shaped("a", 4, "3", false, nil), 2, "2"),
			refused: "of 4 pods of cpu 3 only 2 fit on the nodes here, if other pods of the request and those promised to others start first",
		},
		"pods of two sizes in any order": {wants: sized(shaped("a", 2, "4", false, nil), 2, "1")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{test.wants}
			for _, o := range test.others {
				objects = append(objects, o)
			}
			scheme := runtime.NewScheme()
			runtest.Check(t, agentv1alpha1.AddToScheme(scheme))
			free := arranged{layout: capacity.Layout{Running: test.running, Nodes: []quantity.NodeShape{
				{Count: 2, Free: quantity.Amounts{"cpu": 4000, "pods": 110}, Labels: map[string]string{"gpu": "a100"}},
				{Count: 2, Free: quantity.Amounts{"cpu": 4000, "pods": 110}},
			}}}
			free.Allocatable = quantity.Amounts{"cpu": 16000, "pods": 440}
			if test.tainted {
				free.layout.Nodes[1].Taints = []brokerv1alpha1.Taint{{Key: "dedicated", Value: "batch", Effect: "NoSchedule"}}
				free.NodeShapes = free.layout.Nodes
			}
			for name, pods := range test.running {
				free.Allocatable = quantity.Amounts{"cpu": 20000, "pods": 440}
				free.Used = map[string]quantity.Amounts{name: cores(int64(len(pods)))}
			}
			a := New(fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), free, "default",
				func() offering.Rules { return offering.Rules{} }, unready(false, nil))
			got, err := a.Admit(t.Context(), test.wants)
			runtest.Check(t, err)
			if got.Admitted != (test.refused == "") || !strings.Contains(got.Message, test.refused) || !got.Admitted && got.Reason != ledger.PodsDoNotFit {
				t.Errorf("got %+v, want a refusal with %q", got, test.refused)
			}
		})
	}
}
