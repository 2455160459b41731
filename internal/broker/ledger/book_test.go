package ledger

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

const gpu corev1.ResourceName = "nvidia.com/gpu"

// Clusters of the tests: rome requests, paris and berlin lend, and oslo has a hand-written
// offer.
const (
	rome   = "rome"
	paris  = "paris"
	berlin = "berlin"
	oslo   = "oslo"
)

// begin is the time of the first event of a book; each further event is one second later.
var begin = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

func timeOf(n int) time.Time { return begin.Add(time.Duration(n) * time.Second) }

// book is a State whose events follow each other without gaps. Failures end the test.
type book struct {
	testing.TB
	*State
}

func newBook(t testing.TB, events ...Event) book {
	b := book{t, New()}
	b.applyAll(events...)
	return b
}

func (b book) applyAll(events ...Event) {
	b.Helper()
	for _, e := range events {
		e.At = timeOf(int(b.Position()))
		runtest.Check(b, b.Apply(b.Position()+1, &e))
	}
}

func (b book) encodeSnapshot() string {
	b.Helper()
	return snapshotOf(b, b.State)
}

func snapshotOf(t testing.TB, s *State) string {
	t.Helper()
	raw, err := s.Freeze().Bytes()
	runtest.Check(t, err)
	return string(raw)
}

func (b book) wantAvailable(cluster string, want quantity.Amounts) {
	b.Helper()
	if got := b.Cluster(cluster).Available(); !got.Equal(want) {
		b.Errorf("available in %s (-want +got):\n%s", cluster, cmp.Diff(want, got))
	}
}

func cpu(millicores int64) quantity.Amounts { return quantity.Amounts{corev1.ResourceCPU: millicores} }

func offer(cluster string, allocatable quantity.Amounts) Event {
	return Event{Change: &Offer{ClusterID: cluster, Agent: true, Capacity: allocatable, Allocatable: allocatable}}
}

func handWritten(cluster string, allocatable quantity.Amounts) Event {
	e := offer(cluster, allocatable)
	e.Change.(*Offer).Agent = false
	return e
}

// offerUsing returns an offer of an agent that reports the usage of its placements.
func offerUsing(cluster string, allocatable quantity.Amounts, used map[string]quantity.Amounts) Event {
	e := offer(cluster, allocatable)
	e.Change.(*Offer).Used = used
	return e
}

// reserve returns a reservation of rome for an hour, with the key "key-" plus the name.
func reserve(name, provider string, amounts quantity.Amounts) Event {
	return Event{Change: &Reserve{
		Name: name, Digest: "digest", Request: Request{Key: "key-" + name, Requester: rome, Amounts: amounts},
		Until: begin.Add(time.Hour), Provider: provider,
	}}
}

func reserveFor(requester, name, provider string, amounts quantity.Amounts) Event {
	e := reserve(name, provider, amounts)
	e.Change.(*Reserve).Requester = requester
	return e
}

// priced sets the price of a Reserve, HoldQuote or TakeQuote.
func priced(e Event, p *Price) Event {
	switch change := e.Change.(type) {
	case *Reserve:
		change.Price = p
	case *HoldQuote:
		change.Price = p
	case *TakeQuote:
		change.Price = p
	}
	return e
}

func move(name, provider string) Event { return Event{Change: &Move{Name: name, Provider: provider}} }

func refTo(name string, placement int32) PlacementRef {
	return PlacementRef{Name: name, Placement: placement}
}

func acknowledge(name string, placement int32) Event {
	ref := refTo(name, placement)
	return Event{Change: &Acknowledge{PlacementRef: ref}}
}

func nodeReady(name string, placement int32, ready bool) Event {
	return Event{Change: &NodeReady{PlacementRef: refTo(name, placement), Ready: ready}}
}

func withdraw(name string, placement int32) Event {
	return Event{Change: &Withdraw{PlacementRef: refTo(name, placement), Reason: "Unacknowledged"}}
}

func providerGone(name string, placement int32) Event {
	ref := refTo(name, placement)
	return Event{Change: &ProviderGone{PlacementRef: ref}}
}

func consumerGone(name string, placement int32) Event {
	ref := refTo(name, placement)
	return Event{Change: &ConsumerGone{PlacementRef: ref}}
}

func end(name string, reason EndReason) Event { return Event{Change: &End{Name: name, Reason: reason}} }

func renew(name string, until time.Time) Event {
	return Event{Change: &Renew{Name: name, Until: until}}
}

func shut(requester, key string) Event {
	return Event{Change: &CloseKey{Requester: requester, Key: key}}
}

func forget(names ...string) Event { return Event{Change: &Forget{Names: names}} }
