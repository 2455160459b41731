package resourcerequest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestRequestShowsItsCostUntilAfterItsEnd(t *testing.T) {
	b := newBench(t, withDuration(time.Hour))
	b.after(0)
	if got := b.request().Status.Cost; got != nil {
		t.Errorf("without a price it costs %+v", got)
	}
	asOf := metav1.NewTime(b.clock.Now()).Rfc3339Copy()
	want := &brokerv1alpha1.ReservationCost{PerHour: "0.8", SoFar: "0", AsOf: &asOf, ToEnd: "0.8", Currency: "EUR"}
	inst := b.instructions()[0]
	inst.Spec.Cost = want
	runtest.Check(t, b.client.Update(t.Context(), &inst))
	b.after(time.Second)
	if diff := cmp.Diff(want, b.request().Status.Cost); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	b.carriedOut(nodeReady)
	inst = b.instructions()[0]
	inst.Spec.Release = true
	runtest.Check(t, b.client.Update(t.Context(), &inst))
	if _, err := b.broker.ReleaseReservation(t.Context(), uid, ""); err != nil {
		t.Fatal(err)
	}
	b.after(time.Minute)
	b.takenDown()
	b.after(time.Second)
	if diff := cmp.Diff(want, b.request().Status.Cost); diff != "" {
		t.Errorf("once it is over (-want +got):\n%s", diff)
	}
}
