//go:build clusters

package clusters

import (
	"bytes"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

func TestStory(t *testing.T) {
	env := clustersOf(t)
	check(t, env.OfferGPUs(t.Context(), "paris", 2))
	samples, err := e2e.ShippedSamples()
	check(t, err)
	// The sample with a GPU needs more processors than a small machine has.
	samples.GPURequest = bytes.Replace(samples.GPURequest, []byte(`cpu: "2"`), []byte("cpu: 100m"), 1)
	figures, err := e2e.Story(t.Context(), env.Environment, samples, t.Output())
	check(t, err)
	t.Log(figures)
}

func TestReservationEndsWithoutAffectingItsSibling(t *testing.T) {
	env := clustersOf(t)
	rome := env.Member("rome")
	first, second := readyRequest(t, env, "first"), readyRequest(t, env, "second")
	_, err := env.Run(t.Context(), rome, first)
	check(t, err)
	stays, err := env.Run(t.Context(), rome, second)
	check(t, err)

	check(t, rome.DeleteAndWait(t.Context(), first, readyWithin))
	check(t, rome.AwaitNodeGone(t.Context(), first.Status.NodeName, readyWithin))
	check(t, env.AwaitHeld(t.Context(), "rome", 1, readyWithin))

	check(t, stays.Unchanged(t.Context()))
	check(t, rome.AwaitReady(t.Context(), second, time.Second))
}

// TestReservationCreatedInTheBrokersCluster applies a Reservation in the broker's cluster, and its
// requester peers.
func TestReservationCreatedInTheBrokersCluster(t *testing.T) {
	env := clustersOf(t)
	r := &brokerv1alpha1.Reservation{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "by-hand"},
		Spec: brokerv1alpha1.ReservationSpec{
			RequestedResources: brokerv1alpha1.RequestedResources(small()), RequesterID: "rome",
			Duration: &metav1.Duration{Duration: 10 * time.Minute},
		},
	}
	check(t, env.Broker.Create(t.Context(), r))
	check(t, env.AwaitReservation(t.Context(), r, readyWithin, brokerv1alpha1.ReservationActive))
	if r.Status.TargetClusterID != "paris" {
		t.Errorf("on %s, want paris", r.Status.TargetClusterID)
	}
	check(t, env.Broker.DeleteAndWait(t.Context(), r, readyWithin))
}
