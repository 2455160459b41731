package decision

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestUpsertRefusesInvalidCandidates(t *testing.T) {
	cases := map[string]struct {
		candidate Candidate
		want      string
	}{
		"no ID":                    {Candidate{}, "no ID"},
		"a currency by its name":   {Candidate{ID: "paris", Currency: "euro"}, `"paris" has prices in "euro"`},
		"a currency in lower case": {Candidate{ID: "paris", Currency: "eur"}, `"eur"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := newMarketWith(t, cluster("berlin", 1, 1, 1, 1))
			err := m.Upsert(tc.candidate)
			if !errors.Is(err, ErrCandidate) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q in it", err, tc.want)
			}
			if m.Len() != 1 || m.Has("paris") || !m.Has("berlin") {
				t.Error("a refused candidate changes nothing")
			}
		})
	}
}

// numberedResources returns one core, 1 GiB and n resources named after owner, whose numbers begin
// with from.
func numberedResources(owner string, from, n int) quantity.Amounts {
	out := size(1, 1)
	for i := range n {
		out[corev1.ResourceName(fmt.Sprintf("%s.example.com/r%04d", owner, from+i))] = 1
	}
	return out
}

func candidateOffering(id string, amounts quantity.Amounts) Candidate {
	return Candidate{ID: id, Allocatable: amounts, Available: amounts}
}

// However many resource names one cluster uses over time, the next cluster finds a free column for
// its own.
func TestColumnsAreGivenBack(t *testing.T) {
	m := newMarketWith(t)
	for i := range 100 {
		runtest.Check(t, m.Upsert(candidateOffering("evil", numberedResources("evil", 1000*i, 64))))
	}
	if n := len(m.columns); n > int(builtinColumns)+2*64 {
		t.Errorf("%d columns were made", n)
	}
	runtest.Check(t, m.Upsert(candidateOffering("paris", quantity.Amounts{corev1.ResourceCPU: 5000, "paris.example.com/npu": 2})))
	if !m.Remove("evil") || len(m.columnOf) != int(builtinColumns)+1 {
		t.Errorf("%d names are in use after the cluster left", len(m.columnOf))
	}
	if got, ok := Decide(m, &Request{Requester: "rome", Amounts: quantity.Amounts{"paris.example.com/npu": 1}}); !ok || got != "paris" {
		t.Errorf("%q won, want paris", got)
	}
}

// A column that is reused for another resource keeps no old values: a market with a history
// decides like a new one.
func TestReusedColumnIsCleared(t *testing.T) {
	m := newMarketWith(t, candidateOffering("berlin", numberedResources("old", 0, 3)), candidateOffering("paris", size(4, 4)))
	m.SetShapes("berlin", []quantity.NodeShape{{Count: 3, Free: numberedResources("old", 0, 3)}})
	for _, c := range []Candidate{candidateOffering("berlin", size(2, 2)), candidateOffering("paris", numberedResources("new", 0, 3))} {
		runtest.Check(t, m.Upsert(c))
	}
	for name, amounts := range map[string]quantity.Amounts{"old": {"old.example.com/r0001": 1}, "new": {"new.example.com/r0001": 1}} {
		got, ok := Decide(m, &Request{Requester: "rome", Amounts: amounts})
		if want := name == "new"; ok != want || ok && got != "paris" {
			t.Errorf("%s: %q, %t", name, got, ok)
		}
	}
}

func TestUnusedCurrenciesTakeNoRoom(t *testing.T) {
	m := newMarketWith(t)
	for i := range 200 {
		code := string([]byte{'A' + byte(i/26), 'A' + byte(i%26), 'X'})
		c := candidateOffering("evil", size(1, 1))
		c.Currency, c.Prices = code, map[corev1.ResourceName]Price{corev1.ResourceCPU: 1}
		runtest.Check(t, m.Upsert(c))
	}
	if n := len(m.currencies); n > 3 {
		t.Errorf("%d currencies are kept of one cluster", n)
	}
}

func TestChangesOfUnknownClustersAreReported(t *testing.T) {
	m := newMarketWith(t, cluster("berlin", 1, 1, 1, 1))
	for name, known := range map[string]bool{
		"SetAvailable":   m.SetAvailable("paris", size(1, 1)),
		"SetShapes":      m.SetShapes("paris", nil),
		"SetStale":       m.SetStale("paris", true),
		"SetDenied":      m.SetDenied("paris", true),
		"SetReliability": m.SetReliability("paris", nil),
		"SetLink":        m.SetLink("berlin", "paris", Link{Measured: true}),
		"Remove":         m.Remove("paris"),
	} {
		if known {
			t.Errorf("%s of an unknown cluster reports that it is known", name)
		}
	}
}

func TestRecordCountsOnceSet(t *testing.T) {
	m := newMarketWith(t, cluster("berlin", 1, 2, 1, 2), cluster("paris", 1, 2, 1, 2))
	r := &Request{Requester: "rome", Amounts: size(1, 1), Weights: Weights{Reliability: 1}}
	if got, _ := Decide(m, r); got != "berlin" {
		t.Errorf("without a record the name decides, got %q", got)
	}
	m.SetReliability("paris", new(0.8))
	if got, _ := Decide(m, r); got != "paris" {
		t.Errorf("got %q with the better record at paris", got)
	}
	m.SetReliability("paris", nil)
	if got, _ := Decide(m, r); got != "berlin" {
		t.Errorf("got %q after the record was dropped", got)
	}
}
