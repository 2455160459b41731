package queue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// holds returns a holder that was placed the given minutes after noon.
func holds(id string, priority int32, minute int, cpu int64) Holder {
	return Holder{ID: id, Priority: priority, Since: noon.Add(time.Duration(minute) * time.Minute), Amounts: cpus(cpu)}
}

func TestPreemptPicksFewestLowestYoungest(t *testing.T) {
	site := func(id string, free int64, holders ...Holder) Site {
		return Site{ID: id, Free: cpus(free), Holders: holders}
	}
	tests := map[string]struct {
		needs quantity.Amounts
		sites []Site
		want  string
	}{
		"nobody if no holder has lower priority": {
			needs: cpus(4), sites: []Site{site("paris", 0, holds("a", 10, 0, 8))},
		},
		"nobody of the same priority, even beside a lower one": {
			needs: cpus(8), sites: []Site{site("paris", 0, holds("a", 10, 0, 4), holds("b", 1, 0, 4))},
		},
		"nobody if the needs already fit": {
			needs: cpus(4), sites: []Site{site("paris", 4, holds("a", 1, 0, 4))},
		},
		"nobody if all of them together make too little room": {
			needs: cpus(9), sites: []Site{site("paris", 0, holds("a", 1, 0, 4), holds("b", 1, 0, 4))},
		},
		"one sufficient holder rather than two of lower priority": {
			needs: cpus(8), sites: []Site{site("paris", 0, holds("a", 1, 0, 4), holds("b", 1, 0, 4), holds("c", 9, 0, 8))},
			want: "paris [c]",
		},
		"the lowest priority among sufficient holders": {
			needs: cpus(4), sites: []Site{site("paris", 0, holds("a", 5, 0, 8), holds("b", 2, 0, 4), holds("c", 3, 0, 8))},
			want: "paris [b]",
		},
		"the youngest among the lowest": {
			needs: cpus(4), sites: []Site{site("paris", 0, holds("a", 1, 0, 4), holds("b", 1, 9, 4), holds("c", 1, 5, 4))},
			want: "paris [b]",
		},
		"what is free counts": {
			needs: cpus(8), sites: []Site{site("paris", 5, holds("a", 1, 0, 2), holds("b", 2, 0, 3))},
			want: "paris [b]",
		},
		"negative free capacity must be made up for": {
			needs: cpus(4), sites: []Site{site("paris", -2, holds("a", 1, 0, 4), holds("b", 1, 1, 2))},
			want: "paris [b a]",
		},
		"the site with the fewest victims": {
			needs: cpus(4), sites: []Site{
				site("berlin", 0, holds("a", 1, 0, 2), holds("b", 1, 0, 2)), site("paris", 0, holds("c", 9, 0, 4)),
			},
			want: "paris [c]",
		},
		"then the site with the lowest priorities": {
			needs: cpus(4), sites: []Site{site("berlin", 0, holds("a", 2, 0, 4)), site("paris", 0, holds("b", 1, 0, 4))},
			want: "paris [b]",
		},
		"then the site with the youngest victims": {
			needs: cpus(4), sites: []Site{site("berlin", 0, holds("a", 1, 0, 4)), site("paris", 0, holds("b", 1, 1, 4))},
			want: "paris [b]",
		},
		"then the first site by name": {
			needs: cpus(4), sites: []Site{site("paris", 0, holds("b", 1, 0, 4)), site("berlin", 0, holds("a", 1, 0, 4))},
			want: "berlin [a]",
		},
		"no site where a missing resource is held by nobody": {
			needs: quantity.Amounts{"cpu": 4, gpu: 1}, sites: []Site{site("paris", 0, holds("a", 1, 0, 4))},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok := Preempt(test.needs, 10, test.sites)
			text := ""
			if ok {
				text = fmt.Sprint(got.Site, " ", ids(got.Victims))
			}
			if text != test.want {
				t.Errorf("%q, want %q", text, test.want)
			}
		})
	}
}

func ids(holders []Holder) []string {
	out := []string{}
	for _, h := range holders {
		out = append(out, h.ID)
	}
	return out
}

func anySite(t *rapid.T, id string) Site {
	s := Site{ID: id, Free: anyAmounts(t)}
	for i := range rapid.IntRange(0, 7).Draw(t, "holders") {
		s.Holders = append(s.Holders, Holder{
			ID: fmt.Sprint(id, i), Priority: rapid.Int32Range(0, 4).Draw(t, "priority"),
			Since: noon.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "minute")) * time.Minute), Amounts: anyAmounts(t).Max(nil),
		})
	}
	return s
}

// every returns every set of holders of lower priority that makes room, each in the order of
// eviction.
func every(s Site, needs quantity.Amounts, priority int32) (out []Sacrifice) {
	for set := 1; set < 1<<len(s.Holders); set++ {
		free, some, allowed := s.Free, []Holder{}, true
		for i, h := range s.Holders {
			if set&(1<<i) != 0 {
				free, some = free.Add(h.Amounts), append(some, h)
				allowed = allowed && h.Priority < priority
			}
		}
		if _, ok := quantity.Fits(needs, free); ok && allowed {
			slices.SortFunc(some, Holder.compareEviction)
			out = append(out, Sacrifice{s.ID, some})
		}
	}
	return out
}

func TestPreemptMatchesExhaustiveSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		needs, priority := anyAmounts(t), rapid.Int32Range(0, 5).Draw(t, "of")
		var sites []Site
		var possible []Sacrifice
		for i := range rapid.IntRange(0, 3).Draw(t, "sites") {
			s := anySite(t, fmt.Sprint("site", i))
			sites = append(sites, s)
			if _, fits := quantity.Fits(needs, s.Free); !fits {
				possible = append(possible, every(s, needs, priority)...)
			}
		}
		got, ok := Preempt(needs, priority, sites)
		if ok != (len(possible) > 0) {
			t.Fatalf("%+v: %v, want one of %+v", got, ok, possible)
		}
		for _, other := range possible {
			if other.compareSacrifice(got) < 0 {
				t.Errorf("%+v, want %+v", got, other)
			}
		}
		if ok && !slices.ContainsFunc(possible, func(p Sacrifice) bool { return cmp.Equal(p, got) }) {
			t.Errorf("%+v makes no room for %v", got, needs)
		}
	})
}

// A search that exceeds its bound still returns victims.
func TestPreemptReturnsVictimsWhenSearchIsBounded(t *testing.T) {
	s := Site{ID: "paris"}
	for i := range 2000 {
		s.Holders = append(s.Holders, Holder{ID: fmt.Sprintf("h%04d", i), Amounts: quantity.Amounts{
			"cpu": int64(100 + i%7), gpu: int64(7 - i%7),
		}})
	}
	got, ok := Preempt(quantity.Amounts{"cpu": 3000, gpu: 100}, 1, []Site{s})
	sum := quantity.Amounts{}
	for _, h := range got.Victims {
		sum = sum.Add(h.Amounts)
	}
	if _, fits := quantity.Fits(quantity.Amounts{"cpu": 3000, gpu: 100}, sum); !ok || !fits {
		t.Errorf("%d victims make room for %v", len(got.Victims), sum)
	}
}
