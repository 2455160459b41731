package advertisement

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/transporttest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// figures are accounts that the test sets.
type figures struct {
	synced chan struct{}
	now    *capacity.Snapshot
	// guests are the pods on the known nodes.
	guests map[string]capacity.Guests
}

func (f *figures) Synced() <-chan struct{}     { return f.synced }
func (f *figures) Changed() <-chan struct{}    { return nil }
func (f *figures) Snapshot() capacity.Snapshot { return *f.now }
func (f *figures) GuestsOn(node string) (capacity.Guests, bool) {
	g, ok := f.guests[node]
	return g, ok
}

// bench is a Reconciler with its dependencies.
type bench struct {
	*testing.T
	*Reconciler
	figures *figures
	broker  *transporttest.Direct
	clock   *clocktesting.FakePassiveClock
	client  client.Client
	events  *events.FakeRecorder
	writes  int
}

// interval is the time between two advertisements of a bench.
const interval = 30 * time.Second

func newBench(t *testing.T, objects ...client.Object) *bench {
	scheme := runtime.NewScheme()
	runtest.Check(t, agentv1alpha1.AddToScheme(scheme))
	b := &bench{
		T: t, broker: transporttest.New("rome"), events: events.NewFakeRecorder(16),
		figures: &figures{synced: make(chan struct{}), now: snapshot()},
		clock:   clocktesting.NewFakePassiveClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)),
	}
	close(b.figures.synced)
	b.client = fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&agentv1alpha1.Advertisement{}, &agentv1alpha1.ProviderInstruction{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				b.writes++
				return c.Create(ctx, o, opts...)
			},
			Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				b.writes++
				return c.Update(ctx, o, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				b.writes++
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
		}).Build()
	b.broker.Receipt = &v1.AdvertisementReceipt{}
	none := func(context.Context) *metav1.Condition { return nil }
	b.Reconciler = New(b.client, b.broker, b.figures, b.events, Options{
		ClusterID: "rome", ClusterName: "rome", EndpointURL: "https://rome:6443", Settings: &FileSettings{},
		Name: "cluster-advertisement", Namespace: "default", InstructionNamespace: "default", Interval: interval,
		Certificate: none, Guarded: none, Liqo: none, NoteJournal: func(string) {}, Clock: b.clock,
	})
	b.jitter = func(d time.Duration) time.Duration { return d }
	return b
}

// after advances the clock, reconciles once and returns the time until the next reconcile.
func (b *bench) after(d time.Duration) time.Duration {
	b.Helper()
	b.clock.SetTime(b.clock.Now().Add(d))
	result, err := b.Reconcile(b.Context(), reconcile.Request{})
	runtest.Check(b, err)
	return result.RequeueAfter
}

func (b *bench) advertisement() *agentv1alpha1.Advertisement {
	b.Helper()
	adv := &agentv1alpha1.Advertisement{}
	runtest.Check(b, b.client.Get(b.Context(), client.ObjectKey{Namespace: "default", Name: "cluster-advertisement"}, adv))
	return adv
}

func (b *bench) expect(published, writes, events int) {
	b.Helper()
	if got := len(b.broker.Advertised()); got != published {
		b.Errorf("%d advertisements were published, want %d", got, published)
	}
	if b.writes != writes {
		b.Errorf("%d writes, want %d", b.writes, writes)
	}
	if got := len(b.events.Events); got != events {
		b.Errorf("%d events, want %d", got, events)
	}
}

func TestCertificateConditionIsShownBesideOthers(t *testing.T) {
	b := newBench(t)
	shown := metav1.Condition{
		Type: agentv1alpha1.ConditionCertificateValid, Status: metav1.ConditionTrue,
		Reason: agentv1alpha1.ReasonCertificateValid, Message: "valid until noon",
	}
	b.options.Certificate = func(context.Context) *metav1.Condition { return &shown }
	want := func(event string, writes, events int) {
		t.Helper()
		b.expect(len(b.broker.Advertised()), writes, events)
		got := meta.FindStatusCondition(b.advertisement().Status.Conditions, shown.Type)
		if got == nil || got.Reason != shown.Reason || got.Message != shown.Message {
			t.Errorf("condition %+v, want %+v", got, shown)
		}
		for range events {
			if text := <-b.events.Events; event != "" && text != event {
				t.Errorf("event %q, want %q", text, event)
			}
		}
	}
	b.after(0)
	want("", 2, 2)
	b.after(interval)
	want("", 2, 0)

	// After a renewal the message differs, but that is no event.
	shown.Message = "valid until midnight"
	b.after(interval)
	want("", 3, 0)

	shown.Reason, shown.Message = agentv1alpha1.ReasonRenewalFailing, "valid until midnight, and not replaced: broker away"
	b.after(interval)
	want("Warning CertificateRenewalFailing valid until midnight, and not replaced: broker away", 4, 1)
	if !meta.IsStatusConditionTrue(b.advertisement().Status.Conditions, agentv1alpha1.ConditionReady) {
		t.Error("the advertisement is not Ready")
	}
}

func TestFirstLookWritesPublishesAndReports(t *testing.T) {
	b := newBench(t)
	if again := b.after(0); again != interval {
		t.Errorf("next look in %s", again)
	}
	b.expect(1, 2, 1)
	adv := b.advertisement()
	if adv.Spec.ClusterID != "rome" || adv.Spec.ClusterName != "rome" || adv.Spec.EndpointURL != "https://rome:6443" {
		t.Errorf("spec %+v", adv.Spec)
	}
	if got := adv.Spec.Resources.Available.Cpu().String(); got != "8" {
		t.Errorf("available cpu %s", got)
	}
	if !adv.Status.Published || !meta.IsStatusConditionTrue(adv.Status.Conditions, agentv1alpha1.ConditionReady) {
		t.Errorf("status %+v", adv.Status)
	}
	sent := b.broker.Advertised()[0]
	if sent.Epoch != 0 || sent.Sequence != 1 || sent.ClusterID != "rome" {
		t.Errorf("sent %+v", sent)
	}
	if diff := cmp.Diff(v1.Amounts{"cpu": "2", "memory": "4000"}, sent.Allocated); diff != "" {
		t.Errorf("allocated (-want +got):\n%s", diff)
	}
}

func TestFirstAdvertisementWaitsForCompleteCount(t *testing.T) {
	b := newBench(t)
	b.figures.synced = make(chan struct{})
	b.after(0)
	b.expect(0, 0, 0)
}

func TestIntervalIsKeptWithoutWrites(t *testing.T) {
	b := newBench(t)
	b.after(0)
	for range 3 {
		b.after(interval)
	}
	b.expect(4, 2, 1)
	if got := b.broker.Advertised()[3].Sequence; got != 4 {
		t.Errorf("sequence %d", got)
	}
}

func TestShorterOfBothIntervalsApplies(t *testing.T) {
	for name, tc := range map[string]struct {
		asked int32
		want  time.Duration
	}{
		"nothing asked":       {0, 30 * time.Second},
		"sooner":              {5, 5 * time.Second},
		"later":               {100, 30 * time.Second},
		"nonsense is ignored": {-3, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.broker.Receipt = &v1.AdvertisementReceipt{Epoch: 1, NextSeconds: tc.asked}
			if got := b.after(0); got != tc.want {
				t.Errorf("next in %s, want %s", got, tc.want)
			}
		})
	}
}

func TestMaterialChangeIsPublishedAtOnceAndABurstTogether(t *testing.T) {
	b := newBench(t)
	b.after(0)
	b.figures.now.Allocated = quantity.Amounts{"cpu": 5000, "memory": 4000}
	if again := b.after(100 * time.Millisecond); again != 150*time.Millisecond {
		t.Errorf("looks again in %s", again)
	}
	b.figures.now.Allocated = quantity.Amounts{"cpu": 6000, "memory": 4000}
	b.after(150 * time.Millisecond)
	b.expect(2, 3, 1)
	if got := b.broker.Advertised()[1].Allocated["cpu"]; got != "6" {
		t.Errorf("allocated cpu %s", got)
	}
	b.figures.now.Allocated = quantity.Amounts{"cpu": 6001, "memory": 4000}
	b.after(time.Second)
	b.expect(2, 3, 1)
}

func TestOperatorsPriceIsKeptAndPublished(t *testing.T) {
	cost := &brokerv1alpha1.Cost{CPUCost: "0.04", Currency: "EUR"}
	b := newBench(t, &agentv1alpha1.Advertisement{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cluster-advertisement", Generation: 1},
		Spec: agentv1alpha1.AdvertisementSpec{
			ClusterID: "rome", Cost: cost, Labels: map[string]brokerv1alpha1.LabelValue{"tier": "gold"}, Claims: map[string]brokerv1alpha1.LabelValue{"gdpr": "true"},
		},
	})
	b.after(0)
	if told := b.broker.Advertised()[0]; told.Labels["tier"] != "gold" || told.Claims["gdpr"] != "true" || b.advertisement().Spec.Labels["tier"] != "gold" {
		t.Errorf("told labels %v and claims %v", told.Labels, told.Claims)
	}
	if diff := cmp.Diff(cost, b.advertisement().Spec.Cost); diff != "" {
		t.Errorf("cost (-want +got):\n%s", diff)
	}
	if got := b.broker.Advertised()[0].Cost.CPUCost; got != "0.04" {
		t.Errorf("told %q", got)
	}
	adv := b.advertisement()
	adv.Spec.Cost.CPUCost = "0.08"
	runtest.Check(t, b.client.Update(t.Context(), adv))
	b.after(time.Second)
	if got := b.broker.Advertised()[1].Cost.CPUCost; got != "0.08" {
		t.Errorf("told %q", got)
	}
}

func TestForeignEditsAreReverted(t *testing.T) {
	b := newBench(t)
	b.after(0)
	adv := b.advertisement()
	adv.Generation++
	adv.Spec.Resources.Available = corev1.ResourceList{"cpu": resource.MustParse("1000")}
	runtest.Check(t, b.client.Update(t.Context(), adv))
	b.after(time.Second)
	if got := b.advertisement().Spec.Resources.Available.Cpu().String(); got != "8" {
		t.Errorf("available cpu %s", got)
	}
}

func TestOnlyEnforcedInstructionsCount(t *testing.T) {
	instruction := func(name string, enforced bool) client.Object {
		return &agentv1alpha1.ProviderInstruction{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name + "-1"},
			Spec: agentv1alpha1.ProviderInstructionSpec{
				ReservationName: name, Placement: 1, RequesterClusterID: "paris",
				Resources: corev1.ResourceList{"cpu": resource.MustParse("3")},
			},
			Status: agentv1alpha1.ProviderInstructionStatus{Enforced: enforced},
		}
	}
	b := newBench(t, instruction("res-a", true), instruction("res-b", false))
	b.after(0)
	if got := b.advertisement().Spec.Resources.Reserved.Cpu().String(); got != "3" {
		t.Errorf("reserved cpu %s", got)
	}
	want := []v1.Usage{{Reservation: "res-a", Placement: 1, Used: v1.Amounts{}}}
	if diff := cmp.Diff(want, b.broker.Advertised()[0].Usage); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

func TestUnreachableBrokerIsReportedOnceAndCalledRarely(t *testing.T) {
	b := newBench(t)
	b.after(0)
	b.broker.SetDown(true)
	b.figures.now.Allocated = quantity.Amounts{"cpu": 5000, "memory": 4000}
	var pauses []time.Duration
	for pause := time.Second; len(pauses) < 6; pauses = append(pauses, pause) {
		pause = b.after(pause)
	}
	if diff := cmp.Diff([]time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, interval, interval}, pauses); diff != "" {
		t.Errorf("tries again after (-want +got):\n%s", diff)
	}
	b.expect(1, 4, 2) // the accounts were written locally and the condition changed
	adv := b.advertisement()
	c := meta.FindStatusCondition(adv.Status.Conditions, agentv1alpha1.ConditionReady)
	if adv.Status.Published || c.Reason != agentv1alpha1.ReasonBrokerUnreachable {
		t.Errorf("status %+v", adv.Status)
	}
	for i := range 20 {
		b.figures.now.Allocated = quantity.Amounts{"cpu": 5000 + int64(i), "memory": 4000}
		b.after(time.Second)
	}
	b.expect(1, 4, 2)

	b.broker.SetDown(false)
	b.after(interval)
	b.expect(2, 5, 3)
	if !b.advertisement().Status.Published {
		t.Error("not published again")
	}
	b.broker.SetDown(true)
	if again := b.after(interval); again != firstRetry {
		t.Errorf("the next time it is lost it is tried again in %s", again)
	}
}

func TestRefusedAdvertisementIsRepeatedAtTheInterval(t *testing.T) {
	away := fmt.Errorf("%w: no route", transport.ErrUnreachable)
	busy, denied := fault.New(fault.TooManyRequests, "busy"), fault.New(fault.ClusterDenied, "no")
	busy.RetryAfter = 5 * time.Second
	for name, tc := range map[string]struct {
		err      error
		failures int
		want     time.Duration
	}{
		"not reached":                 {away, 1, firstRetry},
		"not reached for long":        {away, 1000, interval},
		"the broker's wish is longer": {busy, 1, 5 * time.Second},
		"refused":                     {denied, 1, interval},
	} {
		if got := pauseAfter(tc.err, tc.failures, interval); got != tc.want {
			t.Errorf("%s: again in %s, want %s", name, got, tc.want)
		}
	}
}

func TestAllowedConsumersAreAdvertised(t *testing.T) {
	policy := &agentv1alpha1.LendingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	policy.Spec.Consumers = &agentv1alpha1.Consumers{Deny: []agentv1alpha1.ClusterID{"milan"}}
	b := newBench(t, policy)
	newest := func() v1.Lending {
		all := b.broker.Advertised()
		return all[len(all)-1].Lending
	}
	b.after(0)
	if diff := cmp.Diff(v1.Lending{Allow: []string{}, Deny: []string{"milan"}}, newest(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("at first (-want +got):\n%s", diff)
	}
	policy.Spec.Paused = true
	runtest.Check(t, b.client.Update(b.Context(), policy))
	b.after(minGap)
	if !newest().Paused || len(b.broker.Advertised()) != 2 {
		t.Errorf("a pause waits: %+v of %d advertisements", newest(), len(b.broker.Advertised()))
	}
	runtest.Check(t, b.client.Delete(b.Context(), policy))
	b.after(minGap)
	if diff := cmp.Diff(v1.Lending{}, newest(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("without a policy (-want +got):\n%s", diff)
	}
}

func TestRecallIsAdvertisedWithItsRemainingTime(t *testing.T) {
	inst := &agentv1alpha1.ProviderInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "res-a-1"}}
	inst.Spec.ReservationName, inst.Spec.Placement, inst.Status.Enforced = "res-a", 1, true
	b := newBench(t, inst)
	recall := func() *v1.Recall {
		all := b.broker.Advertised()
		return all[len(all)-1].Usage[0].Recall
	}
	b.after(0)
	if got := recall(); got != nil {
		t.Errorf("nobody wants it back: %+v", got)
	}
	since := metav1.NewTime(b.clock.Now())
	inst.Status.Recalled = &agentv1alpha1.RecalledPlacement{Since: since, EndsAt: metav1.NewTime(since.Add(10 * time.Minute)), Message: "rack 4"}
	runtest.Check(t, b.client.Status().Update(b.Context(), inst))
	b.after(time.Second)
	if diff := cmp.Diff(&v1.Recall{RemainingSeconds: 599, Message: "rack 4"}, recall()); diff != "" {
		t.Errorf("at once (-want +got):\n%s", diff)
	}
	b.after(interval)
	if diff := cmp.Diff(&v1.Recall{RemainingSeconds: 569, Message: "rack 4"}, recall()); diff != "" {
		t.Errorf("with the next one (-want +got):\n%s", diff)
	}
	inst.Status.Recalled = nil
	runtest.Check(t, b.client.Status().Update(b.Context(), inst))
	b.after(time.Second)
	if got := recall(); got != nil {
		t.Errorf("once it is withdrawn: %+v", got)
	}
}
