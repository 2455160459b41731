package webhooks

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

func reviewing(ctx context.Context, user string, dry bool) context.Context {
	return admission.NewContextWithRequest(ctx, admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		DryRun: &dry, UserInfo: authenticationv1.UserInfo{Username: user},
	}})
}

func fixedTime() time.Time { return time.Unix(1_700_000_000, 0) }

var parisQuote = &v1.Quote{
	ClusterID: "paris", PricePerHour: "0.4", PriceTotal: "3.2", Currency: "EUR", NotPriced: []string{"memory"}, Hours: 8,
	Rejected: map[string]int32{"Self": 1, "InsufficientResource": 2},
	Candidates: []v1.QuotedCandidate{
		{Candidate: v1.Candidate{ClusterID: "paris", Score: "90.00", PricePerHour: "0.4", Currency: "EUR"}, PriceTotal: "3.2"},
		{Candidate: v1.Candidate{ClusterID: "oslo", Score: "80.00", Reason: "LowerScore", PricePerHour: "0.5", Currency: "EUR", NotPriced: []string{"cpu", "memory"}}, PriceTotal: "4"},
		{Candidate: v1.Candidate{ClusterID: "berlin", Reason: "InsufficientResource", Message: "lacks 1 of 4 cpu"}},
		{Candidate: v1.Candidate{ClusterID: "rome", Reason: "Self"}},
	},
}

func TestDryRunsShowWhoWouldServe(t *testing.T) {
	var refused Verdict
	refused.Refuse(field.Invalid(field.NewPath("spec"), "", "no"))
	cases := map[string]struct {
		dry, waits bool
		before     Verdict
		answer     *v1.Quote
		err        error
		want       []string
	}{
		"a request that is served": {dry: true, answer: parisQuote, want: []string{
			"quote: paris would serve it for 0.4 EUR per hour, 3.2 EUR for 8h, memory not priced", "quote: oslo could serve it too for 0.5 EUR per hour, 4 EUR for 8h, cpu and memory not priced",
			"quote: berlin cannot serve it: InsufficientResource: lacks 1 of 4 cpu", "quote: others cannot serve it: 1 InsufficientResource",
		}},
		"a request that waits": {dry: true, waits: true, answer: &v1.Quote{Rejected: map[string]int32{"Stale": 1}}, want: []string{
			"quote: no cluster can serve it now, so it would wait in the queue", "quote: others cannot serve it: 1 Stale",
			"quote: what helps against Stale: see that cluster's agent",
		}},
		"a request that the broker refuses": {dry: true, err: fault.New(fault.Invalid, "duration: 99h is too long"), want: []string{
			"quote: none: the broker would refuse it: duration: 99h is too long",
		}},
		"a broker that does not answer": {dry: true, err: errors.New("no route"), want: []string{
			"quote: none: the broker does not answer, so that its decision is not known: no route",
		}},
		"a request that is refused here": {dry: true, before: refused, answer: parisQuote},
		"no dry run":                     {answer: parisQuote},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v := tc.before
			NewPreviewer(fixedTime).AddQuote(reviewing(t.Context(), "alice", tc.dry), &v, tc.waits, func(context.Context) (*v1.Quote, error) { return tc.answer, tc.err })
			if diff := cmp.Diff(tc.want, v.Warnings); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(v.Errors) != len(tc.before.Errors) {
				t.Errorf("errors %v", v.Errors)
			}
		})
	}
}

func TestCreationsShowLikelyMistakes(t *testing.T) {
	var refused Verdict
	refused.Refuse(field.Invalid(field.NewPath("spec"), "", "no"))
	const unknown = "constraints.regions[0]: no cluster advertises region mars"
	quote := &v1.Quote{Warnings: []string{unknown}}
	create, update := admissionv1.Create, admissionv1.Update
	cases := map[string]struct {
		dry       bool
		operation admissionv1.Operation
		before    Verdict
		err       error
		want      []string
	}{
		"a creation":                     {operation: create, want: []string{unknown}},
		"a dry run, with the quote":      {dry: true, operation: create, want: []string{unknown, "quote: no cluster can serve it now"}},
		"an update":                      {operation: update},
		"a request that is refused here": {operation: create, before: refused},
		"a broker that does not answer":  {operation: create, err: errors.New("no route")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v, p := tc.before, NewPreviewer(fixedTime)
			ask := func(context.Context) (*v1.Quote, error) { return quote, tc.err }
			ctx := admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{DryRun: &tc.dry, Operation: tc.operation}})
			p.AddQuote(ctx, &v, false, ask)
			p.AddAdvice(ctx, &v, ask)
			if diff := cmp.Diff(tc.want, v.Warnings); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDryRunsOfOneUserLeaveRoomForOthers(t *testing.T) {
	p, asked := NewPreviewer(fixedTime), 0
	preview := func(user string) string {
		var v Verdict
		p.AddQuote(reviewing(t.Context(), user, true), &v, false, func(context.Context) (*v1.Quote, error) {
			asked++
			return parisQuote, nil
		})
		return v.Warnings[0]
	}
	for range 100 {
		preview("mallory")
	}
	if asked != userBurst {
		t.Errorf("%d quotes for one user at once, want %d", asked, userBurst)
	}
	if got := preview("alice"); !strings.Contains(got, "paris") {
		t.Errorf("another user gets %q", got)
	}
	for i := range 100 {
		preview(strings.Repeat("x", i+1))
	}
	if asked != totalBurst {
		t.Errorf("%d quotes at once, want %d", asked, totalBurst)
	}
	if got, want := preview("bob"), "quote: none: too many dry runs at once: repeat it in a few seconds"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDryRunEndsBeforeTheAPIServerGivesUp(t *testing.T) {
	for url, want := range map[string]time.Duration{
		"/validate?timeout=5s": 2 * time.Second, "/validate?timeout=1s": time.Second / 2, "/validate": 2 * time.Second,
		"/validate?timeout=soon": 2 * time.Second, "/validate?timeout=-1s": 2 * time.Second,
	} {
		ctx := withPatience(t.Context(), httptest.NewRequestWithContext(t.Context(), "POST", url, nil))
		if got := patience(ctx); got != want {
			t.Errorf("%s waits for %s, want %s", url, got, want)
		}
	}
	ctx := withPatience(reviewing(t.Context(), "alice", true), httptest.NewRequestWithContext(t.Context(), "POST", "/validate?timeout=20ms", nil))
	var v Verdict
	NewPreviewer(fixedTime).AddQuote(ctx, &v, false, func(ctx context.Context) (*v1.Quote, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	if len(v.Warnings) != 1 || len(v.Errors) != 0 {
		t.Errorf("got %+v", v)
	}
}
