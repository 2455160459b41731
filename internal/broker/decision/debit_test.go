package decision

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestDebit(t *testing.T) {
	gold := map[string]string{"tier": "gold"}
	nodes := []quantity.NodeShape{{Count: 3, Free: size(4, 16)}, {Count: 1, Free: size(8, 16), Labels: gold}}
	cases := map[string]struct {
		promised Commitment
		want     []quantity.NodeShape
	}{
		"nothing":                        {Commitment{}, nodes},
		"pods":                           {Commitment{Amounts: size(9, 0), Pods: []brokerv1alpha1.PodShape{podsOf(3, size(3, 0))}}, []quantity.NodeShape{{Count: 3, Free: size(1, 16)}, {Count: 1, Free: size(8, 16), Labels: gold}}},
		"pods that leave nodes alone":    {Commitment{Amounts: size(6, 0), Pods: []brokerv1alpha1.PodShape{podsOf(3, size(2, 0))}}, []quantity.NodeShape{{Count: 1, Free: size(0, 16)}, {Count: 1, Free: size(2, 16)}, {Count: 1, Free: size(4, 16)}, {Count: 1, Free: size(8, 16), Labels: gold}}},
		"pods on nodes with labels":      {Commitment{Amounts: size(3, 0), Pods: []brokerv1alpha1.PodShape{podsOf(1, size(3, 0))}, Nodes: map[string]brokerv1alpha1.LabelValue{"tier": "gold"}}, []quantity.NodeShape{{Count: 3, Free: size(4, 16)}, {Count: 1, Free: size(5, 16), Labels: gold}}},
		"amounts, from the roomiest":     {Commitment{Amounts: size(9, 0)}, []quantity.NodeShape{{Count: 1, Free: size(3, 16)}, {Count: 2, Free: size(4, 16)}, {Count: 1, Free: size(0, 16), Labels: gold}}},
		"more than pods need":            {Commitment{Amounts: size(5, 0), Pods: []brokerv1alpha1.PodShape{podsOf(1, size(4, 0))}}, []quantity.NodeShape{{Count: 1, Free: size(0, 16)}, {Count: 2, Free: size(4, 16)}, {Count: 1, Free: size(7, 16), Labels: gold}}},
		"more than there is":             {Commitment{Amounts: size(99, 0)}, []quantity.NodeShape{{Count: 3, Free: size(0, 16)}, {Count: 1, Free: size(0, 16), Labels: gold}}},
		"pods that do not fit any more":  {Commitment{Amounts: size(18, 0), Pods: []brokerv1alpha1.PodShape{podsOf(2, size(9, 0))}}, []quantity.NodeShape{{Count: 1, Free: size(0, 16)}, {Count: 1, Free: size(2, 16)}, {Count: 1, Free: size(0, 16)}, {Count: 1, Free: size(0, 16), Labels: gold}}},
		"what the nodes have nothing of": {Commitment{Amounts: quantity.Amounts{gpu: 4}}, nodes},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Debit(nodes, []Commitment{tc.promised})
			sums := func(shapes []quantity.NodeShape) quantity.Amounts {
				sum := quantity.Amounts{}
				for _, s := range shapes {
					sum = sum.Add(s.Free.Times(s.Count))
				}
				return sum
			}
			if name == "pods that do not fit any more" {
				if diff := cmp.Diff(sums(tc.want), sums(got)); diff != "" {
					t.Errorf("sums (-want +got):\n%s", diff)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDebitSparesNodesThatThePodsDoNotTolerate(t *testing.T) {
	taints := []brokerv1alpha1.Taint{{Key: "dedicated", Effect: "NoSchedule"}}
	nodes := func(ordinary, tainted int64) []quantity.NodeShape {
		return []quantity.NodeShape{{Count: 1, Free: size(ordinary, 16)}, {Count: 1, Free: size(tainted, 16), Taints: taints}}
	}
	tolerations := []brokerv1alpha1.Toleration{{Key: "dedicated"}}
	for name, tc := range map[string]struct {
		promised Commitment
		want     []quantity.NodeShape
	}{
		"amounts":         {Commitment{Amounts: size(5, 0)}, nodes(0, 8)},
		"amounts that do": {Commitment{Amounts: size(5, 0), Tolerations: tolerations}, nodes(4, 3)},
		"pods":            {Commitment{Amounts: size(4, 0), Pods: []brokerv1alpha1.PodShape{podsOf(2, size(2, 0))}}, nodes(0, 8)},
		"pods that do":    {Commitment{Amounts: size(6, 0), Pods: []brokerv1alpha1.PodShape{podsOf(1, size(6, 0))}, Tolerations: tolerations}, nodes(4, 2)},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Debit(nodes(4, 8), []Commitment{tc.promised})); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

// If a second request fits after the first one was debited, both fit together.
func TestPodsThatFitAfterDebitFitBesideOthers(t *testing.T) {
	someShapes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) quantity.NodeShape {
		return quantity.NodeShape{Count: rapid.Int64Range(1, 3).Draw(t, "count"), Free: size(rapid.Int64Range(0, 6).Draw(t, "cpu"), rapid.Int64Range(0, 6).Draw(t, "memory"))}
	}), 1, 3)
	somePods := rapid.Custom(func(t *rapid.T) brokerv1alpha1.PodShape {
		return podsOf(rapid.Int32Range(1, 3).Draw(t, "pods"), size(rapid.Int64Range(1, 4).Draw(t, "each cpu"), rapid.Int64Range(0, 4).Draw(t, "each memory")))
	})
	rapid.Check(t, func(t *rapid.T) {
		shapes, first, second := someShapes.Draw(t, "shapes"), somePods.Draw(t, "first"), somePods.Draw(t, "second")
		m := NewMarket()
		whole := size(1000, 1000)
		fits := func(p brokerv1alpha1.PodShape) bool {
			_, ok := Check(m, &Request{Amounts: requirements.SumPods([]brokerv1alpha1.PodShape{p}), PodShapes: []brokerv1alpha1.PodShape{p}}, "paris")
			return ok
		}
		runtest.Check(t, m.Upsert(Candidate{ID: "paris", Allocatable: whole, Available: whole, Shapes: shapes}))
		if !fits(first) {
			return
		}
		m.SetShapes("paris", Debit(shapes, []Commitment{{Amounts: requirements.SumPods([]brokerv1alpha1.PodShape{first}), Pods: []brokerv1alpha1.PodShape{first}}}))
		if !fits(second) {
			return
		}
		var nodes, pods []quantity.Amounts
		for _, s := range shapes {
			for range s.Count {
				nodes = append(nodes, s.Free)
			}
		}
		for _, p := range []brokerv1alpha1.PodShape{first, second} {
			for range p.Count {
				pods = append(pods, requirements.PodAmounts(&p))
			}
		}
		if !somehowFits(nodes, pods) {
			t.Fatalf("%v and %v do not fit on %v", first, second, shapes)
		}
	})
}

// Debit deducts a commitment once, takes only capacity that is free, and loses no node.
func TestDebitDeductsACommitmentOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shapes := []quantity.NodeShape{{Count: rapid.Int64Range(1, 4).Draw(t, "nodes"), Free: size(rapid.Int64Range(0, 8).Draw(t, "cpu"), 8)}, {Count: 1, Free: size(2, 8)}}
		amount := rapid.Int64Range(0, 40000).Draw(t, "amount")
		sum := func(shapes []quantity.NodeShape) (total, nodes int64) {
			for _, s := range shapes {
				if s.Free[corev1.ResourceCPU] < 0 {
					t.Fatalf("a node has %v", s.Free)
				}
				total, nodes = total+s.Count*s.Free[corev1.ResourceCPU], nodes+s.Count
			}
			return total, nodes
		}
		before, nodes := sum(shapes)
		after, nodesAfter := sum(Debit(shapes, []Commitment{{Amounts: quantity.Amounts{corev1.ResourceCPU: amount}}}))
		if after != max(0, before-amount) || nodes != nodesAfter {
			t.Fatalf("%d of %d left on %d of %d nodes after %d", after, before, nodesAfter, nodes, amount)
		}
	})
}
