package idle

import (
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
)

func TestIdleTimesAreTheEarliestOfRequestAndBound(t *testing.T) {
	hours := func(n int, release bool) *ledger.IdlePolicy {
		return &ledger.IdlePolicy{After: time.Duration(n) * time.Hour, Release: release}
	}
	tests := map[string]struct {
		request, bound *ledger.IdlePolicy
		want           idleTimes
	}{
		"neither":                            {nil, nil, idleTimes{}},
		"the request notifies":               {hours(3, false), nil, idleTimes{tell: 3 * time.Hour}},
		"the request releases":               {hours(8, true), nil, idleTimes{7 * time.Hour, 8 * time.Hour}},
		"a short time has half of it":        {&ledger.IdlePolicy{After: time.Minute, Release: true}, nil, idleTimes{30 * time.Second, time.Minute}},
		"only the bound":                     {nil, hours(8, true), idleTimes{7 * time.Hour, 8 * time.Hour}},
		"the request is stricter":            {hours(4, true), hours(8, true), idleTimes{3 * time.Hour, 4 * time.Hour}},
		"the request is laxer":               {hours(9, true), hours(8, true), idleTimes{7 * time.Hour, 8 * time.Hour}},
		"the request notifies, bound ends":   {hours(2, false), hours(8, true), idleTimes{2 * time.Hour, 8 * time.Hour}},
		"the request ends, bound notifies":   {hours(8, true), hours(2, false), idleTimes{2 * time.Hour, 8 * time.Hour}},
		"a late notice comes with the bound": {hours(9, false), hours(8, true), idleTimes{7 * time.Hour, 8 * time.Hour}},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			if got := timesOf(c.request, c.bound); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}
