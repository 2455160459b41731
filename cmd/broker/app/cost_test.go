package app

import (
	"testing"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

func TestReservationShowsItsLockedPrice(t *testing.T) {
	b := newBench(t)
	b.apply(localCluster + "  cost: {cpuCost: \"0.05\", memoryCost: \"0.01\", currency: EUR}\n")
	b.awaitAvailable("local-cluster-adv", "8950m", "7597392Ki")
	b.apply(reservationText("priced", "2", "4Gi", "  duration: 1h"))
	r := b.awaitPhase("priced", brokerv1alpha1.ReservationReserved)
	if c := r.Status.Cost; c == nil || c.PerHour != "0.14" || c.ToEnd != "0.14" || c.SoFar != "0" || c.Currency != "EUR" || c.AsOf == nil || !c.AsOf.Equal(r.Status.ReservedAt) {
		t.Errorf("2 cores at 0.05 and 4 GiB at 0.01 for an hour from %v on cost %+v", r.Status.ReservedAt, c)
	}
	b.broker.Kill()
	if err := b.broker.Start(); err != nil {
		t.Fatal(err)
	}
	before := r.DeepCopy()
	r.Spec.Release = true
	if err := b.Update(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	r = b.awaitPhase("priced", brokerv1alpha1.ReservationReleased)
	if c := r.Status.Cost; c == nil || c.PerHour != "" || c.ToEnd != "" || c.Currency != "EUR" || c.AsOf.Before(before.Status.ReservedAt) {
		t.Errorf("released, it shows %+v", c)
	}
}
