package reservations

import (
	"testing"
	"time"
)

func TestLeaseIsRepricedOnceADaySinceTheGrant(t *testing.T) {
	granted := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		renewed, now time.Duration
		want         bool
	}{
		"at the grant":                              {0, 0, false},
		"at the end of the first day":               {23 * time.Hour, 24*time.Hour - 1, false},
		"on the second day":                         {24*time.Hour - 1, 24 * time.Hour, true},
		"again on the second day":                   {24 * time.Hour, 48*time.Hour - 1, false},
		"after days without a renewal":              {time.Hour, 73 * time.Hour, true},
		"the last renewal is older than the grant":  {-time.Minute, time.Hour, false},
		"the last renewal is a day older, too soon": {-25 * time.Hour, time.Hour, false},
		"the last renewal is a day older":           {-25 * time.Hour, 24 * time.Hour, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := isRepriceDue(granted, granted.Add(c.renewed), granted.Add(c.now)); got != c.want {
				t.Errorf("is due: %t, want %t", got, c.want)
			}
		})
	}
}
