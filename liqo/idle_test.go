package liqo

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/drain"
)

// newGate returns a Peering on a cluster with the given objects, and its clock.
func newGate(objects ...client.Object) (*Peering, client.Client, *clocktesting.FakeClock) {
	c := fake.NewClientBuilder().WithObjects(objects...).WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
		return []string{o.(*corev1.Pod).Spec.NodeName}
	}).Build()
	now := clocktesting.NewFakeClock(time.Unix(1000, 500))
	return &Peering{opts: Options{Client: c, Reader: c, Clock: now}, drainer: drain.New(c, c, now, time.Minute)}, c, now
}

func TestNodeIsVacantOnlyAfterItWasClosedForAWhile(t *testing.T) {
	bound := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web"}, Spec: corev1.PodSpec{NodeName: "res-a-1"}}
		change(pod)
		return pod
	}
	selecting := func(selector map[string]string) *corev1.Pod {
		return bound(func(p *corev1.Pod) { p.Spec.NodeName, p.Spec.NodeSelector = "", selector })
	}
	either := func(operator corev1.NodeSelectorOperator, requests ...string) *corev1.Pod { // the request or this cluster
		return bound(func(p *corev1.Pod) {
			terms := []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: agentv1alpha1.RequestLabel, Operator: operator, Values: requests}}},
				{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "liqo.io/type", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"virtual-node"}}}},
			}
			p.Spec.NodeName, p.Spec.Affinity = "", &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
		})
	}
	tests := map[string]struct {
		pod   *corev1.Pod
		empty bool
	}{
		"no pod":                      {nil, true},
		"a pod":                       {bound(func(*corev1.Pod) {}), false},
		"a pod that is being deleted": {bound(func(p *corev1.Pod) { p.DeletionTimestamp, p.Finalizers = new(metav1.Unix(1, 0)), []string{"x/y"} }), false},
		"a finished pod":              {bound(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), true},
		"a pod of a DaemonSet": {bound(func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "x", UID: "1", Controller: new(true)}}
		}), true},
		"a pod elsewhere":                            {bound(func(p *corev1.Pod) { p.Spec.NodeName = "worker" }), true},
		"a pending pod that selects the request":     {selecting(map[string]string{agentv1alpha1.RequestLabel: "my-request"}), false},
		"a pending pod that selects another one":     {selecting(map[string]string{agentv1alpha1.RequestLabel: "other"}), true},
		"a pending pod that selects any such one":    {selecting(map[string]string{"liqo.io/type": "virtual-node"}), true},
		"a pending pod with affinity to the request": {either(corev1.NodeSelectorOpIn, "my-request", "other"), false},
		"a pending pod with affinity to another one": {either(corev1.NodeSelectorOpIn, "other"), true},
		"a pending pod with affinity to any request": {either(corev1.NodeSelectorOpExists), true},
		"a pending pod without a selector":           {selecting(nil), true},
		"a pending pod of a namespace that may not use the node": {func() *corev1.Pod {
			pod := selecting(map[string]string{agentv1alpha1.RequestLabel: "my-request"})
			pod.Namespace = "other"
			return pod
		}(), true},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "res-a-1", Labels: map[string]string{"liqo.io/type": "virtual-node", agentv1alpha1.RequestLabel: "my-request", agentv1alpha1.NamespaceLabelPrefix + "demo": "true"}},
				Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "virtual-node.liqo.io/not-allowed", Effect: corev1.TaintEffectNoExecute}}},
			}
			objects := []client.Object{node}
			if c.pod != nil {
				objects = append(objects, c.pod)
			}
			p, cluster, now := newGate(objects...)
			inst := &agentv1alpha1.ReservationInstruction{Spec: agentv1alpha1.ReservationInstructionSpec{ReservationName: "res-a", Placement: 1}}
			read := func() *corev1.Node {
				t.Helper()
				runtest.Check(t, cluster.Get(t.Context(), client.ObjectKeyFromObject(node), node))
				return node
			}
			for _, wait := range []time.Duration{0, closedBefore - time.Second} {
				now.Step(wait)
				empty, again, err := p.CloseNode(t.Context(), inst)
				if empty || again <= 0 || again > closedBefore || err != nil {
					t.Fatalf("after %s: empty %t, again in %s, %v", wait, empty, again, err)
				}
			}
			if taints := read().Spec.Taints; len(taints) != 2 || taints[1].Key != agentv1alpha1.VacatingTaint || taints[1].Effect != corev1.TaintEffectNoSchedule {
				t.Fatalf("the closed node has the taints %+v", taints)
			}
			now.Step(closedBefore)
			if empty, again, err := p.CloseNode(t.Context(), inst); empty != c.empty || again != 0 || err != nil {
				t.Errorf("empty %t, again in %s, %v; want %t", empty, again, err, c.empty)
			}
			for range 2 {
				runtest.Check(t, p.ReopenNode(t.Context(), inst))
			}
			if taints := read().Spec.Taints; len(taints) != 1 || taints[0].Key != "virtual-node.liqo.io/not-allowed" {
				t.Errorf("the reopened node has the taints %+v", taints)
			}
		})
	}
}

func TestMissingNodeIsNeverVacant(t *testing.T) {
	p, _, _ := newGate()
	inst := &agentv1alpha1.ReservationInstruction{Spec: agentv1alpha1.ReservationInstructionSpec{ReservationName: "res-a", Placement: 1}}
	if empty, again, err := p.CloseNode(t.Context(), inst); empty || again != 0 || err != nil {
		t.Errorf("empty %t, again in %s, %v", empty, again, err)
	}
	if err := p.ReopenNode(t.Context(), inst); err != nil {
		t.Error(err)
	}
}
