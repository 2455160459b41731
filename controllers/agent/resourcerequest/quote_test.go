package resourcerequest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/transporttest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func withQuote(rr *agentv1alpha1.ResourceRequest) { rr.Spec.Quote = "offer" }

// heldQuote returns a Quote for the amounts that newBench requests. It is held until five minutes after the start.
func heldQuote() *agentv1alpha1.Quote {
	cpu, memory := resource.MustParse("0.5"), resource.MustParse("262144Ki")
	end := metav1.NewTime(time.Date(2026, 3, 1, 12, 5, 0, 0, time.UTC))
	return &agentv1alpha1.Quote{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "offer"},
		Spec:       agentv1alpha1.QuoteSpec{CPU: &cpu, Memory: &memory},
		Status:     agentv1alpha1.QuoteStatus{Phase: agentv1alpha1.QuoteHeld, QuoteName: transporttest.HeldQuote, TargetClusterID: "paris", ExpiresAt: &end},
	}
}

func (b *bench) create(q *agentv1alpha1.Quote) {
	b.Helper()
	runtest.Check(b, b.client.Create(b.Context(), q))
}

// quotesAsked returns the quote that each call to the broker named.
func (b *bench) quotesAsked() (names []string) {
	for _, call := range b.broker.Calls(transporttest.RequestReservation) {
		body, _ := call.Body.(*v1.ReservationRequest)
		names = append(names, body.Quote)
	}
	return names
}

func (b *bench) expectReserved(reason, message string) {
	b.Helper()
	rr := b.request()
	c := meta.FindStatusCondition(rr.Status.Conditions, agentv1alpha1.ConditionReserved)
	if c == nil || c.Reason != reason || c.Message != message {
		b.Errorf("phase %s, condition %+v\nwant %s: %q", rr.Status.Phase, c, reason, message)
	}
}

func TestRequestTakesOverAHeldQuote(t *testing.T) {
	b := newBench(t, withQuote)
	b.after(0)
	b.expectReserved(agentv1alpha1.ReasonAwaitingQuote,
		`quote "offer" does not exist in namespace "team"; the request waits until it does. Create another Quote and set spec.quote to its name, or remove spec.quote.`)
	q := heldQuote()
	b.create(q)
	if names := b.requestsQuoting(t.Context(), q); len(names) != 1 || names[0].Name != "mine" {
		t.Errorf("the Quote wakes %v", names)
	}
	b.after(time.Second)
	if rr := b.request(); rr.Status.Phase != agentv1alpha1.RequestReserved || rr.Status.QuoteName != transporttest.HeldQuote {
		t.Errorf("status %+v", rr.Status)
	}
	b.after(time.Hour) // a renewal does not name the quote, which has ended long ago
	if diff := cmp.Diff([]string{transporttest.HeldQuote, ""}, b.quotesAsked()); diff != "" {
		t.Errorf("quotes in calls (-want +got):\n%s", diff)
	}
}

func TestRequestSaysWhyItCannotTakeAQuoteOver(t *testing.T) {
	advice := map[string]string{
		agentv1alpha1.ReasonQuoteEnded: ". Create another Quote and set spec.quote to its name, or remove spec.quote.",
		agentv1alpha1.ReasonInvalid:    ". To try again, edit the request, or delete and create it.",
	}
	cases := map[string]struct {
		edit            func(*agentv1alpha1.Quote)
		err             error
		reason, message string
	}{
		"not answered yet": {
			edit: func(q *agentv1alpha1.Quote) {
				q.Status = agentv1alpha1.QuoteStatus{Message: "the broker does not answer"}
			},
			reason: agentv1alpha1.ReasonAwaitingQuote, message: `quote "offer" is not held yet: the broker does not answer`,
		},
		"expired": {
			edit:   func(q *agentv1alpha1.Quote) { q.Status.Phase = agentv1alpha1.QuoteExpired },
			reason: agentv1alpha1.ReasonQuoteEnded, message: `quote "offer" expired at 2026-03-01T12:05:00Z`,
		},
		"expired a moment ago": {
			edit:   func(q *agentv1alpha1.Quote) { q.Status.ExpiresAt.Time = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) },
			reason: agentv1alpha1.ReasonQuoteEnded, message: `quote "offer" expired at 2026-03-01T12:00:00Z`,
		},
		"taken over": {
			edit: func(q *agentv1alpha1.Quote) {
				q.Status.Phase, q.Status.TakenBy = agentv1alpha1.QuoteTaken, "first"
			},
			reason: agentv1alpha1.ReasonQuoteEnded, message: `quote "offer" was taken over by ResourceRequest "first"`,
		},
		"failed": {
			edit: func(q *agentv1alpha1.Quote) {
				q.Status.Phase, q.Status.Message = agentv1alpha1.QuoteFailed, "no cluster has room"
			},
			reason: agentv1alpha1.ReasonQuoteEnded, message: `quote "offer" holds nothing: no cluster has room`,
		},
		"for something else": {
			edit:   func(q *agentv1alpha1.Quote) { q.Spec.Duration = &metav1.Duration{Duration: time.Hour} },
			reason: agentv1alpha1.ReasonInvalid, message: `spec.duration: Invalid value: differs from Quote "offer": ask for what was quoted, create another Quote, or remove spec.quote`,
		},
		"taken over at the same time": {
			err:    fault.New(fault.Released, `quote "quo-0000000001" was taken over by reservation "res-1"`),
			reason: agentv1alpha1.ReasonQuoteEnded, message: `quote "offer" cannot be taken over: quote "quo-0000000001" was taken over by reservation "res-1"`,
		},
		"unknown to the broker": {
			err:    fault.New(fault.NotFound, "unknown"),
			reason: agentv1alpha1.ReasonQuoteEnded, message: `quote "offer" cannot be taken over: unknown`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b, q := newBench(t, withQuote), heldQuote()
			if tc.edit != nil {
				tc.edit(q)
			}
			b.create(q)
			b.broker.Fail(transporttest.RequestReservation, tc.err)
			b.after(0)
			b.expectReserved(tc.reason, tc.message)
			if tc.reason == agentv1alpha1.ReasonAwaitingQuote {
				return
			}
			if got := b.request().Status.Message; got != tc.message+advice[tc.reason] {
				t.Errorf("the message of the status is %q, want the reason and %q", got, advice[tc.reason])
			}
			// Another quote is tried as another attempt.
			other := heldQuote()
			other.Name, other.Status.QuoteName = "other", "quo-0000000002"
			b.create(other)
			rr := b.request()
			rr.Spec.Quote, rr.Generation = "other", 2
			runtest.Check(t, b.client.Update(t.Context(), rr))
			b.after(0)
			b.after(0)
			if rr := b.request(); rr.Status.Phase != agentv1alpha1.RequestReserved || rr.Status.QuoteName != "quo-0000000002" {
				t.Errorf("with another quote: %+v", rr.Status)
			}
		})
	}
}

// The agent may be killed before it reads the broker's answer, and the Quote deleted before it starts again. The
// repeated call still names the quote.
func TestKilledAgentRepeatsTheSameTakeover(t *testing.T) {
	b, q := newBench(t, withQuote), heldQuote()
	b.create(q)
	b.broker.SetBeforeAnswer(func(context.Context) error { return errors.New("killed") })
	b.after(0)
	b.broker.SetBeforeAnswer(nil)
	runtest.Check(t, b.client.Delete(t.Context(), q))
	b.Reconciler = New(b.client, b.broker, b.events, b.defaults())
	b.after(time.Minute)
	if rr := b.request(); rr.Status.Phase != agentv1alpha1.RequestReserved {
		t.Errorf("phase %s: %s", rr.Status.Phase, rr.Status.Message)
	}
	if diff := cmp.Diff([]string{transporttest.HeldQuote, transporttest.HeldQuote}, b.quotesAsked()); diff != "" {
		t.Errorf("quotes in calls (-want +got):\n%s", diff)
	}
	if names := b.broker.Reservations(); len(names) != 1 {
		t.Errorf("reservations %q, want one", names)
	}
}

// The held capacity counts once: first as the Quote, then as the request that takes it over.
func TestQuotesCountAgainstTheQuotasOfTheirNamespace(t *testing.T) {
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "sum"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
		"resourcerequests.liqo.io/cpu": resource.MustParse("500m"),
	}}}
	for name, tc := range map[string]struct {
		edit func(*agentv1alpha1.ResourceRequest)
		want agentv1alpha1.ResourceRequestPhase
	}{
		"the request that takes it over": {withQuote, agentv1alpha1.RequestReserved},
		"a request beside it":            {func(*agentv1alpha1.ResourceRequest) {}, agentv1alpha1.RequestFailed},
	} {
		t.Run(name, func(t *testing.T) {
			b, q := newBench(t, tc.edit), heldQuote()
			q.Status.Asked = true
			b.create(q)
			runtest.Check(t, b.client.Create(t.Context(), quota.DeepCopy()))
			b.after(0)
			if rr := b.request(); rr.Status.Phase != tc.want {
				t.Errorf("phase %s, want %s: %s", rr.Status.Phase, tc.want, rr.Status.Message)
			}
		})
	}
}
