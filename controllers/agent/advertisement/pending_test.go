package advertisement

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Pending requests change no other figure and never cause an advertisement. Small changes of them
// are written only when the regular advertisement is due.
func TestPendingAmountsAreSentWithRegularAdvertisements(t *testing.T) {
	b := newBench(t)
	b.after(0)
	b.expect(1, 2, 1)
	first, told := b.advertisement().Spec, b.broker.Advertised()[0]
	if first.Pending != nil || first.PendingSince != nil || told.Pending != nil {
		t.Errorf("pending is %v since %v, and %v for the broker; want nothing", first.Pending, first.PendingSince, told.Pending)
	}
	since := b.clock.Now().Add(-time.Minute).Truncate(time.Second)
	pend := func(a quantity.Amounts) {
		b.figures.now = snapshot()
		if b.figures.now.Pending = a; a != nil {
			b.figures.now.PendingSince = since
		}
	}
	expect := func(writes int, want corev1.ResourceList) {
		t.Helper()
		b.expect(len(b.broker.Advertised()), writes, 1)
		adv := b.advertisement()
		if diff := cmp.Diff(want, adv.Spec.Pending); diff != "" {
			t.Errorf("pending (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(first.Resources, adv.Spec.Resources); diff != "" {
			t.Errorf("other figures (-before +now):\n%s", diff)
		}
		for name := range first.Resources.Allocatable {
			amount := want[name]
			if got := testutil.ToFloat64(b.pending.WithLabelValues(string(name))); got != amount.AsApproximateFloat64() {
				t.Errorf("the metric says %v of %s, want %s", got, name, amount.String())
			}
		}
	}

	pend(quantity.Amounts{"cpu": 200})
	b.after(minGap)
	b.expect(1, 2, 1)
	pend(quantity.Amounts{"cpu": 201})
	b.after(minGap)
	b.expect(1, 3, 1)
	pend(quantity.Amounts{"cpu": 300})
	b.after(minGap)
	b.expect(1, 3, 1)
	b.after(interval)
	expect(4, b.figures.now.Pending.ToResourceList())
	sent := b.broker.Advertised()
	told.Sequence, told.Timestamp = sent[1].Sequence, sent[1].Timestamp
	told.Pending = &v1.PendingDemand{Requests: v1.Amounts{"cpu": "300m"}, WaitingSeconds: int64(b.clock.Since(since) / time.Second)}
	if diff := cmp.Diff(told, sent[1]); len(sent) != 2 || diff != "" {
		t.Errorf("%d advertisements; the broker is told (-before +now):\n%s", len(sent), diff)
	}

	pend(quantity.Amounts{"cpu": 305})
	b.after(interval)
	b.expect(3, 4, 1)
	if got := b.broker.Advertised()[2].Pending.Requests["cpu"]; got != "305m" {
		t.Errorf("the broker is told %s, want the 305m that the object does not show yet", got)
	}
	pend(quantity.Amounts{"cpu": 305, "nvidia.com/gpu": 1})
	b.after(minGap)
	b.after(interval)
	expect(5, b.figures.now.Pending.ToResourceList())
	if got := testutil.ToFloat64(b.pending.WithLabelValues("nvidia.com/gpu")); got != 1 {
		t.Errorf("the metric says %v GPUs, want 1, which the cluster has none of", got)
	}
	since = since.Add(time.Hour)
	pend(quantity.Amounts{"cpu": 305, "nvidia.com/gpu": 1})
	b.after(minGap)
	expect(5, b.figures.now.Pending.ToResourceList())
	b.after(interval)
	expect(6, b.figures.now.Pending.ToResourceList())
	if sent := b.broker.Advertised(); sent[len(sent)-1].Pending.WaitingSeconds != 0 {
		t.Errorf("the broker is told of a wait of %d s that begins in an hour", sent[len(sent)-1].Pending.WaitingSeconds)
	}
	pend(nil)
	b.after(interval)
	expect(7, nil)
	if sent := b.broker.Advertised(); sent[len(sent)-1].Pending != nil {
		t.Errorf("the broker is told %v, want nothing", sent[len(sent)-1].Pending)
	}
	b.after(interval)
	expect(7, nil)
}

func TestPendingAmountsOfOwnResourcesComeFirst(t *testing.T) {
	pending := quantity.Amounts{"cpu": 1, "zone.example.com/device": 2}
	for i := range 1000 {
		pending[corev1.ResourceName(fmt.Sprintf("example.com/%04d", i))] = 3
	}
	got := firstPending(pending, quantity.Amounts{"cpu": 9, "memory": 9, "zone.example.com/device": 9})
	if len(got) != mostPending || got["cpu"] != 1 || got["zone.example.com/device"] != 2 || got["example.com/0029"] != 3 {
		t.Errorf("shown are %d: %v", len(got), got)
	}
	if absurd := firstPending(quantity.Amounts{"cpu": math.MaxInt64}, nil); absurd["cpu"] != quantity.Limit {
		t.Errorf("%d millicores are pending, and the broker accepts at most %d", absurd["cpu"], quantity.Limit)
	}
	few := quantity.Amounts{"cpu": 1, "example.com/0001": 1}
	if diff := cmp.Diff(few, firstPending(few, nil)); diff != "" {
		t.Errorf("of few (-want +got):\n%s", diff)
	}
}
