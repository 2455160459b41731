package advertisement

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/offering"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

var sameAmounts = cmp.Comparer(func(a, b quantity.Amounts) bool { return a.Equal(b) })

func snapshot() *capacity.Snapshot {
	return &capacity.Snapshot{
		Capacity:    quantity.Amounts{"cpu": 12000, "memory": 24000},
		Allocatable: quantity.Amounts{"cpu": 10000, "memory": 20000},
		Allocated:   quantity.Amounts{"cpu": 2000, "memory": 4000},
		Used:        map[string]quantity.Amounts{},
		Nodes:       2,
		NodeShapes:  []quantity.NodeShape{{Count: 2, Free: quantity.Amounts{"cpu": 4000, "memory": 8000}}},
	}
}

func TestUsageIsSubtractedOnce(t *testing.T) {
	cases := map[string]struct {
		used                           map[string]quantity.Amounts
		holds                          []hold
		allocated, reserved, available quantity.Amounts
	}{
		"without reservations what is not allocated is available": {
			allocated: quantity.Amounts{"cpu": 2000, "memory": 4000},
			available: quantity.Amounts{"cpu": 8000, "memory": 16000},
		},
		"what is held counts though nothing runs": {
			holds:     []hold{{reservation: "res-a", placement: 1, amounts: quantity.Amounts{"cpu": 3000, "memory": 1000}}},
			allocated: quantity.Amounts{"cpu": 2000, "memory": 4000},
			reserved:  quantity.Amounts{"cpu": 3000, "memory": 1000},
			available: quantity.Amounts{"cpu": 5000, "memory": 15000},
		},
		"what runs within a hold is in the hold": {
			used:      map[string]quantity.Amounts{"res-a-1": {"cpu": 2000, "memory": 900}},
			holds:     []hold{{reservation: "res-a", placement: 1, amounts: quantity.Amounts{"cpu": 3000, "memory": 1000}}},
			allocated: quantity.Amounts{"cpu": 2000, "memory": 4000},
			reserved:  quantity.Amounts{"cpu": 3000, "memory": 1000},
			available: quantity.Amounts{"cpu": 5000, "memory": 15000},
		},
		"what runs beyond a hold counts resource by resource": {
			used:      map[string]quantity.Amounts{"res-a-1": {"cpu": 2000, "memory": 1500}},
			holds:     []hold{{reservation: "res-a", placement: 1, amounts: quantity.Amounts{"cpu": 3000, "memory": 1000}}},
			allocated: quantity.Amounts{"cpu": 2000, "memory": 4000},
			reserved:  quantity.Amounts{"cpu": 3000, "memory": 1500},
			available: quantity.Amounts{"cpu": 5000, "memory": 14500},
		},
		"what runs for a placement that nothing is held for is allocated": {
			used:      map[string]quantity.Amounts{"res-a-1": {"cpu": 2000}},
			allocated: quantity.Amounts{"cpu": 4000, "memory": 4000},
			available: quantity.Amounts{"cpu": 6000, "memory": 16000},
		},
		"available never falls below zero": {
			holds:     []hold{{reservation: "res-a", placement: 1, amounts: quantity.Amounts{"cpu": 90000, "nvidia.com/gpu": 1}}},
			allocated: quantity.Amounts{"cpu": 2000, "memory": 4000},
			reserved:  quantity.Amounts{"cpu": 90000, "nvidia.com/gpu": 1},
			available: quantity.Amounts{"cpu": 0, "memory": 16000},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := snapshot()
			s.Used = tc.used
			o := newOffer(identity{}, &offering.Rules{}, nil, s, tc.holds)
			want := []quantity.Amounts{tc.allocated, tc.reserved, tc.available}
			if diff := cmp.Diff(want, []quantity.Amounts{o.advertised.Allocated, o.reserved, o.available}, sameAmounts); diff != "" {
				t.Errorf("allocated, reserved, available (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUsageListsEveryHoldInOrder(t *testing.T) {
	s := snapshot()
	s.Used["res-b-1"] = quantity.Amounts{"cpu": 500, "pods": 1}
	o := newOffer(identity{}, &offering.Rules{}, nil, s, []hold{{reservation: "res-b", placement: 1}, {reservation: "res-a", placement: 10}, {reservation: "res-a", placement: 2}})
	want := []v1.Usage{
		{Reservation: "res-a", Placement: 2, Used: v1.Amounts{}},
		{Reservation: "res-a", Placement: 10, Used: v1.Amounts{}},
		{Reservation: "res-b", Placement: 1, Used: v1.Amounts{"cpu": "500m", "pods": "1"}},
	}
	if diff := cmp.Diff(want, o.wireUsage(time.Unix(0, 0))); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

func TestMaterial(t *testing.T) {
	one := []hold{{reservation: "res-a", placement: 1, amounts: quantity.Amounts{"cpu": 1000}}}
	cases := map[string]struct {
		edit  func(*capacity.Snapshot)
		id    identity
		rules offering.Rules
		cost  *brokerv1alpha1.Cost
		holds []hold
		want  bool
	}{
		"nothing changed":             {edit: func(*capacity.Snapshot) {}},
		"two percent is not material": {edit: func(s *capacity.Snapshot) { s.Allocated = quantity.Amounts{"cpu": 2200, "memory": 4000} }},
		"more is, up":                 {edit: func(s *capacity.Snapshot) { s.Allocated = quantity.Amounts{"cpu": 2201, "memory": 4000} }, want: true},
		"more is, down":               {edit: func(s *capacity.Snapshot) { s.Allocated = quantity.Amounts{"cpu": 1799, "memory": 4000} }, want: true},
		"a new kind of resource is": {
			edit: func(s *capacity.Snapshot) { s.Allocatable = s.Allocatable.Add(quantity.Amounts{"nvidia.com/gpu": 1}) }, want: true,
		},
		"a node more is": {edit: func(s *capacity.Snapshot) { s.Nodes++ }, want: true},
		"the largest hole shrinking is": {
			edit: func(s *capacity.Snapshot) {
				s.NodeShapes = []quantity.NodeShape{{Count: 2, Free: quantity.Amounts{"cpu": 3000, "memory": 8000}}}
			}, want: true,
		},
		"another price is": {edit: func(*capacity.Snapshot) {}, cost: &brokerv1alpha1.Cost{CPUCost: "1"}, want: true},
		"another ratio is": {edit: func(*capacity.Snapshot) {}, rules: offering.Rules{Ratios: quantity.Ratios{"cpu": 103}}, want: true},
		"a cap is":         {edit: func(*capacity.Snapshot) {}, rules: offering.Rules{Cap: quantity.Amounts{"cpu": 1000}}, want: true},
		"a cap beyond all is not": {
			edit: func(*capacity.Snapshot) {}, rules: offering.Rules{Cap: quantity.Amounts{"cpu": 90000}},
		},
		"another endpoint is": {edit: func(*capacity.Snapshot) {}, id: identity{EndpointURL: "https://x"}, want: true},
		"a reservation is":    {edit: func(*capacity.Snapshot) {}, holds: one, want: true},
		"a pod of a stranger within two percent is not": {
			edit: func(s *capacity.Snapshot) { s.Used = map[string]quantity.Amounts{"res-z-1": {"cpu": 1}} },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := newOffer(identity{}, &offering.Rules{}, nil, snapshot(), nil)
			s := snapshot()
			tc.edit(s)
			now := newOffer(tc.id, &tc.rules, tc.cost, s, tc.holds)
			if got := now.differsMaterially(&before); got != tc.want {
				t.Errorf("material: %v, want %v", got, tc.want)
			}
		})
	}

	t.Run("what runs in a reservation is, however little", func(t *testing.T) {
		before := newOffer(identity{}, &offering.Rules{}, nil, snapshot(), one)
		s := snapshot()
		s.Used["res-a-1"] = quantity.Amounts{"cpu": 1, "pods": 1}
		now := newOffer(identity{}, &offering.Rules{}, nil, s, one)
		if !now.differsMaterially(&before) {
			t.Error("not material")
		}
	})
}
