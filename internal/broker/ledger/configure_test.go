package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// TestOverSubscription checks how much paris can still grant of its cores, usually 8, which it
// offers one and a half times.
func TestOverSubscription(t *testing.T) {
	stretched := func(allocatable int64, ratio int64) Event {
		e := offer(paris, cpu(allocatable))
		e.Change.(*Offer).OverSubscription = quantity.Ratios{"cpu": ratio}
		return e
	}
	ceiling := func(ratio int64) Event {
		return Event{Change: &Configure{Ceilings: Ceilings{OverSubscription: quantity.Ratios{"cpu": ratio}}}}
	}
	none := Event{Change: &Configure{}}
	offered := stretched(8000, 150)
	own := stretched(8000, 150)
	own.Change.(*Offer).Allocated = cpu(1000)
	cases := map[string]struct {
		events []Event
		want   int64
	}{
		"without a ceiling it has what is there":            {[]Event{offered}, 8000},
		"a higher ceiling allows what is offered":           {[]Event{ceiling(200), offered}, 12000},
		"a lower ceiling cuts it":                           {[]Event{ceiling(120), offered}, 9600},
		"a ceiling that comes later holds as well":          {[]Event{offered, ceiling(120)}, 9600},
		"a ceiling alone stretches nothing":                 {[]Event{ceiling(200), offer(paris, cpu(8000))}, 8000},
		"own pods are taken off what is stretched":          {[]Event{ceiling(200), own}, 11000},
		"it is rounded down":                                {[]Event{ceiling(200), stretched(333, 101)}, 336},
		"what was promised stands when the ceiling is gone": {[]Event{ceiling(200), offered, reserve("r", paris, cpu(10000)), none}, 0},
		"and is given back to a cluster that has less":      {[]Event{ceiling(200), offered, reserve("r", paris, cpu(10000)), none, end("r", EndReleased), providerGone("r", 1)}, 8000},
		"a hold of a quote counts against it":               {[]Event{ceiling(200), offered, keep("q", paris, cpu(10000))}, 2000},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBook(t, offer(rome, nil))
			b.applyAll(tc.events...)
			b.wantAvailable(paris, cpu(tc.want))
			again, err := Restore([]byte(b.encodeSnapshot()))
			runtest.Check(t, err)
			book{t, again}.wantAvailable(paris, cpu(tc.want))
		})
	}
	gpus := offered
	gpus.Change = &Offer{ClusterID: paris, OverSubscription: quantity.Ratios{gpu: 150}}
	for name, e := range map[string]Event{"a device": gpus, "more than ten times": ceiling(1001), "less than once": ceiling(99)} {
		if _, err := newBook(t).Check(&e); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Differences lead from any configuration to any other, also if a difference is too large for one
// event.
func TestConfigurationFollowsFromItsDifferences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := New()
		for position := uint64(1); position < 20; {
			want := anyDocument(t)
			patches, err := b.Configuration().DifferencesTo(want)
			runtest.Check(t, err)
			for _, patch := range patches {
				if len(patch) > maxDifference+1024 {
					t.Fatalf("a difference has %d bytes", len(patch))
				}
				runtest.Check(t, b.Apply(position, &Event{Change: &Configure{Difference: patch}}))
				position++
			}
			if len(patches) == 0 {
				position++
			}
			if diff := cmp.Diff(string(want), string(b.Configuration().Document)); diff != "" {
				t.Fatalf("configuration (-want +got):\n%s", diff)
			}
		}
	})
}

// anyDocument returns a document of a few settings, and of up to a thousand clusters.
func anyDocument(t *rapid.T) json.RawMessage {
	approved := map[string]string{}
	for n := range rapid.SampledFrom([]int{0, 1, 2, 3, 1000}).Draw(t, "clusters") {
		approved[fmt.Sprint("cluster-", n)] = strings.Repeat(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"), 64)
	}
	out := map[string]any{
		"approvedClusters": approved, "headroom": rapid.IntRange(0, 2).Draw(t, "headroom"),
		"journalPerHour": json.Number("33554432000000000000"), "message": "<a & b>",
	}
	if rapid.Bool().Draw(t, "queued") {
		out["queue"] = map[string]any{"maxLength": rapid.IntRange(0, 2).Draw(t, "length"), "timeout": "1h"}
	}
	text, err := json.Marshal(out)
	runtest.Check(t, err)
	return text
}

func TestUnreadableConfigurationIsRefused(t *testing.T) {
	for name, difference := range map[string]string{"a list": `[1]`, "a number": `7`, "nothing": `null`} {
		e := Event{Change: &Configure{Difference: []byte(difference)}}
		if _, err := newBook(t).Check(&e); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
