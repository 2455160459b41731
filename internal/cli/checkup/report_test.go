package checkup

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRunPrintsEachCheckAndCountsFailures(t *testing.T) {
	says := func(f Finding) func(context.Context) Finding {
		return func(context.Context) Finding { return f }
	}
	var out strings.Builder
	err := Run(t.Context(), &out, []Check{
		{"journal", says(Found("stands at position %d", 7))},
		{"Liqo", says(Skip("nobody peers"))},
		{"clusters", says(Warn("look at their agents", "1 of 2 is not fresh"))},
		{"identity", says(Fail("enrol the cluster", "there is no certificate"))},
	})
	if err == nil || err.Error() != "1 of 4 checks failed" {
		t.Errorf("got %v, want one failure of four", err)
	}
	want := `ok    journal: stands at position 7
skip  Liqo: nobody peers
warn  clusters: 1 of 2 is not fresh
      -> look at their agents
FAIL  identity: there is no certificate
      -> enrol the cluster
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}
