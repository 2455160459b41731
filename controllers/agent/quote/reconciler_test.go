package quote

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/transporttest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

const uid = "0b0b6f6e-8a53-4c86-9a3c-6f9f1f1c0a01"

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

type bench struct {
	*testing.T
	*Reconciler
	broker *transporttest.Direct
	clock  *clocktesting.FakeClock
	client client.WithWatch
	// dies makes the next write of a status fail, as if the agent had been killed just before.
	dies bool
}

func newBench(t *testing.T, objects ...client.Object) *bench {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{agentv1alpha1.AddToScheme, corev1.AddToScheme} {
		runtest.Check(t, add(scheme))
	}
	cpu, memory := resource.MustParse("500m"), resource.MustParse("256Mi")
	q := &agentv1alpha1.Quote{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "mine", UID: uid, Generation: 1, CreationTimestamp: metav1.NewTime(start)},
		Spec: agentv1alpha1.QuoteSpec{
			CPU: &cpu, Memory: &memory, Duration: &metav1.Duration{Duration: time.Hour}, Hold: &metav1.Duration{Duration: time.Minute},
		},
	}
	b := &bench{T: t, broker: transporttest.New("rome"), clock: clocktesting.NewFakeClock(start)}
	b.client = interceptor.NewClient(fakeclient.NewClientBuilder().WithScheme(scheme).
		WithStatusSubresource(&agentv1alpha1.Quote{}, &agentv1alpha1.ResourceRequest{}).WithObjects(append(objects, q)...).Build(),
		interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, name string, o client.Object, p client.Patch, options ...client.SubResourcePatchOption) error {
			if b.dies {
				return errors.New("killed")
			}
			return c.SubResource(name).Patch(ctx, o, p, options...)
		}})
	b.Reconciler = New(b.client, b.broker, Options{ClusterID: "rome", Reader: b.client, Clock: b.clock})
	return b
}

// after advances the clock, reconciles once and returns the time until the next reconcile.
func (b *bench) after(d time.Duration) time.Duration {
	b.Helper()
	b.clock.Step(d)
	result, err := b.Reconcile(b.Context(), b.name())
	runtest.Check(b, err)
	return result.RequeueAfter
}

func (b *bench) name() reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "team", Name: "mine"}}
}

func (b *bench) quote() *agentv1alpha1.Quote {
	b.Helper()
	q := &agentv1alpha1.Quote{}
	runtest.Check(b, b.client.Get(b.Context(), b.name().NamespacedName, q))
	return q
}

func (b *bench) expect(phase agentv1alpha1.QuotePhase, reason, message string) {
	b.Helper()
	q := b.quote()
	c := meta.FindStatusCondition(q.Status.Conditions, agentv1alpha1.ConditionReady)
	if c == nil || q.Status.Phase != phase || c.Reason != reason || !strings.Contains(q.Status.Message, message) {
		b.Errorf("phase %s, condition %+v, message %q; want %s, %s, %q", q.Status.Phase, c, q.Status.Message, phase, reason, message)
	}
}

func (b *bench) expectGone() {
	b.Helper()
	if err := b.client.Get(b.Context(), b.name().NamespacedName, &agentv1alpha1.Quote{}); !apierrors.IsNotFound(err) {
		b.Errorf("the Quote is still there: %v", err)
	}
}

func priced(key string, req *v1.ReservationRequest) (*v1.Quote, error) {
	return &v1.Quote{
		Name: "quo-k3v9x2m7qa", RemainingSeconds: float64(req.HoldSeconds), ClusterID: "paris", PricePerHour: "0.123456789", PriceTotal: "0.123456789", Currency: "EUR", NotPriced: []string{"memory"},
		Candidates: []v1.QuotedCandidate{{Candidate: v1.Candidate{ClusterID: "paris", Score: "75.00"}}, {Candidate: v1.Candidate{ClusterID: "oslo", Reason: "Stale"}}},
	}, nil
}

func TestQuoteIsHeldUntilItExpiresAndThenRemoved(t *testing.T) {
	b := newBench(t)
	b.broker.Quote = priced
	if again := b.after(0); again != confirmEvery {
		t.Errorf("the next step is due in %s, want %s", again, confirmEvery)
	}
	end := metav1.NewTime(start.Add(time.Minute))
	want := agentv1alpha1.QuoteStatus{
		Phase: agentv1alpha1.QuoteHeld, Asked: true, QuoteName: "quo-k3v9x2m7qa", TargetClusterID: "paris", ExpiresAt: &end, ObservedGeneration: 1,
		Cost:       &agentv1alpha1.QuoteCost{PerHour: "0.123456789", ToEnd: "0.123456789", Currency: "EUR", NotPriced: []string{"memory"}},
		Candidates: []v1.Candidate{{ClusterID: "paris", Score: "75.00"}, {ClusterID: "oslo", Reason: "Stale"}},
	}
	got := b.quote().Status
	got.Conditions, got.Message = nil, ""
	if got.ExpiresAt.Equal(&end) {
		got.ExpiresAt = &end
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	b.expect(agentv1alpha1.QuoteHeld, agentv1alpha1.ReasonQuoteHeld, `capacity is held on "paris" until 2026-03-01T12:01:00Z`)
	asked := b.broker.Calls(transporttest.RequestQuote)
	body := &v1.ReservationRequest{RequesterID: "rome", Resources: v1.Amounts{"cpu": "500m", "memory": "256Mi"}, DurationSeconds: 3600, HoldSeconds: 60}
	if diff := cmp.Diff([]transporttest.Call{{Operation: transporttest.RequestQuote, ClusterID: "rome", Name: uid, Body: body}}, asked); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	b.after(time.Minute)
	b.expect(agentv1alpha1.QuoteExpired, agentv1alpha1.ReasonExpired, "the capacity was held until 2026-03-01T12:01:00Z")
	if again := b.after(time.Minute); again != 9*time.Minute {
		t.Errorf("it is removed in %s, want ten minutes after its end", again)
	}
	b.after(9 * time.Minute)
	b.after(0)
	b.expectGone()
	if calls := b.broker.Calls(transporttest.ReleaseQuote); len(calls) != 0 {
		t.Errorf("what had expired was released: %+v", calls)
	}
}

// The agent is killed twice: before it asks the broker, and after the answer, before it writes the
// status. Asking again with the same key returns the same hold.
func TestKilledAgentAsksAgainWithTheSameKey(t *testing.T) {
	b := newBench(t)
	b.dies = true
	if _, err := b.Reconcile(t.Context(), b.name()); err == nil || len(b.broker.Calls(transporttest.RequestQuote)) != 0 {
		t.Fatalf("the broker was asked before that was written down: %v", err)
	}
	b.dies = false
	b.broker.Quote = func(key string, req *v1.ReservationRequest) (*v1.Quote, error) {
		b.dies = true
		return priced(key, req)
	}
	if _, err := b.Reconcile(t.Context(), b.name()); err == nil {
		t.Fatal("it survived")
	}
	b.dies, b.broker.Quote = false, priced
	b.Reconciler = New(b.client, b.broker, b.options)
	b.after(0)
	b.expect(agentv1alpha1.QuoteHeld, agentv1alpha1.ReasonQuoteHeld, "")
	for _, call := range b.broker.Calls(transporttest.RequestQuote) {
		if call.Name != uid {
			t.Errorf("asked with key %q, want %q", call.Name, uid)
		}
	}
	// A killed agent also releases what it may have held.
	runtest.Check(t, b.client.Delete(t.Context(), b.quote()))
	b.after(0)
	b.expectGone()
	if calls := b.broker.Calls(transporttest.ReleaseQuote); len(calls) != 1 || calls[0].Name != uid {
		t.Errorf("releases %+v", calls)
	}
}

func TestRefusedQuotesSayWhy(t *testing.T) {
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "limits"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
		{Type: "liqo.io/ResourceRequest", Max: corev1.ResourceList{"cpu": resource.MustParse("100m")}},
	}}}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "sum"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
		"resourcerequests.liqo.io/cpu": resource.MustParse("1"),
	}}}
	cpu, memory := resource.MustParse("750m"), resource.MustParse("1Gi")
	other := &agentv1alpha1.Quote{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "other"}, Spec: agentv1alpha1.QuoteSpec{CPU: &cpu, Memory: &memory}, Status: agentv1alpha1.QuoteStatus{Phase: agentv1alpha1.QuoteHeld, Asked: true}}
	cases := map[string]struct {
		objects         []client.Object
		answer          *v1.Quote
		err             error
		phase           agentv1alpha1.QuotePhase
		reason, message string
	}{
		"no cluster has room":                   {nil, &v1.Quote{Message: "paris: lacks cpu"}, nil, agentv1alpha1.QuoteFailed, "NoCandidate", "paris: lacks cpu"},
		"longer than the broker holds":          {nil, nil, fault.New(fault.Invalid, "hold: 1h is too long"), agentv1alpha1.QuoteFailed, "Invalid", "hold: 1h is too long"},
		"a cluster that is denied":              {nil, nil, fault.New(fault.ClusterDenied, "rome is denied"), agentv1alpha1.QuoteFailed, "Refused", "rome is denied"},
		"more than a request may ask for":       {[]client.Object{limits}, nil, nil, agentv1alpha1.QuoteFailed, "OutsideBounds", `LimitRange "limits" allows at most 100m`},
		"more than another Quote leaves":        {[]client.Object{quota, other}, nil, nil, agentv1alpha1.QuoteFailed, "OutsideBounds", "of which 750m is asked for already"},
		"a hold that ended before it was shown": {nil, nil, fault.New(fault.Released, "it was held until noon"), agentv1alpha1.QuoteExpired, "Expired", "it was held until noon"},
		"a broker that cannot be reached":       {nil, nil, transport.ErrUnreachable, "", "BrokerUnreachable", "the quote is asked for until it is answered"},
		"a cluster that has used up its budget": {nil, nil, fault.New(fault.TooManyRequests, "ten quotes are held"), "", "OverBudget", "ten quotes are held"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tc.objects...)
			b.broker.Quote = func(string, *v1.ReservationRequest) (*v1.Quote, error) { return tc.answer, tc.err }
			again := b.after(0)
			b.expect(tc.phase, tc.reason, tc.message)
			if tc.phase != "" {
				b.after(0)
				b.after(retention)
				b.after(0)
				b.expectGone()
				return
			}
			b.broker.Quote = priced
			b.after(again)
			b.expect(agentv1alpha1.QuoteHeld, agentv1alpha1.ReasonQuoteHeld, "")
		})
	}
}

func TestTakenQuoteNamesTheRequest(t *testing.T) {
	b := newBench(t, &agentv1alpha1.ResourceRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "job"}, Spec: agentv1alpha1.ResourceRequestSpec{Quote: "mine"},
		Status: agentv1alpha1.ResourceRequestStatus{QuoteName: transporttest.HeldQuote, ReservationName: "res-k3v9x2m7qa"},
	})
	b.after(0)
	b.after(time.Second)
	b.expect(agentv1alpha1.QuoteTaken, agentv1alpha1.ReasonQuoteTaken, `ResourceRequest "job" has taken the capacity over`)
	if taker := b.quote().Status.TakenBy; taker != "job" {
		t.Errorf("taken by %q", taker)
	}
}

func TestDeletedQuoteGoesThoughTheBrokerIsAway(t *testing.T) {
	b := newBench(t)
	b.after(0)
	runtest.Check(t, b.client.Delete(t.Context(), b.quote()))
	b.broker.SetDown(true)
	b.after(0)
	if q := b.quote(); len(q.Finalizers) != 1 {
		t.Errorf("finalizers %q, want one until the capacity is released", q.Finalizers)
	}
	b.after(time.Minute) // the broker no longer holds it
	b.expectGone()
}

// The broker ends a hold early when an administrator denies or drains a cluster, and when it was restored from an older
// state. A user must not rely on capacity that is no longer held.
func TestQuoteEndsWhenTheBrokerNoLongerHoldsIt(t *testing.T) {
	other := func(key string, req *v1.ReservationRequest) (*v1.Quote, error) {
		q, err := priced(key, req)
		q.Name = "quo-another00"
		return q, err
	}
	fails := func(err error) func(string, *v1.ReservationRequest) (*v1.Quote, error) {
		return func(string, *v1.ReservationRequest) (*v1.Quote, error) { return nil, err }
	}
	cases := map[string]struct {
		answer          func(string, *v1.ReservationRequest) (*v1.Quote, error)
		phase           agentv1alpha1.QuotePhase
		reason, message string
		released        int
	}{
		"it is still held":             {priced, agentv1alpha1.QuoteHeld, "QuoteHeld", `capacity is held on "paris"`, 0},
		"its provider was denied":      {fails(fault.New(fault.Released, "its provider was denied")), agentv1alpha1.QuoteExpired, "Expired", "its provider was denied. To get another", 0},
		"this cluster was denied":      {fails(fault.New(fault.ClusterDenied, "rome is denied")), agentv1alpha1.QuoteFailed, "Refused", "rome is denied", 0},
		"the broker lost it":           {other, agentv1alpha1.QuoteExpired, "Expired", "the broker no longer knows quote quo-k3v9x2m7qa", 1},
		"nor has any cluster room now": {func(string, *v1.ReservationRequest) (*v1.Quote, error) { return &v1.Quote{Message: "no room"}, nil }, agentv1alpha1.QuoteExpired, "Expired", "the broker no longer knows quote", 1},
		"the broker cannot be reached": {fails(transport.ErrUnreachable), agentv1alpha1.QuoteHeld, "QuoteHeld", `capacity is held on "paris"`, 0},
		"the broker is busy":           {fails(fault.New(fault.TooManyRequests, "slow down")), agentv1alpha1.QuoteHeld, "QuoteHeld", `capacity is held on "paris"`, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.broker.Quote = priced
			b.after(0)
			b.broker.Quote = tc.answer
			b.after(confirmEvery)
			b.expect(tc.phase, tc.reason, tc.message)
			if calls := b.broker.Calls(transporttest.ReleaseQuote); len(calls) != tc.released {
				t.Errorf("releases %+v, want %d", calls, tc.released)
			}
			if end := b.quote().Status.ExpiresAt.Time; tc.phase != agentv1alpha1.QuoteHeld && !end.Equal(start.Add(confirmEvery)) {
				t.Errorf("it was held until %s, want until the broker said that it no longer is", end)
			}
		})
	}
}

func TestHeldQuoteIsConfirmedOnceInAWhile(t *testing.T) {
	b := newBench(t)
	b.broker.Quote = priced
	for range 10 {
		b.after(0)
	}
	if again := b.after(confirmEvery - time.Second); again != time.Second {
		t.Errorf("the next step is due in %s, want %s after the answer", again, confirmEvery)
	}
	if calls := b.broker.Calls(transporttest.RequestQuote); len(calls) != 1 {
		t.Errorf("the broker was asked %d times, want once", len(calls))
	}
	b.after(time.Second)
	b.after(0)
	if calls := b.broker.Calls(transporttest.RequestQuote); len(calls) != 2 {
		t.Errorf("the broker was asked %d times, want twice", len(calls))
	}
}

// A request that is taking the Quote over may have succeeded at the broker, though its status does not show it yet.
func TestQuoteThatIsBeingTakenOverDoesNotExpire(t *testing.T) {
	taker := &agentv1alpha1.ResourceRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "job"}, Spec: agentv1alpha1.ResourceRequestSpec{Quote: "mine"},
		Status: agentv1alpha1.ResourceRequestStatus{QuoteName: "quo-k3v9x2m7qa"},
	}
	b := newBench(t, taker)
	b.broker.Quote = priced
	b.after(0)
	b.broker.Quote = func(string, *v1.ReservationRequest) (*v1.Quote, error) {
		return nil, fault.New(fault.Released, "it was taken over")
	}
	b.after(confirmEvery)
	b.expect(agentv1alpha1.QuoteHeld, agentv1alpha1.ReasonQuoteHeld, "")
	taker.Status.ReservationName = "res-k3v9x2m7qa"
	runtest.Check(t, b.client.Status().Update(t.Context(), taker))
	b.after(0)
	b.expect(agentv1alpha1.QuoteTaken, agentv1alpha1.ReasonQuoteTaken, "")
}
