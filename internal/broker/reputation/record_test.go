package reputation

import (
	"fmt"
	"testing"
	"time"
)

func TestShareOfPromisesKept(t *testing.T) {
	const day = 24 * time.Hour
	monday := time.Unix(0, 0).UTC().Add(2900 * 7 * day)
	kept := func(n int) Record {
		var r Record
		for range n {
			r.Keep(monday, 0)
		}
		return r
	}
	failed := func(r Record, times int, thousandths int64) Record {
		for range times {
			r.Break(monday, new(int64), thousandths)
		}
		return r
	}
	tests := map[string]struct {
		record Record
		after  time.Duration
		want   string
	}{
		"nothing is known":                           {Record{}, 0, "unknown"},
		"what was only granted tells nothing":        {Record{Granted: 9}, 0, "unknown"},
		"one kept":                                   {kept(1), 0, "0.6667"},
		"one broken":                                 {failed(kept(0), 1, Promise), 0, "0.3333"},
		"one refused":                                {failed(kept(0), 1, Promise/2), 0, "0.4000"},
		"nine kept and one broken":                   {failed(kept(9), 1, Promise), 0, "0.8333"},
		"a hundred kept":                             {kept(100), 0, "0.9902"},
		"the same within the week":                   {kept(100), 7*day - 1, "0.9902"},
		"the next week half of it counts":            {kept(100), 7 * day, "0.9808"},
		"what broke is forgotten as fast":            {failed(kept(0), 4, Promise), 14 * day, "0.3333"},
		"after a quarter of a year nothing is known": {kept(4), 13 * 7 * day, "unknown"},
		"nor after centuries":                        {kept(1 << 20), 40_000 * day, "unknown"},
		"a clock that went back changes nothing":     {kept(1), -30 * day, "0.6667"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := "unknown"
			if share, known := tt.record.Share(monday.Add(tt.after)); known {
				got = fmt.Sprintf("%.4f", share)
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestMeanTimeToReady(t *testing.T) {
	if got := (Record{Granted: 2}).MeanToReady(); got != 0 {
		t.Errorf("nothing was Ready, and took %s", got)
	}
	if got := (Record{Ready: 2, ToReady: 5 * time.Second}).MeanToReady(); got != 2500*time.Millisecond {
		t.Errorf("got %s", got)
	}
}
