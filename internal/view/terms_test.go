package view

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWordsAreExplained(t *testing.T) {
	cases := map[string]struct {
		word string
		want []Subject
	}{
		"a word of one subject":        {"PodsRejected", []Subject{OfRequest}},
		"case does not matter":         {"podsrejected", []Subject{OfRequest}},
		"a word that several use":      {"Paused", []Subject{OfCandidate, OfCluster}},
		"a condition and a reason":     {"Recalled", []Subject{OfRequest, OfRequest, OfReservation, OfPlacement}},
		"a word that does not exist":   {"Broken", nil},
		"a part of a word is not it":   {"Pods", nil},
		"a word of the REST API":       {"TokenUsed", []Subject{OfAnswer}},
		"a reason of an ended attempt": {"NeverReady", []Subject{OfPlacement}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []Subject
			for _, term := range Explain(tc.word) {
				got = append(got, term.Subject)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("subjects (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnknownWordHasSimilarOnes(t *testing.T) {
	cases := map[string][]string{
		"pods":         {"PodsDoNotFit"},
		"PodsRejectet": {"PodsRejected"},
		"nocandidat":   {"NoCandidate"},
	}
	for word, want := range cases {
		if got := SimilarWords(word); !slices.Contains(got, want[0]) || got[0] != want[0] {
			t.Errorf("similar to %q are %v, want %v first", word, got, want)
		}
	}
}

func TestTermsAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, term := range Terms() {
		id := string(term.Subject) + " " + string(term.Kind) + " " + term.Word
		if seen[id] {
			t.Errorf("%s is explained twice", id)
		}
		seen[id] = true
		if term.Means == "" {
			t.Errorf("%s has no meaning", id)
		}
		if term.Level == Failure && term.Do == "" {
			t.Errorf("%s is a failure without a remedy", id)
		}
		if term.After != 0 && term.Level == Normal {
			t.Errorf("%s has a time after which nothing happens", id)
		}
		if strings.ContainsAny(PlainText(term.Means+term.Do), "`[") {
			t.Errorf("%s keeps markup as plain text: %s", id, PlainText(term.Means+term.Do))
		}
	}
}

func TestReservationSharesReasonsOfRequest(t *testing.T) {
	if got := reasonOf(OfReservation, "Queued").Subject; got != OfRequest {
		t.Errorf("Queued of a Reservation is explained for %q", got)
	}
	if got := reasonOf(OfReservation, "AwaitingProvider").Subject; got != OfReservation {
		t.Errorf("AwaitingProvider of a Reservation is explained for %q, want its own", got)
	}
}

func TestLinksLeadToThePages(t *testing.T) {
	got := Links("see [above](#a-pod), [healing](healing.md#x) and [security](../SECURITY.md)")
	want := []string{
		"https://github.com/mehdiazizian/liqo-resource-broker/blob/main/docs/troubleshooting.md#a-pod",
		"https://github.com/mehdiazizian/liqo-resource-broker/blob/main/docs/healing.md#x",
		"https://github.com/mehdiazizian/liqo-resource-broker/blob/main/SECURITY.md",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
}
