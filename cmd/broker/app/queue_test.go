package app

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// patch merges text into the spec of an object.
func (b *bench) patch(obj client.Object, text string) {
	b.t.Helper()
	if err := b.Patch(b.t.Context(), obj, client.RawPatch("application/merge-patch+json", []byte(`{"spec":`+text+`}`))); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) delete(name string) {
	b.t.Helper()
	r := &brokerv1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if err := b.Delete(b.t.Context(), r); err != nil {
		b.t.Fatal(err)
	}
}

// awaitPlace waits until a Reservation has this place and reason in the queue.
func (b *bench) awaitPlace(name string, position int32, reason string) *brokerv1alpha1.Reservation {
	b.t.Helper()
	return await(b, name, &brokerv1alpha1.Reservation{}, func(r *brokerv1alpha1.Reservation) string {
		if q := r.Status.Queue; r.Status.Phase == brokerv1alpha1.ReservationQueued && q != nil && q.Position == position && q.Reason == reason {
			return ""
		}
		return fmt.Sprintf("place %d because of %s, it is %s with %+v", position, reason, r.Status.Phase, r.Status.Queue)
	})
}

func (b *bench) awaitPreempted(name string, status metav1.ConditionStatus, reason string) {
	b.t.Helper()
	await(b, name, &brokerv1alpha1.Reservation{}, func(r *brokerv1alpha1.Reservation) string {
		c := meta.FindStatusCondition(r.Status.Conditions, brokerv1alpha1.ConditionPreempted)
		if c != nil && c.Status == status && c.Reason == reason {
			return ""
		}
		return fmt.Sprintf("Preempted %s because of %s, it is %+v", status, reason, c)
	})
}

// awaitApplied waits until the broker follows the BrokerConfig.
func (b *bench) awaitApplied(config *brokerv1alpha1.BrokerConfig) {
	b.t.Helper()
	await(b, config.Name, config, func(c *brokerv1alpha1.BrokerConfig) string {
		if c.Status.ObservedGeneration == c.Generation {
			return ""
		}
		return "the configuration"
	})
}

// TestReservationsWait queues reservations on a real API server. It covers what a user sees and can
// do while they wait.
func TestReservationsWait(t *testing.T) {
	b := newBench(t)
	b.apply(`
apiVersion: broker.fluidos.eu/v1alpha1
kind: ClusterAdvertisement
metadata: {name: paris}
spec: {clusterID: paris, resources: {capacity: {cpu: "4", memory: 8Gi}}}
`)
	b.awaitAvailable("paris", "4", "8Gi")
	b.apply(reservationText("holder", "4", "1Gi", ""))
	b.awaitPhase("holder", brokerv1alpha1.ReservationReserved)

	b.apply(reservationText("first", "4", "1Gi", "  queuePolicy: Queue\n  duration: 1h"))
	r := b.awaitPlace("first", 1, "NoCandidate")
	if q := r.Status.Queue; q.Until.Sub(q.Since.Time) != time.Hour || r.Status.ReservedAt != nil || r.Status.ExpiresAt != nil || r.Status.TargetClusterID != "" {
		t.Errorf("status %+v", r.Status)
	}
	if c := meta.FindStatusCondition(r.Status.Conditions, brokerv1alpha1.ConditionReserved); c == nil || c.Status != metav1.ConditionFalse || c.Reason != brokerv1alpha1.ReasonQueued {
		t.Errorf("Reserved is %+v", c)
	}
	if len(r.Status.Candidates) != 1 || !strings.Contains(r.Status.Message, "place 1 of 1") || !strings.Contains(r.Status.Message, "paris: ") {
		t.Errorf("candidates %+v, message %q", r.Status.Candidates, r.Status.Message)
	}
	b.awaitEvent(brokerv1alpha1.ReasonQueued, "waits for capacity")
	b.apply(reservationText("second", "4", "1Gi", "  queuePolicy: Queue\n  priority: 10"))
	b.awaitPlace("second", 1, "NoCandidate") // the status of the first shows its new place within a minute

	t.Run("a reservation fails with the reason after its queue timeout", func(t *testing.T) {
		b.apply(reservationText("brief", "2", "1Gi", "  queuePolicy: Queue\n  queueTimeout: 1s"))
		r := b.awaitPhase("brief", brokerv1alpha1.ReservationFailed)
		if !strings.Contains(r.Status.Message, "it waited 1s in the queue") || r.Status.Queue != nil {
			t.Errorf("%q, %+v", r.Status.Message, r.Status.Queue)
		}
		b.awaitEvent("Failed", "it waited 1s in the queue")
	})

	t.Run("a waiting reservation can be changed and released", func(t *testing.T) {
		b.patch(r, `{"duration":"2h"}`)
		await(b, "first", &brokerv1alpha1.Reservation{}, func(r *brokerv1alpha1.Reservation) string {
			if meta.IsStatusConditionTrue(r.Status.Conditions, brokerv1alpha1.ConditionChanged) && r.Status.Phase == brokerv1alpha1.ReservationQueued {
				return ""
			}
			return fmt.Sprintf("the change, it is %s with %+v", r.Status.Phase, r.Status.Conditions)
		})
		second := &brokerv1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "second"}}
		b.patch(second, `{"release":true}`)
		b.awaitPhase("second", brokerv1alpha1.ReservationReleased)
	})

	t.Run("a restart keeps the place in the queue", func(t *testing.T) {
		b.broker.Kill()
		if err := b.broker.Start(); err != nil {
			t.Fatal(err)
		}
		b.apply(reservationText("third", "4", "1Gi", "  queuePolicy: Queue"))
		b.awaitPlace("third", 2, "NoCandidate")
		b.awaitPlace("first", 1, "NoCandidate")
	})

	t.Run("released capacity serves the first in the queue", func(t *testing.T) {
		b.delete("holder")
		r := b.awaitPhase("first", brokerv1alpha1.ReservationReserved)
		if r.Status.TargetClusterID != "paris" || r.Status.Queue != nil || r.Status.ExpiresAt.Sub(r.Status.ReservedAt.Time) != 2*time.Hour {
			t.Errorf("status %+v", r.Status)
		}
		b.awaitEvent(brokerv1alpha1.ReasonReserved, "capacity of paris is locked")
		b.awaitPhase("third", brokerv1alpha1.ReservationQueued)
	})

	t.Run("a higher priority takes a place after its notice", func(t *testing.T) {
		config := &brokerv1alpha1.BrokerConfig{}
		config.Name = "default"
		// The notice lasts until the test has seen it.
		config.Spec.Preemption = &brokerv1alpha1.PreemptionConfig{Policy: brokerv1alpha1.PreemptLowerPriority, GracePeriod: &metav1.Duration{Duration: time.Hour}}
		if err := b.Create(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		b.awaitApplied(config)
		b.patch(&brokerv1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "third"}}, `{"release":true}`)
		b.awaitPhase("third", brokerv1alpha1.ReservationReleased)
		b.apply(reservationText("noticed", "4", "1Gi", "  queuePolicy: Queue\n  priority: 100"))
		b.awaitPlace("noticed", 1, "Preempting")
		b.awaitPreempted("first", metav1.ConditionTrue, brokerv1alpha1.ReasonNotice)
		b.awaitEvent(brokerv1alpha1.ReasonNotice, "a request of priority 100 needs the capacity of this reservation, of priority 0, on paris")
		b.delete("noticed")
		b.awaitPreempted("first", metav1.ConditionFalse, brokerv1alpha1.ReasonNoticeWithdrawn)

		b.patch(config, `{"preemption":{"gracePeriod":"1s"}}`)
		b.awaitApplied(config)
		b.apply(reservationText("urgent", "4", "1Gi", "  queuePolicy: Queue\n  priority: 100"))
		b.awaitPhase("urgent", brokerv1alpha1.ReservationReserved)
		b.awaitPlace("first", 1, "Preempted")
		b.awaitPreempted("first", metav1.ConditionTrue, brokerv1alpha1.ReasonPreempted)
		b.delete("urgent")
		b.awaitPhase("first", brokerv1alpha1.ReservationReserved)
		b.awaitPreempted("first", metav1.ConditionFalse, brokerv1alpha1.ReasonReserved)
	})
}
