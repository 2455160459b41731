package broker

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/offers"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// with returns a request for 1 CPU and 1 GiB, changed by change.
func with(change func(*v1.ReservationRequest)) *v1.ReservationRequest {
	req := request("1", "1Gi")
	change(req)
	return req
}

func constrained(k v1.Constraints) *v1.ReservationRequest {
	return with(func(r *v1.ReservationRequest) { r.Constraints = &k })
}

func nodes(shapes ...v1.NodeShape) func(*v1.Advertisement) {
	return func(a *v1.Advertisement) { a.NodeShapes = shapes }
}

func TestConstraintsReachTheDecision(t *testing.T) {
	cases := map[string]struct {
		request *v1.ReservationRequest
		want    string
		why     string
	}{
		"none":            {request: constrained(v1.Constraints{}), want: "paris"},
		"region":          {request: constrained(v1.Constraints{Regions: []string{"eu-north"}}), want: "oslo"},
		"labels":          {request: constrained(v1.Constraints{ClusterSelector: &v1.LabelSelector{MatchLabels: map[string]brokerv1alpha1.LabelValue{"tier": "gold"}}}), want: "oslo"},
		"an expression":   {request: constrained(v1.Constraints{ClusterSelector: &v1.LabelSelector{MatchExpressions: []v1.LabelExpression{{Key: "tier", Operator: "DoesNotExist"}}}}), want: "paris"},
		"names":           {request: constrained(v1.Constraints{ExcludeClusters: []string{"paris"}}), want: "oslo"},
		"data":            {request: constrained(v1.Constraints{DataLocality: "genomes"}), want: "oslo"},
		"claims":          {request: constrained(v1.Constraints{RequiredClaims: map[string]brokerv1alpha1.LabelValue{"availability": ">=99.5"}}), want: "oslo"},
		"nodes":           {request: constrained(v1.Constraints{NodeSelector: map[string]brokerv1alpha1.LabelValue{"kubernetes.io/arch": "arm64"}}), want: "oslo"},
		"a highest price": {request: constrained(v1.Constraints{MaxPrice: &v1.Money{Amount: "0.1", Currency: "EUR"}}), want: "oslo"},
		"nothing for it": {
			request: constrained(v1.Constraints{Regions: []string{"mars"}}),
			why:     ": no cluster advertises region mars; oslo: is in region eu-north, not in mars; paris: advertises no region; mars requested",
		},
		"an unknown cluster": {
			request: constrained(v1.Constraints{IncludeClusters: []string{"atlantis", "rome"}}),
			why:     ": no cluster atlantis has advertised; oslo: ",
		},
		"unknown clusters": {
			request: constrained(v1.Constraints{IncludeClusters: []string{"atlantis", "mu"}}),
			why:     ": no cluster atlantis has advertised; no cluster mu has advertised; oslo: ",
		},
		"an unknown cluster that is only excluded": {
			request: constrained(v1.Constraints{ExcludeClusters: []string{"atlantis"}, Zones: []string{"moon"}}),
			why:     ": no cluster advertises zone moon; oslo: ",
		},
		"a label that no nodes have": {
			request: constrained(v1.Constraints{NodeSelector: map[string]brokerv1alpha1.LabelValue{"kubernetes.io/arch": "s390x"}}),
			why:     ": no cluster advertises nodes with label kubernetes.io/arch=s390x; oslo: ",
		},
		"pods that fit on one": {
			request: with(func(r *v1.ReservationRequest) {
				r.Resources, r.PodShapes = nil, []v1.PodShape{{Count: 2, Resources: v1.Amounts{"cpu": "3", "memory": "1Gi"}}}
			}), want: "oslo",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				f.advertise("paris", "16", "64Gi", nodes(v1.NodeShape{Count: 8, Free: v1.Amounts{"cpu": "2", "memory": "8Gi"}}))
				f.advertise("oslo", "8", "32Gi", func(a *v1.Advertisement) {
					a.Allocated = v1.Amounts{"cpu": "1"}
					a.Topology.Region = "eu-north"
					a.Labels = map[string]string{"tier": "gold", "data.broker.fluidos.eu/genomes": "true"}
					a.Claims = map[string]string{"availability": "99.9"}
					a.Cost = v1.Cost{CPUCost: "0.05", MemoryCost: "0.05", Currency: "EUR"}
					a.NodeShapes = []v1.NodeShape{{Count: 2, Free: v1.Amounts{"cpu": "4", "memory": "16Gi"}, NodeLabels: v1.Labels{"kubernetes.io/arch": "arm64"}}}
				})
				if tc.request.Constraints == nil || tc.request.Constraints.MaxPrice == nil {
					// Cases without a highest price decide by availability alone.
					c := settings.Default()
					c.Weights = map[string]int{"availability": 100}
					f.SetConfig(f.t.Context(), c)
				}
				r, err := f.RequestReservation(f.t.Context(), "rome", "request-1", tc.request)
				if tc.why != "" {
					if fault.ReasonOf(err) != fault.NoCandidate || !strings.Contains(err.Error(), tc.why) {
						t.Errorf("got %v", err)
					}
					return
				}
				if err != nil || target(r) != tc.want {
					t.Errorf("got %v, %v, want %s", r, err, tc.want)
				}
			})
		})
	}
}

// Only the provider checks pods on real nodes, so only its instruction has the pods and the node
// selector.
func TestProviderLearnsWhichPodsToFit(t *testing.T) {
	inFleet(t, func(f *fleet) {
		arm := map[string]string{"kubernetes.io/arch": "arm64"}
		f.advertise("oslo", "8", "32Gi", nodes(v1.NodeShape{Count: 2, Free: v1.Amounts{"cpu": "4", "memory": "16Gi"}, NodeLabels: arm}))
		pods := []v1.PodShape{{Count: 2, Resources: v1.Amounts{"cpu": "3", "memory": "1Gi"}}}
		r := f.reserve("rome", "request-1", with(func(r *v1.ReservationRequest) {
			r.Resources, r.PodShapes, r.Constraints = nil, pods, &v1.Constraints{NodeSelector: map[string]brokerv1alpha1.LabelValue{"kubernetes.io/arch": "arm64"}}
		}))
		got := f.told("oslo", r, v1.InstructionRoleProvider)
		if diff := cmp.Diff(pods, got.PodShapes); diff != "" || !cmp.Equal(arm, got.NodeSelector) {
			t.Errorf("node selector %v, pods (-want +got):\n%s", got.NodeSelector, diff)
		}
		if got := f.told("rome", r, v1.InstructionRoleConsumer); got.PodShapes != nil || got.NodeSelector != nil {
			t.Errorf("the consumer gets %v and %v", got.PodShapes, got.NodeSelector)
		}
	})
}

// Paris offers four cores on ordinary nodes and eight on tainted ones.
func TestTaintedNodesAreGrantedOnlyToTolerantRequests(t *testing.T) {
	inFleet(t, func(f *fleet) {
		offer := func(taints ...brokerv1alpha1.Taint) {
			f.advertise("paris", "12", "64Gi", nodes(
				v1.NodeShape{Count: 1, Free: v1.Amounts{"cpu": "4", "memory": "16Gi"}},
				v1.NodeShape{Count: 2, Free: v1.Amounts{"cpu": "4", "memory": "16Gi"}, Taints: taints, NodeLabels: v1.Labels{"gpu": "a100"}},
			))
		}
		offer(brokerv1alpha1.Taint{Key: "dedicated", Value: "gpu", Effect: "NoSchedule"})
		tolerations := []brokerv1alpha1.Toleration{{Key: "dedicated", Operator: "Exists"}}
		req := request("8", "1Gi")
		req.Constraints = &v1.Constraints{Tolerations: tolerations, NodeSelector: map[string]brokerv1alpha1.LabelValue{"gpu": "a100"}}
		r := f.reserve("rome", "tolerates", req)
		if diff := cmp.Diff(tolerations, f.told("paris", r, v1.InstructionRoleProvider).Tolerations); diff != "" {
			t.Errorf("tolerations of the provider's instruction (-want +got):\n%s", diff)
		}
		if got := f.told("rome", r, v1.InstructionRoleConsumer).Tolerations; got != nil {
			t.Errorf("the consumer is told %v", got)
		}
		f.reserve("rome", "plain", request("3", "1Gi"))
		if _, err := f.RequestReservation(f.t.Context(), "rome", "too-much", request("2", "1Gi")); fault.ReasonOf(err) != fault.NoCandidate {
			t.Error("a request without tolerations got room on tainted nodes")
		}
		// Once no node is tainted, the sums decide again.
		offer()
		f.reserve("rome", "later", request("1", "1Gi"))
	})
}

func TestOffersOfReservedTaintsAreRefused(t *testing.T) {
	for _, taint := range []brokerv1alpha1.Taint{{Key: "node.kubernetes.io/unschedulable", Effect: "NoSchedule"}, {Key: "spot"}, {Effect: "NoExecute"}} {
		if err := offers.Check(&ledger.Offer{Shapes: []quantity.NodeShape{{Count: 1, Taints: []brokerv1alpha1.Taint{taint}}}}); err == nil {
			t.Errorf("%+v is accepted", taint)
		}
	}
}

func TestMoveHonoursConstraints(t *testing.T) {
	inFleet(t, func(f *fleet) {
		eu := func(a *v1.Advertisement) { a.Topology.Region = "eu" }
		f.advertise("paris", "64", "64Gi", eu)
		f.advertise("tokyo", "32", "64Gi")
		f.advertise("berlin", "8", "8Gi", eu)
		req := constrained(v1.Constraints{Regions: []string{"eu"}})
		r := f.reserve("rome", "request-1", req)
		f.kill()
		for id, cpu := range map[string]string{"paris": "64", "tokyo": "32", "berlin": "8"} {
			f.advertise(id, cpu, "64Gi", func(a *v1.Advertisement) {
				if a.Epoch = 2; id != "tokyo" {
					eu(a)
				}
			})
		}
		f.mustReport("berlin", r, 1, provider, v1.StatusReportStateRefused)
		if r = f.get("rome", r.Name); target(r) != "paris" {
			t.Errorf("it is on %s now, want paris", target(r))
		}
		if again := f.reserve("rome", "request-1", req); again.Name != r.Name {
			t.Errorf("repeated it is %s, want %s", again.Name, r.Name)
		}
		f.wantRefusal("rome", "request-1", request("1", "1Gi"), fault.KeyReused)
	})
}

func TestAffinityBetweenReservationsOfOneRequester(t *testing.T) {
	grouped := func(group string, k v1.Constraints) *v1.ReservationRequest {
		return with(func(r *v1.ReservationRequest) { r.Group, r.Constraints = group, &k })
	}
	inFleet(t, func(f *fleet) {
		for id, cpu := range map[string]string{"paris": "64", "berlin": "32", "oslo": "16"} {
			f.advertise(id, cpu, "64Gi", func(a *v1.Advertisement) { a.Allocated = v1.Amounts{"cpu": "2"} })
		}
		apart := v1.Constraints{AntiAffinity: []string{"web"}}
		got := []string{}
		for _, step := range []struct {
			who, key string
			request  *v1.ReservationRequest
		}{
			{"rome", "first-web-1", grouped("web", apart)},
			{"rome", "first-web-2", grouped("web", apart)},
			{"rome", "near-to-web", grouped("", v1.Constraints{Affinity: []string{"web"}})},
			{"rome", "near-to-nothing", grouped("db", v1.Constraints{Affinity: []string{"cache"}})},
			{"rome", "web-that-others-avoid", grouped("web", v1.Constraints{})},
			{"milan", "another-requester", grouped("web", apart)},
			{"rome", "no-room-apart-1", grouped("web", apart)},
		} {
			r, err := f.RequestReservation(f.t.Context(), step.who, step.key, step.request)
			if err != nil {
				got = append(got, string(fault.ReasonOf(err)))
				continue
			}
			got = append(got, target(r))
		}
		want := []string{"paris", "berlin", "paris", "paris", "oslo", "berlin", "NoCandidate"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Capacity that is promised but not in use yet still appears as free on the nodes, so the broker
// itself must subtract the promised pods.
func TestRequestsInPodShapesDoNotShareANode(t *testing.T) {
	pods := func(count int32) *v1.ReservationRequest {
		return &v1.ReservationRequest{PodShapes: []v1.PodShape{{Count: count, Resources: v1.Amounts{"cpu": "3", "memory": "1Gi"}}}}
	}
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi", nodes(v1.NodeShape{Count: 4, Free: v1.Amounts{"cpu": "4", "memory": "16Gi"}}))
		first := f.reserve("rome", "request-1", pods(3))
		f.wantAvailable("paris", "7 61Gi")
		f.wantRefusal("rome", "request-2", pods(2), fault.NoCandidate, "room on its nodes for 1 of 2 pods")
		f.reserve("rome", "request-3", pods(1))
		f.release("rome", "request-1")
		f.mustReport("paris", first, 1, provider, v1.StatusReportStateGone)
		time.Sleep(time.Second)
		f.reserve("rome", "request-4", pods(2))
	})
}

func TestInvalidRequirementsAreRefused(t *testing.T) {
	cases := map[string]struct {
		request *v1.ReservationRequest
		want    string
	}{
		"a price that is none":       {constrained(v1.Constraints{MaxPrice: &v1.Money{Amount: "-1", Currency: "EUR"}}), "constraints.maxPrice.amount"},
		"a currency by its name":     {constrained(v1.Constraints{MaxPrice: &v1.Money{Amount: "1", Currency: "euro"}}), "constraints.maxPrice.currency"},
		"a key that is none":         {constrained(v1.Constraints{NodeSelector: map[string]brokerv1alpha1.LabelValue{"a b": "c"}}), "constraints.nodeSelector"},
		"an operator without values": {constrained(v1.Constraints{ClusterSelector: &v1.LabelSelector{MatchExpressions: []v1.LabelExpression{{Key: "a", Operator: "In"}}}}), "matchExpressions[0]"},
		"an operator that is none":   {constrained(v1.Constraints{ClusterSelector: &v1.LabelSelector{MatchExpressions: []v1.LabelExpression{{Key: "a", Operator: "Like"}}}}), `"Like"`},
		"a claim that is no number":  {constrained(v1.Constraints{RequiredClaims: map[string]brokerv1alpha1.LabelValue{"sla": ">=gold"}}), "constraints.requiredClaims[sla]"},
		"an empty region":            {constrained(v1.Constraints{Regions: []string{""}}), "constraints.regions"},
		"a data set with a slash":    {constrained(v1.Constraints{DataLocality: "a/b"}), "constraints.dataLocality"},
		"no pods": {with(func(r *v1.ReservationRequest) {
			r.PodShapes = []v1.PodShape{{Count: 0, Resources: v1.Amounts{"cpu": "1", "memory": "1Gi"}}}
		}), "podShapes[0]: count 0"},
		"pods of nothing": {with(func(r *v1.ReservationRequest) { r.PodShapes = []v1.PodShape{{Count: 1}} }), "podShapes[0]: resources"},
		"pods that need more in all": {with(func(r *v1.ReservationRequest) {
			r.PodShapes = []v1.PodShape{{Count: 3, Resources: v1.Amounts{"cpu": "1", "memory": "1Gi"}}}
		}), "the pods need 3 of cpu in all, and resources name 1"},
		"data of no size":              {with(func(r *v1.ReservationRequest) { r.Data = &v1.DataVolume{Volume: "much"} }), "data.volume"},
		"a group that no label can be": {with(func(r *v1.ReservationRequest) { r.Group = "a b" }), "group"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				f.advertise("paris", "16", "64Gi")
				f.wantRefusal("rome", "request-1", tc.request, fault.Invalid, tc.want)
			})
		})
	}
}
