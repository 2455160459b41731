package advertisement

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Pending requests are shown in this cluster only and change no other figure. A small change is
// written only at the regular interval.
func TestPendingAmountsAreNotSentToTheBroker(t *testing.T) {
	b := newBench(t)
	b.after(0)
	b.expect(1, 2, 1)
	first, told := b.advertisement().Spec, b.broker.Advertised()[0]
	if first.Pending != nil {
		t.Errorf("pending is %v, want nothing", first.Pending)
	}
	pend := func(a quantity.Amounts) { b.figures.now = snapshot(); b.figures.now.Pending = a }
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
	b.after(DefaultInterval)
	expect(4, b.figures.now.Pending.ToResourceList())
	sent := b.broker.Advertised()
	told.Sequence, told.Timestamp = sent[1].Sequence, sent[1].Timestamp
	if diff := cmp.Diff(told, sent[1]); len(sent) != 2 || diff != "" {
		t.Errorf("%d advertisements; the broker is told (-before +now):\n%s", len(sent), diff)
	}

	pend(quantity.Amounts{"cpu": 305})
	b.after(DefaultInterval)
	b.expect(3, 4, 1)
	pend(quantity.Amounts{"cpu": 305, "nvidia.com/gpu": 1})
	b.after(minGap)
	b.after(DefaultInterval)
	expect(5, b.figures.now.Pending.ToResourceList())
	if got := testutil.ToFloat64(b.pending.WithLabelValues("nvidia.com/gpu")); got != 1 {
		t.Errorf("the metric says %v GPUs, want 1, which the cluster has none of", got)
	}
	pend(nil)
	b.after(DefaultInterval)
	expect(6, nil)
	b.after(DefaultInterval)
	expect(6, nil)
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
	few := quantity.Amounts{"cpu": 1, "example.com/0001": 1}
	if diff := cmp.Diff(few, firstPending(few, nil)); diff != "" {
		t.Errorf("of few (-want +got):\n%s", diff)
	}
}
