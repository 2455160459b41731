package ledger

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

func TestThreeReservationsOnOneProvider(t *testing.T) {
	b := newBook(t, offer(paris, cpu(8950)))

	b.applyAll(reserve("three-cores", paris, cpu(3000)))
	b.wantAvailable(paris, cpu(5950))
	b.applyAll(reserve("five-cores", paris, cpu(5000)))
	b.wantAvailable(paris, cpu(950))

	two := reserve("two-cores", paris, cpu(2000))
	if _, err := b.Check(&two); !errors.Is(err, ErrOverbooked) {
		t.Fatalf("two cores of 950m: %v, want %v", err, ErrOverbooked)
	}
	b.wantAvailable(paris, cpu(950))

	b.applyAll(reserve("exact", paris, cpu(950)))
	b.wantAvailable(paris, cpu(0))

	b.applyAll(end("five-cores", EndReleased))
	b.wantAvailable(paris, cpu(0))
	b.applyAll(providerGone("five-cores", 1))
	b.wantAvailable(paris, cpu(5000))
}

// TestAvailable checks how much of 8 cores paris can still grant after a sequence of events.
func TestAvailable(t *testing.T) {
	own := offer(paris, cpu(8000))
	own.Change.(*Offer).Allocated = cpu(2500)
	using := func(millicores int64) Event {
		return offerUsing(paris, cpu(8000), map[string]quantity.Amounts{"r-1": cpu(millicores)})
	}
	held := reserve("r", paris, cpu(3000))

	cases := map[string]struct {
		events []Event
		want   int64
	}{
		"the cluster's own pods are taken off":               {[]Event{own}, 5500},
		"a hold is taken off":                                {[]Event{held}, 5000},
		"a hold in use is taken off once":                    {[]Event{held, using(2000)}, 5000},
		"use above the hold is taken off":                    {[]Event{held, using(3500)}, 4500},
		"use that falls leaves the hold":                     {[]Event{held, using(3500), using(0)}, 5000},
		"use without a hold is taken off":                    {[]Event{using(2000)}, 6000},
		"a hold for what already runs counts the larger":     {[]Event{using(2000), held}, 5000},
		"a hold below what already runs counts the use":      {[]Event{using(3500), held}, 4500},
		"an end frees nothing":                               {[]Event{held, end("r", EndReleased)}, 5000},
		"the consumer's word frees nothing":                  {[]Event{held, end("r", EndReleased), consumerGone("r", 1)}, 5000},
		"the provider's word frees":                          {[]Event{held, end("r", EndReleased), providerGone("r", 1)}, 8000},
		"the provider's word frees once":                     {[]Event{held, end("r", EndReleased), providerGone("r", 1), providerGone("r", 1)}, 8000},
		"what still runs after it stays taken off":           {[]Event{held, using(1000), end("r", EndReleased), providerGone("r", 1)}, 7000},
		"what ran above the hold stays taken off":            {[]Event{held, using(3500), end("r", EndReleased), providerGone("r", 1)}, 4500},
		"it is free with the next offer":                     {[]Event{held, using(1000), end("r", EndReleased), providerGone("r", 1), using(0)}, 8000},
		"a withdrawal frees nothing":                         {[]Event{held, withdraw("r", 1)}, 5000},
		"a move to another provider frees nothing":           {[]Event{held, withdraw("r", 1), move("r", berlin)}, 5000},
		"a move to the same provider holds twice":            {[]Event{held, withdraw("r", 1), move("r", paris)}, 2000},
		"both are held until the provider left the old one":  {[]Event{held, withdraw("r", 1), move("r", paris), providerGone("r", 1)}, 5000},
		"an offer below what is held leaves nothing":         {[]Event{held, offer(paris, cpu(1000))}, 0},
		"an offer that rises again leaves what is not held":  {[]Event{held, offer(paris, cpu(1000)), offer(paris, cpu(4000))}, 1000},
		"a hold survives an offer of nothing":                {[]Event{held, offer(paris, nil), offer(paris, cpu(8000))}, 5000},
		"own pods that ate the hold leave nothing":           {[]Event{held, own, reserve("s", paris, cpu(2500)), offer(paris, cpu(5000))}, 0},
		"forgetting changes nothing that is held by another": {[]Event{held, end("r", EndReleased), providerGone("r", 1), consumerGone("r", 1), reserve("s", paris, cpu(1)), forget("r")}, 7999},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBook(t, offer(rome, nil), offer(berlin, cpu(8000)), offer(paris, cpu(8000)))
			b.applyAll(tc.events...)
			b.wantAvailable(paris, cpu(tc.want))
		})
	}
}

func TestProviderWithoutAgent(t *testing.T) {
	before := []Event{offer(rome, nil), handWritten(oslo, cpu(4000)), reserve("r", oslo, cpu(3000))}
	cases := map[string]struct {
		events []Event
		want   int64
	}{
		"holds while the reservation stands":                           {nil, 1000},
		"gives back with the end":                                      {[]Event{end("r", EndReleased)}, 4000},
		"gives back with the withdrawal":                               {[]Event{withdraw("r", 1)}, 4000},
		"gives back once":                                              {[]Event{withdraw("r", 1), end("r", EndFailed), providerGone("r", 1)}, 4000},
		"waits for the agent that enrolled meanwhile":                  {[]Event{offer(oslo, cpu(4000)), end("r", EndReleased)}, 1000},
		"gives back by the word of that agent":                         {[]Event{offer(oslo, cpu(4000)), end("r", EndReleased), providerGone("r", 1)}, 4000},
		"has an agent for ever, even if the next offer is by hand":     {[]Event{offer(oslo, cpu(4000)), handWritten(oslo, cpu(4000)), end("r", EndReleased)}, 1000},
		"gave back before the agent came, and the agent finds it free": {[]Event{end("r", EndReleased), offer(oslo, cpu(4000))}, 4000},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBook(t, before...)
			b.applyAll(tc.events...)
			b.wantAvailable(oslo, cpu(tc.want))
		})
	}
}

func TestMoveKeepsTheReservation(t *testing.T) {
	explanation := Explain([]brokerv1alpha1.Candidate{{ClusterID: berlin, Score: "71.20"}}, nil)
	b := newBook(t, offer(rome, nil), offer(paris, cpu(8000)), offer(berlin, cpu(8000)),
		reserve("r", paris, cpu(1000)), acknowledge("r", 1), nodeReady("r", 1, true), withdraw("r", 1))
	b.applyAll(Event{Change: &Move{Name: "r", Provider: berlin, Explanation: explanation}})

	want := &Reservation{
		Reserve: *reserve("r", berlin, cpu(1000)).Change.(*Reserve), CreatedAt: instantOf(timeOf(3)), Changed: 8,
		Placements: []Placement{
			{Number: 1, Provider: paris, AssignedAt: instantOf(timeOf(3)), AcknowledgedAt: instantOf(timeOf(4)), EverReady: true, Withdrawn: "Unacknowledged", WithdrawnAt: instantOf(timeOf(6))},
			{Number: 2, Provider: berlin, AssignedAt: instantOf(timeOf(7))},
		},
	}
	want.Explanation = explanation
	if diff := cmp.Diff(want, b.Reservation("r")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if held := b.Cluster(paris).Held(); !held.Equal(cpu(1000)) || b.Cluster(paris).Placements() != 1 {
		t.Errorf("paris holds %v for %d placements, want the old placement to be held until paris left it", held, b.Cluster(paris).Placements())
	}
}

func TestKeys(t *testing.T) {
	type key struct {
		Name string
		Shut bool
	}
	b := newBook(t, offer(rome, nil), handWritten(oslo, cpu(4000)), reserve("r", oslo, cpu(1)), shut(rome, "b"), shut("athens", "a"), shut(rome, "a"))
	wantKey := func(when, requester, name string, want key) {
		t.Helper()
		r, isClosed := b.ByKey(requester, name)
		got := key{Shut: isClosed}
		if r != nil {
			got.Name = r.Name
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s, key %q of %q (-want +got):\n%s", when, name, requester, diff)
		}
	}

	wantKey("reserved", rome, "key-r", key{Name: "r"})
	wantKey("reserved", "athens", "key-r", key{})
	wantKey("shut", rome, "a", key{Shut: true})
	wantKey("never seen", rome, "c", key{})

	shutAt := map[CloseKey]time.Time{}
	b.ClosedKeys(func(k CloseKey, at time.Time) { shutAt[k] = at })
	if diff := cmp.Diff(map[CloseKey]time.Time{{rome, "b"}: timeOf(3), {"athens", "a"}: timeOf(4), {rome, "a"}: timeOf(5)}, shutAt); diff != "" {
		t.Errorf("shut keys (-want +got):\n%s", diff)
	}

	b.applyAll(Event{Change: &Forget{Keys: []CloseKey{{rome, "a"}, {rome, "key-r"}, {rome, "never"}}}})
	wantKey("forgotten", rome, "a", key{})
	wantKey("forgotten in vain, for it has a reservation", rome, "key-r", key{Name: "r"})

	b.applyAll(end("r", EndReleased), consumerGone("r", 1))
	wantKey("over", rome, "key-r", key{Name: "r"})
	b.applyAll(forget("r"))
	wantKey("forgotten with its reservation", rome, "key-r", key{})
	if b.Reservation("r") != nil {
		t.Error("the reservation that was forgotten is still in the book")
	}
}

func TestChangedIsThePositionOfTheLastEventThatTouchedIt(t *testing.T) {
	b := newBook(t, offer(rome, nil), offer(paris, cpu(8000)), offer(berlin, cpu(8000)), reserve("r", paris, cpu(1)), reserve("other", paris, cpu(1)))
	for _, e := range []Event{
		acknowledge("r", 1), nodeReady("r", 1, true), renew("r", timeOf(50)), withdraw("r", 1), move("r", berlin),
		providerGone("r", 1), consumerGone("r", 1), end("r", EndExpired), providerGone("r", 2), consumerGone("r", 2),
	} {
		b.applyAll(e)
		if got := b.Reservation("r").Changed; got != b.Position() {
			t.Errorf("changed at %d after the event at %d: %+v", got, b.Position(), e)
		}
	}
	if got := b.Reservation("other").Changed; got != 5 {
		t.Errorf("a reservation that nothing touched changed at %d, want 5", got)
	}
}
