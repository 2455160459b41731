//go:build clusters

package clusters

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// load creates one Reservation after the other, waits until capacity is reserved, and deletes it. The requester is
// not a cluster, so no cluster peers.
type load struct {
	env  *Environment
	stop context.CancelFunc
	done chan struct{}

	// These fields are valid once done is closed: the number of Reservations, the number of retried writes, the
	// longest duration, and the error.
	made, refused int
	slowest       time.Duration
	err           error
}

// loadWithin is how long a Reservation may take while a new leader takes over.
const loadWithin = time.Minute

// startLoad starts the load; it stops at the end of the test at the latest.
func startLoad(t *testing.T, env *Environment) *load {
	t.Helper()
	l := &load{env: env, done: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	l.stop = cancel
	go func() {
		defer close(l.done)
		for l.err == nil && ctx.Err() == nil {
			l.err = l.reserveOnce(context.WithoutCancel(ctx))
		}
	}()
	return l
}

func (l *load) reserveOnce(ctx context.Context) error {
	began := time.Now()
	r := &brokerv1alpha1.Reservation{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("load-%d", l.made)},
		Spec: brokerv1alpha1.ReservationSpec{
			RequestedResources: brokerv1alpha1.RequestedResources{
				corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("8Mi"),
			},
			RequesterID: "load", Duration: &metav1.Duration{Duration: 10 * time.Minute},
		},
	}
	for {
		err := l.env.Broker.Create(ctx, r)
		if err == nil {
			break
		}
		// While a webhook is replaced, kubectl fails and its user retries.
		if !apierrors.IsInternalError(err) || time.Since(began) > loadWithin {
			return err
		}
		l.refused++
	}
	if err := l.env.AwaitReservation(ctx, r, loadWithin, brokerv1alpha1.ReservationReserved); err != nil {
		return err
	}
	l.slowest = max(l.slowest, time.Since(began))
	l.made++
	return l.env.Broker.DeleteAndWait(ctx, r, loadWithin)
}

// end stops the load, and waits for its last Reservation. It fails the test if a Reservation failed, or if one is left.
func (l *load) end(t *testing.T) {
	t.Helper()
	l.stop()
	<-l.done
	check(t, l.err)
	t.Logf("%d Reservations meanwhile, the slowest locked after %.1f s; %d could not be written at once", l.made, l.slowest.Seconds(), l.refused)
	check(t, l.env.AwaitHeld(t.Context(), "load", 0, loadWithin))
}
