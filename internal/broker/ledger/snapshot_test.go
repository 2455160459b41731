package ledger

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// everyKindOfEvent returns a sequence of events of the common kinds. Some set nearly all of their
// fields.
func everyKindOfEvent() []Event {
	explanation := Explain([]brokerv1alpha1.Candidate{
		{ClusterID: paris, Score: "80.00", Criteria: map[string]string{"cost": "50"}}, {ClusterID: berlin, Reason: "TooSmall", Message: "cpu"},
	}, map[string]int32{"TooSmall": 1})
	full := Event{Change: &Offer{
		ClusterID: paris, ClusterName: "Paris", Endpoint: "https://paris:6443", Region: "eu", Zone: "a", Agent: true,
		Capacity: cpu(9000), Allocatable: quantity.Amounts{"cpu": 8000, gpu: 2}, Allocated: cpu(500),
		Used:             map[string]quantity.Amounts{"r-1": cpu(250), "left-over-1": cpu(125)},
		OverSubscription: quantity.Ratios{"cpu": 150},
		Shapes:           []quantity.NodeShape{{Count: 2, Free: cpu(3750)}},
		Cost:             &brokerv1alpha1.Cost{CPUCost: "0.01", MemoryCost: "0.002", ResourceCosts: map[corev1.ResourceName]brokerv1alpha1.Price{gpu: "1.5"}, StorageCost: "0.2", EgressCost: "0.2", Currency: "EUR"},
	}}
	byHand := handWritten(oslo, cpu(4000))
	byHand.Change.(*Offer).Source = &Manifest{ObjectRef: ObjectRef{Namespace: "default", Name: "oslo", UID: "1"}, Digest: "sha256"}
	perCore := &Price{Currency: "EUR", Rates: map[corev1.ResourceName]money.Price{"cpu": money.Unit / 100}}
	granted := Event{Change: &Reserve{
		Name: "r", Digest: "sha256", Until: begin.Add(time.Hour), Provider: paris, Explanation: explanation,
		Price: &Price{Currency: "EUR", Rates: map[corev1.ResourceName]money.Price{"cpu": money.Unit / 100, "storage": money.Unit / 5}, Once: money.Unit,
			Dearest: &Price{Currency: "EUR", Rates: map[corev1.ResourceName]money.Price{"cpu": money.Unit, "storage": 0}, Once: 2 * money.Unit}},
		Request: Request{
			Key: "key", Requester: rome, Tenant: "blue", Priority: 7, Amounts: cpu(3000), Target: paris, Duration: time.Hour,
			Object:       &ObjectRef{Namespace: "default", Name: "wish", UID: "2"},
			Requirements: &brokerv1alpha1.Requirements{Group: "web", Data: &brokerv1alpha1.DataVolume{Volume: quantity.ToQuantity("storage", 5<<30), Region: "us"}},
		},
	}}
	moved := Event{Change: &Move{Name: "r", Provider: oslo, Explanation: explanation}}
	held := keep("q", paris, cpu(500))
	held.Change.(*HoldQuote).PriceTotal, held.Change.(*HoldQuote).RatesDate, held.Change.(*HoldQuote).Explanation = "1.5", "2026-03-01", explanation
	held.Change.(*HoldQuote).Price = perCore
	lost, taken := priced(reserve("s", paris, cpu(1)), perCore), priced(take("t", "taken", paris, cpu(250)), perCore)
	ended := Event{Change: &End{Name: "s", Reason: EndFailed, Message: "no provider is left"}}
	return []Event{
		{Change: &Configure{Difference: []byte(`{"a":{"b":1},"c":null}`), Ceilings: Ceilings{OverSubscription: quantity.Ratios{"cpu": 120, "memory": 200}}}},
		offer(rome, nil), full, byHand, granted, acknowledge("r", 1), nodeReady("r", 1, true), renew("r", begin.Add(2*time.Hour)),
		withdraw("r", 1), moved, providerGone("r", 1), consumerGone("r", 1), lost, ended,
		reserve("over", oslo, cpu(1)), end("over", EndReleased), consumerGone("over", 1), shut(rome, "closed"), shut(rome, "old"),
		{Change: &Forget{Names: []string{"over"}, Keys: []CloseKey{{rome, "old"}}}},
		held, priced(keep("taken", paris, cpu(250)), perCore), taken, keep("expired", oslo, cpu(1)), letGo("expired", HoldExpired),
	}
}

func TestSnapshotRestoresEverything(t *testing.T) {
	b := newBook(t, everyKindOfEvent()...)
	restored, err := Restore([]byte(b.encodeSnapshot()))
	runtest.Check(t, err)
	if diff := cmp.Diff(b.State, restored, cmp.AllowUnexported(State{}, Cluster{}, ClusterState{}, keyRef{}, clusters{}, objectName{}, Lineages{}, Quotes{})); diff != "" {
		t.Errorf("(-original +restored):\n%s", diff)
	}
	if diff := cmp.Diff(b.encodeSnapshot(), snapshotOf(t, restored)); diff != "" {
		t.Errorf("snapshot (-original +restored):\n%s", diff)
	}
}

func TestEventsSurviveTheJournal(t *testing.T) {
	b := newBook(t, everyKindOfEvent()...)
	again := newBook(t)
	for _, e := range everyKindOfEvent() {
		raw, err := json.Marshal(e)
		runtest.Check(t, err)
		var read Event
		runtest.Check(t, json.Unmarshal(raw, &read))
		if diff := cmp.Diff(e, read); diff != "" {
			t.Errorf("(-written +read):\n%s", diff)
		}
		again.applyAll(read)
	}
	if diff := cmp.Diff(b.encodeSnapshot(), again.encodeSnapshot()); diff != "" {
		t.Errorf("book (-applied +read and applied):\n%s", diff)
	}
}

func TestEmptyBookIsRestored(t *testing.T) {
	restored, err := Restore([]byte(newBook(t).encodeSnapshot()))
	runtest.Check(t, err)
	book{t, restored}.applyAll(offer(paris, cpu(1)), reserve("r", paris, cpu(1)))
}

func TestRestoreRefuses(t *testing.T) {
	const (
		clusters = `"clusters":[{"clusterID":"paris"}]`
		placed   = `"Placements":[{"Number":1,"Provider":"paris"}]`
	)
	cases := map[string]struct {
		snapshot string
		want     error // nil if any error will do
	}{
		"what is no JSON":              {`{`, nil},
		"a number that is no amount":   {`{"clusters":[{"clusterID":"paris","allocatable":{"cpu":1e99}}]}`, nil},
		"an absent reservation":        {`{"reservations":[null]}`, ErrMalformed},
		"a reservation without name":   {`{` + clusters + `,"reservations":[{` + placed + `}]}`, ErrMalformed},
		"a reservation without holder": {`{` + clusters + `,"reservations":[{"name":"r"}]}`, ErrMalformed},
		"a provider without cluster":   {`{"reservations":[{"name":"r",` + placed + `}]}`, ErrMalformed},
		"a placement out of order":     {`{` + clusters + `,"reservations":[{"name":"r","Placements":[{"Number":2,"Provider":"paris"}]}]}`, ErrMalformed},
		"a name used twice":            {`{` + clusters + `,"reservations":[{"name":"r","key":"a",` + placed + `},{"name":"r","key":"b",` + placed + `}]}`, ErrTaken},
		"a key used twice":             {`{` + clusters + `,"reservations":[{"name":"r","key":"a",` + placed + `},{"name":"s","key":"a",` + placed + `}]}`, ErrTaken},
		"a key of a reservation shut":  {`{` + clusters + `,"reservations":[{"name":"r","key":"a",` + placed + `}],"shut":[{"requester":"","key":"a"}]}`, ErrTaken},
		"a key shut twice":             {`{"shut":[{"requester":"rome","key":"a"},{"requester":"rome","key":"a"}]}`, ErrTaken},
		"a cluster named twice":        {`{"clusters":[{"clusterID":"paris"},{"clusterID":"paris"}]}`, ErrTaken},
		"a price below zero":           {`{` + clusters + `,"reservations":[{"name":"r","key":"a","Placements":[{"Number":1,"Provider":"paris","Price":{"currency":"EUR","rates":{"cpu":"-1"}}}]}]}`, nil},
		"a price in no currency":       {`{` + clusters + `,"reservations":[{"name":"r","key":"a","Placements":[{"Number":1,"Provider":"paris","Price":{"currency":"euro"}}]}]}`, ErrMalformed},
		"a meter on no placement":      {`{` + clusters + `,"reservations":[{"name":"r","key":"a","MeteredPlacement":2,` + placed + `}]}`, ErrMalformed},
		"a cluster below zero":         {`{"clusters":[{"clusterID":"paris","allocatable":{"cpu":-1}}]}`, ErrMalformed},
		"an end at no time":            {`{` + clusters + `,"reservations":[{"name":"r","key":"a","EndReason":"Released",` + placed + `}]}`, ErrMalformed},
		"a hold below zero":            {`{` + clusters + `,"reservations":[{"name":"r","key":"a","amounts":{"cpu":-1},` + placed + `}]}`, ErrMalformed},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Restore([]byte(tc.snapshot))
			if err == nil || tc.want != nil && !errors.Is(err, tc.want) {
				t.Errorf("%v, want %v", err, tc.want)
			}
		})
	}
}

// FuzzRestore checks that the snapshot of a restored book can be restored and encoded to the same
// bytes, and that no event makes a restored book panic.
func FuzzRestore(f *testing.F) {
	b := newBook(f)
	f.Add([]byte(b.encodeSnapshot()))
	for _, e := range everyKindOfEvent() {
		b.applyAll(e)
		f.Add([]byte(b.encodeSnapshot()))
	}
	f.Add([]byte(`{"reservations":[null]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := Restore(raw)
		if err != nil {
			return
		}
		first := snapshotOf(t, s)
		again, err := Restore([]byte(first))
		runtest.Check(t, err)
		if diff := cmp.Diff(first, snapshotOf(t, again)); diff != "" {
			t.Errorf("(-restored +restored again):\n%s", diff)
		}
		for _, r := range s.reservations {
			r.Phase()
			s.Deadline(r, Limits{Acknowledge: time.Second, Ready: time.Second}, nil)
			for _, p := range r.Placements {
				r.Instruction(&p)
				r.PlacementPhase(&p)
			}
		}
		for _, e := range everyKindOfEvent() {
			_ = s.Apply(s.Position()+1, &e) // a restored book may refuse the event
		}
	})
}

// FuzzEvent checks that no decodable event panics, that a refused event changes nothing, and that
// the claims of clusters are right after an accepted one.
func FuzzEvent(f *testing.F) {
	for _, e := range everyKindOfEvent() {
		raw, err := json.Marshal(e)
		runtest.Check(f, err)
		f.Add(raw)
	}
	f.Add([]byte(`{"at":"2026-03-01T12:00:00Z","forget":{"names":["over","over"]}}`))
	f.Add([]byte(`{"at":"2026-03-01T12:00:00Z","withdraw":{"name":"r","placement":2}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var e Event
		if json.Unmarshal(raw, &e) != nil {
			return
		}
		b := newBook(t, everyKindOfEvent()...)
		b.applyAll(reserve("over", oslo, cpu(1)), end("over", EndReleased), consumerGone("over", 1))
		before := b.encodeSnapshot()
		applied := b.Apply(b.Position()+1, &e)
		if applied != nil && b.encodeSnapshot() != before {
			t.Error("an event that was refused changed the book")
		}
		for id, c := range b.clusters.byID {
			if applied == nil && !recountedClaim(c).Equal(c.claimed) {
				t.Errorf("cluster %s claims %v, counted again %v", id, c.claimed, recountedClaim(c))
			}
		}
	})
}

func recountedClaim(c *Cluster) quantity.Amounts {
	again := *c
	again.recountClaimed()
	return again.claimed
}

func TestFrozenViewDoesNotChange(t *testing.T) {
	events := everyKindOfEvent()
	for n := range events {
		b := newBook(t, events[:n]...)
		want, frozen := b.encodeSnapshot(), b.Freeze()
		b.applyAll(events[n:]...)
		got, err := frozen.Bytes()
		runtest.Check(t, err)
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("after %d events (-when frozen +when written):\n%s", n, diff)
		}
	}
}

func TestUnreadableEvents(t *testing.T) {
	const at = `{"at":"2026-03-01T12:00:00Z",`
	cases := map[string]struct{ text, want string }{
		"an event without a time":         {`{"offer":{"clusterID":"paris"}}`, "malformed event: want"},
		"an event without a change":       {at[:len(at)-1] + `}`, "malformed event: want"},
		"an event of an unknown kind":     {at + `"fly":{}}`, `unknown kind of event "fly"`},
		"an event with two changes":       {at + `"shut":{"requester":"rome","key":"k"},"forget":{}}`, `event of kind "shut"`},
		"an event whose change has holes": {at + `"shut":{"requester":}}`, ""},
		"an event of two actors":          {at + `"by":"rome:alice","by":"rome:bob","forget":{}}`, `unknown kind of event "by"`},
		"an event of an actor alone":      {at + `"by":"rome:alice"}`, "the actor of an event has no end"},
		"an event at no time":             {`{"at":"noon","shut":{}}`, "time of an event"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var e Event
			if err := json.Unmarshal([]byte(tc.text), &e); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

// TestEveryEventIsRegistered fails for a type with two kinds, and for a kind with a
// character that JSON escapes.
func TestEveryEventIsRegistered(t *testing.T) {
	if len(kinds) != len(changeTypes) {
		t.Errorf("%d types for %d kinds", len(kinds), len(changeTypes))
	}
	for kind, typ := range changeTypes {
		raw, err := json.Marshal(Event{At: begin, Change: reflect.New(typ.Elem()).Interface().(Change)})
		runtest.Check(t, err)
		var read Event
		if err := json.Unmarshal(raw, &read); err != nil || reflect.TypeOf(read.Change) != typ {
			t.Errorf("kind %q, %s: %v", kind, raw, err)
		}
	}
}

func TestCheckedEventIsAppliedOnlyToTheStateItWasCheckedAt(t *testing.T) {
	b := newBook(t, offer(rome, nil), offer(paris, cpu(1000)))
	first, second := reserve("r", paris, cpu(1000)), reserve("s", paris, cpu(1000))
	checked, err := b.Check(&second)
	runtest.Check(t, err)
	b.applyAll(first)
	defer func() {
		if recover() == nil {
			t.Error("an event was applied that no longer fits")
		}
	}()
	checked.Apply(b.Position() + 1)
}
