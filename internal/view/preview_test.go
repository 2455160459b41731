package view

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var previewMeta = metav1.TypeMeta{APIVersion: APIVersion, Kind: "Preview"}

func euros(perHour, total, duration string, unpriced ...string) QuotedPrice {
	return QuotedPrice{PerHour: perHour, Total: total, Currency: "EUR", For: duration, NotPriced: unpriced}
}

var previews = map[string]struct {
	preview  Preview
	warnings []string
}{
	"a provider, a rival and a cluster without room": {
		Preview{Provider: "paris", Price: euros("0.4", "3.2", "8h"), Candidates: []QuotedCandidate{
			{ClusterID: "oslo", Fits: true, Price: euros("0.5", "4", "8h", "memory", "nvidia.com/gpu")}, {ClusterID: "berlin", Fits: true},
			{ClusterID: "madrid", Reason: "InsufficientResource", Message: "lacks 1 of 4 cpu"}, {ClusterID: "rennes", Reason: "Stale"},
		}},
		[]string{
			"quote: paris would serve it for 0.4 EUR per hour, 3.2 EUR for 8h",
			"quote: oslo could serve it too for 0.5 EUR per hour, 4 EUR for 8h, memory and nvidia.com/gpu not priced",
			"quote: berlin could serve it too, without a price",
			"quote: madrid cannot serve it: InsufficientResource: lacks 1 of 4 cpu",
			"quote: rennes cannot serve it: Stale",
		},
	},
	"nobody": {
		Preview{Others: map[string]int32{"Stale": 1, "InsufficientResource": 12}, Advice: []string{"Stale: see that cluster's agent"}},
		[]string{
			"quote: no cluster can serve it now",
			"quote: others cannot serve it: 12 InsufficientResource, 1 Stale",
			"quote: what helps against Stale: see that cluster's agent",
		},
	},
	"nobody now, for a request that may wait": {Preview{Waits: true}, []string{"quote: no cluster can serve it now, so it would wait in the queue"}},
	"a broker that does not answer":           {Preview{Problem: "the broker does not answer"}, []string{"quote: none: the broker does not answer"}},
}

func TestPreviewSurvivesItsWarnings(t *testing.T) {
	for name, tc := range previews {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.warnings, tc.preview.Warnings()); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			want := tc.preview
			want.TypeMeta = previewMeta
			got, others := ParseWarnings(append([]string{"spec.cpu: something else"}, tc.warnings...))
			if diff := cmp.Diff(&want, got); diff != "" {
				t.Errorf("parsed (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"spec.cpu: something else"}, others); diff != "" {
				t.Errorf("others (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWarningsOfAnotherVersionStayReadable(t *testing.T) {
	got, others := ParseWarnings([]string{"quote: paris would serve it tomorrow", "quote: no cluster can serve it now"})
	if got != nil || len(others) != 2 { // the second warning alone would deny what the first one says
		t.Errorf("got %+v, others %q", got, others)
	}
	if got, _ := ParseWarnings([]string{"spec.cpu: x"}); got != nil {
		t.Errorf("got %+v without a quote", got)
	}
}

// If all warnings together have more than 4096 characters, the API server cuts each to 256. This test uses a fleet of
// hostile members whose texts are as long as possible.
func TestPreviewFitsIntoWarnings(t *testing.T) {
	unpriced := slices.Repeat([]string{strings.Repeat("r", 317)}, 10)
	q := Preview{Provider: strings.Repeat("p", 40), Price: euros(strings.Repeat("9", 40), strings.Repeat("9", 60), "87600h", unpriced...)}
	rejected := map[string]int32{}
	for i := range 100 {
		reason := []string{"InsufficientResource", "Stale", "Paused", "Denied", "LabelsDoNotMatch"}[i%5]
		rejected[reason]++
		q.Candidates = append(q.Candidates, QuotedCandidate{ClusterID: strings.Repeat("c", 40), Reason: reason, Message: strings.Repeat("é\n", 256)})
	}
	for _, provider := range []string{q.Provider, ""} {
		q := q
		q.Provider = provider
		q.Summarize(rejected)
		total := 0
		for _, w := range q.Warnings() {
			if total += utf8.RuneCountInString(w); len(w) > 256 || strings.ContainsAny(w, "\n\r") {
				t.Errorf("a warning of %d bytes: %q", len(w), w)
			}
		}
		if total > 4096 {
			t.Errorf("%d characters in all", total)
		}
		if read, _ := ParseWarnings(q.Warnings()); read.Provider != q.Provider || q.Provider != "" && !slices.Equal(read.Price.NotPriced, []string{"10 resources"}) {
			t.Errorf("the warnings say that %q serves it, without a price for %q", read.Provider, read.Price.NotPriced)
		}
	}
}

func TestSummaryCountsTheRestAndAdvises(t *testing.T) {
	q := Preview{Candidates: []QuotedCandidate{
		{ClusterID: "rome", Reason: "Self"}, {ClusterID: "paris", Reason: "InsufficientResource"}, {ClusterID: "oslo", Reason: "WrongLocation"},
	}}
	q.Summarize(map[string]int32{"Self": 1, "InsufficientResource": 3, "WrongLocation": 1})
	want := Preview{
		Candidates: []QuotedCandidate{{ClusterID: "paris", Reason: "InsufficientResource"}, {ClusterID: "oslo", Reason: "WrongLocation"}},
		Others:     map[string]int32{"InsufficientResource": 2},
		Advice: []string{
			"InsufficientResource: ask for less, or wait in the queue", "WrongLocation: allow more regions or zones",
		},
	}
	if diff := cmp.Diff(want, q); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHoursAreFormattedAsDurations(t *testing.T) {
	for hours, want := range map[float64]string{24: "24h", 1.5: "1h30m", 0.5: "30m", 0.025: "1m30s", 87600: "87600h", 2.0 / 3600: "2s"} {
		if got := FormatHours(hours); got != want {
			t.Errorf("%v hours are %q, want %q", hours, got, want)
		}
	}
}
