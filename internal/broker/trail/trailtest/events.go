// Package trailtest writes journals for tests.
package trailtest

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// Start is the time of the first event of Events.
var Start = time.Date(2030, 1, 1, 8, 0, 0, 0, time.UTC)

// Events returns the life of reservation res-a, with one event per minute: rome and paris join,
// alice of rome reserves capacity on paris, and the reservation expires.
func Events() []ledger.Event {
	cores := func(n int64) quantity.Amounts { return quantity.Amounts{corev1.ResourceCPU: n * 1000} }
	offer := func(id string) *ledger.Offer {
		return &ledger.Offer{ClusterID: id, Agent: true, Capacity: cores(8), Allocatable: cores(8)}
	}
	ref := ledger.PlacementRef{Name: "res-a", Placement: 1}
	out := []ledger.Event{
		{Change: offer("rome")},
		{Change: offer("paris")},
		{By: "rome:alice", Change: &ledger.Reserve{
			Name: "res-a", Request: ledger.Request{Requester: "rome", Key: "key-a", Amounts: cores(2)}, Provider: "paris", Until: Start.Add(time.Hour),
			Explanation: ledger.Explain([]brokerv1alpha1.Candidate{
				{ClusterID: "paris", Score: "60.00"}, {ClusterID: "oslo", Reason: "Stale"},
			}, map[string]int32{"Stale": 1}),
		}},
		{Change: &ledger.Acknowledge{PlacementRef: ref}},
		{Change: &ledger.NodeReady{PlacementRef: ref, Ready: true}},
		{By: ledger.Deadlines, Change: &ledger.End{Name: "res-a", Reason: ledger.EndExpired}},
		{Change: &ledger.ConsumerGone{PlacementRef: ref}},
		{Change: &ledger.ProviderGone{PlacementRef: ref}},
	}
	for i := range out {
		out[i].At = Start.Add(time.Duration(i) * time.Minute)
	}
	return out
}

// Write appends events to a journal, which it creates if there is none.
func Write(t *testing.T, store journal.Store, name string, events []ledger.Event) {
	t.Helper()
	j, _, err := journal.Open(t.Context(), store, name, journal.Options{})
	runtest.Check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- j.Run(ctx) }()
	defer func() {
		cancel()
		<-done //nolint:errcheck // it ends with the context
	}()
	for i := range events {
		data, err := events[i].MarshalJSON()
		runtest.Check(t, err)
		runtest.Check(t, j.Append(data).Wait(t.Context()))
	}
}
