package advertisement

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/offering"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

func kept(reservation string, amounts quantity.Amounts) hold {
	return hold{reservation: reservation, placement: 1, amounts: amounts}
}

func TestMissingAmounts(t *testing.T) {
	cases := map[string]struct {
		allocated, used quantity.Amounts
		ratios          quantity.Ratios
		want            quantity.Amounts
		says            string
	}{
		"all is free": {},
		"own pods leave just enough": {
			allocated: quantity.Amounts{"cpu": 6000, "memory": 16000},
		},
		"own pods take some": {
			allocated: quantity.Amounts{"cpu": 7500, "memory": 4000},
			want:      quantity.Amounts{"cpu": 1500}, says: "1500m cpu of reserved capacity",
		},
		"nodes are gone, and no more can be missing than was kept": {
			allocated: quantity.Amounts{"cpu": 90000, "memory": 90000},
			want:      quantity.Amounts{"cpu": 4000, "memory": 4000}, says: "4 cpu, 4000 memory",
		},
		"what its pods use already is not missing": {
			allocated: quantity.Amounts{"cpu": 90000}, used: quantity.Amounts{"cpu": 3000},
			want: quantity.Amounts{"cpu": 1000}, says: "1 cpu",
		},
		"what is used beyond it takes from nobody's but the rest": {
			allocated: quantity.Amounts{"cpu": 6000}, used: quantity.Amounts{"cpu": 9000},
		},
		"what may be promised twice is missing beyond that": {
			allocated: quantity.Amounts{"cpu": 17000}, ratios: quantity.Ratios{"cpu": 200},
			want: quantity.Amounts{"cpu": 1000}, says: "1 cpu",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := snapshot()
			s.Allocated = tc.allocated
			s.Used = map[string]quantity.Amounts{"res-a-1": tc.used}
			o := newOffer(identity{}, &offering.Rules{Ratios: tc.ratios, Withheld: offering.Percentages{All: 50}}, nil, s, []hold{kept("res-a", quantity.Amounts{"cpu": 4000, "memory": 4000})})
			missing := o.missingAmounts()
			if diff := cmp.Diff(tc.want, missing, sameAmounts); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
			c := coveredCondition(missing)
			if whole := c.Status == metav1.ConditionTrue; whole != (len(tc.want) == 0) || !strings.Contains(c.Message, tc.says) {
				t.Errorf("the condition is %s: %q", c.Status, c.Message)
			}
		})
	}
}

// Without the missing amounts, all reserved capacity fits. Capacity in use is never reported as
// missing.
func TestMissingAmountsAreThoseThatDoNotFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.Int64Range(0, 20)
		s := &capacity.Snapshot{
			Allocatable: quantity.Amounts{"cpu": amount.Draw(t, "allocatable")},
			Allocated:   quantity.Amounts{"cpu": amount.Draw(t, "allocated")},
			Used:        map[string]quantity.Amounts{},
		}
		var holds []hold
		var unused, inUse int64
		for _, name := range []string{"a", "b", "c"}[:rapid.IntRange(0, 3).Draw(t, "reservations")] {
			keep, used := amount.Draw(t, "kept"), amount.Draw(t, "used")
			holds = append(holds, kept(name, quantity.Amounts{"cpu": keep}))
			s.Used[name+"-1"] = quantity.Amounts{"cpu": used}
			unused += max(keep-used, 0)
			inUse += used
		}
		o := newOffer(identity{}, &offering.Rules{}, nil, s, holds)
		missing, room := o.missingAmounts()["cpu"], s.Allocatable["cpu"]-s.Allocated["cpu"]-inUse
		if want := min(max(unused-room, 0), unused); missing != want {
			t.Errorf("%d of %d unused is missing with room for %d, want %d", missing, unused, room, want)
		}
	})
}
