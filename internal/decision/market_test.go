package decision

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

func TestUpsertRefusesWhatItCannotHold(t *testing.T) {
	tooMany := quantity.Amounts{}
	for i := range MaxResources {
		tooMany[corev1.ResourceName(fmt.Sprintf("example.com/r%d", i))] = 1
	}
	cases := map[string]struct {
		candidate Candidate
		want      string
	}{
		"no ID":                    {Candidate{}, "no ID"},
		"a currency by its name":   {Candidate{ID: "paris", Currency: "euro"}, `"paris" has prices in "euro"`},
		"a currency in lower case": {Candidate{ID: "paris", Currency: "eur"}, `"eur"`},
		"too many resources":       {Candidate{ID: "paris", Available: tooMany}, "1024 new resource names where 3 of 1024 are in use"},
		"too many in its shapes":   {Candidate{ID: "paris", Shapes: []Shape{{Count: 1, Free: tooMany}}}, "1024 new resource names"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := market(t, cluster("berlin", 1, 1, 1, 1))
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

func TestResourceNamesBeyondTheBoundAreLeftOut(t *testing.T) {
	m := market(t, cluster("berlin", 1, 1, 1, 1))
	for i := range 2 * MaxResources {
		name := corev1.ResourceName(fmt.Sprintf("example.com/r%d", i))
		m.SetAvailable("berlin", quantity.Amounts{name: 1})
		m.SetShapes("berlin", []Shape{{Count: 1, Free: quantity.Amounts{name: 1}}})
	}
	if len(m.columns) != MaxResources {
		t.Errorf("%d columns", len(m.columns))
	}
	last := quantity.Amounts{corev1.ResourceName(fmt.Sprintf("example.com/r%d", 2*MaxResources-1)): 1}
	if got, ok := Decide(m, &Request{Requester: "rome", Amounts: last}); ok {
		t.Errorf("%q won with a resource that was left out", got)
	}
}

func TestChangesOfUnknownClustersAreReported(t *testing.T) {
	m := market(t, cluster("berlin", 1, 1, 1, 1))
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

func TestARecordCountsFromWhenItIsSet(t *testing.T) {
	m := market(t, cluster("berlin", 1, 2, 1, 2), cluster("paris", 1, 2, 1, 2))
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
