package ledger

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func isLost(cluster string) Event {
	return Event{Change: &Silence{ClusterID: cluster, Since: begin}}
}

func isBack(cluster string) Event { return Event{Change: &Silence{ClusterID: cluster}} }

func heal(name, provider string) Event { return Event{Change: &Heal{Name: name, Provider: provider}} }

// calledBack returns the recall of a placement, which ends at begin plus in.
func calledBack(name string, placement int32, in time.Duration) Event {
	return Event{Change: &Recall{PlacementRef: refTo(name, placement), Ends: begin.Add(in)}}
}

func notCalledBack(name string, placement int32) Event {
	return Event{Change: &Recall{PlacementRef: refTo(name, placement)}}
}

// served is the history of r, which paris serves for rome, with a Ready node.
var served = []Event{
	offer(rome, nil), offer(paris, cpu(8000)), offer(berlin, cpu(8000)), handWritten(oslo, cpu(8000)),
	reserve("r", paris, cpu(1000)), acknowledge("r", 1), nodeReady("r", 1, true),
}

func servedAs(change func(*Reserve)) []Event {
	events := append([]Event{}, served...)
	r := *events[4].Change.(*Reserve)
	change(&r)
	events[4].Change = &r
	return events
}

func TestHealing(t *testing.T) {
	cases := map[string]struct {
		before []Event
		events []Event
		want   HealStep
	}{
		"nothing is healed while its provider is heard": {served, nil, HealNothing},
		"a lost provider is left":                       {served, []Event{isLost(paris)}, HealBegin},
		"one that is heard again is not left":           {served, []Event{isLost(paris), isBack(paris)}, HealNothing},
		"a node that is not Ready changes nothing of that": {
			served, []Event{nodeReady("r", 1, false), isLost(paris)}, HealBegin,
		},
		"what was not acknowledged is given up for that alone": {served[:5], []Event{isLost(paris)}, HealNothing},
		"what never was Ready is given up for that alone":      {served[:6], []Event{isLost(paris)}, HealNothing},
		"who wants to wait waits": {
			servedAs(func(r *Reserve) { r.Patient = true }), []Event{isLost(paris)}, HealNothing,
		},
		"who wants one provider waits for it": {
			servedAs(func(r *Reserve) { r.Target = paris }), []Event{isLost(paris)}, HealNothing,
		},
		"what is called back is left": {served, []Event{calledBack("r", 1, time.Minute)}, HealBegin},
		"what is not called back any more stays": {
			served, []Event{calledBack("r", 1, time.Minute), notCalledBack("r", 1)}, HealNothing,
		},
		"who would wait for a lost provider leaves one that calls back": {
			servedAs(func(r *Reserve) { r.Patient = true }), []Event{isLost(paris), calledBack("r", 1, time.Minute)}, HealBegin,
		},
		"who wants one provider stays until it is called back": {
			servedAs(func(r *Reserve) { r.Target = paris }), []Event{calledBack("r", 1, time.Minute)}, HealNothing,
		},
		"what is called back stays until the new node is Ready": {
			served, []Event{calledBack("r", 1, time.Minute), heal("r", berlin), acknowledge("r", 2)}, HealNothing,
		},
		"and goes then": {
			served, []Event{calledBack("r", 1, time.Minute), heal("r", berlin), acknowledge("r", 2), nodeReady("r", 2, true)}, HealFinish,
		},
		"where it is withdrawn first, the new placement goes": {
			served, []Event{calledBack("r", 1, time.Minute), heal("r", berlin), notCalledBack("r", 1)}, HealReturn,
		},
		"a provider that is back and calls back is left": {
			served, []Event{isLost(paris), heal("r", berlin), calledBack("r", 1, time.Minute), isBack(paris)}, HealNothing,
		},
		"a new provider that calls back is left once it serves alone": {
			served, []Event{
				isLost(paris), heal("r", berlin), acknowledge("r", 2), nodeReady("r", 2, true), calledBack("r", 2, time.Minute), withdraw("r", 1),
			}, HealBegin,
		},
		"what has ended is not healed": {served, []Event{isLost(paris), end("r", EndReleased)}, HealNothing},
		"the new placement comes first": {
			served, []Event{isLost(paris), heal("r", berlin)}, HealNothing,
		},
		"an acknowledgement alone does not finish it": {
			served, []Event{isLost(paris), heal("r", berlin), acknowledge("r", 2)}, HealNothing,
		},
		"a node that is Ready finishes it": {
			served, []Event{isLost(paris), heal("r", berlin), acknowledge("r", 2), nodeReady("r", 2, true)}, HealFinish,
		},
		"where nobody acknowledges, a node that is Ready finishes it": {
			served, []Event{isLost(paris), heal("r", oslo), nodeReady("r", 2, true)}, HealFinish,
		},
		"a provider that is back first is kept": {
			served, []Event{isLost(paris), heal("r", berlin), acknowledge("r", 2), isBack(paris)}, HealReturn,
		},
		"a provider that is back too late is left": {
			served, []Event{isLost(paris), heal("r", berlin), acknowledge("r", 2), nodeReady("r", 2, true), isBack(paris)}, HealFinish,
		},
		"the next provider is tried where one gives up": {
			served, []Event{isLost(paris), heal("r", berlin), withdraw("r", 2)}, HealBegin,
		},
		"it is over when the older placement is given up": {
			served, []Event{isLost(paris), heal("r", berlin), acknowledge("r", 2), nodeReady("r", 2, true), withdraw("r", 1)}, HealNothing,
		},
		"the next one begins when the new provider is lost too": {
			served, []Event{isLost(paris), heal("r", berlin), acknowledge("r", 2), nodeReady("r", 2, true), withdraw("r", 1), isLost(berlin)}, HealBegin,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBook(t, c.before...)
			b.applyAll(c.events...)
			if got := b.Healing(b.Reservation("r")); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// Each of two standing placements has its own phase. The reservation is Active as long as one
// is Ready. Both hold capacity until their provider has confirmed.
func TestTwoPlacementsStandDuringHealing(t *testing.T) {
	b := newBook(t, served...)
	b.applyAll(isLost(paris), heal("r", berlin))
	r := b.Reservation("r")
	see := func(want ...string) {
		t.Helper()
		got := []string{string(r.Phase()), r.Provider, r.Serving().Provider}
		for i := range r.Placements {
			got = append(got, string(r.PlacementPhase(&r.Placements[i])))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("phase, newest, serving, placements (-want +got):\n%s", diff)
		}
	}
	see("Active", berlin, paris, "Ready", "Assigned")
	b.wantAvailable(paris, cpu(7000))
	b.wantAvailable(berlin, cpu(7000))
	b.applyAll(acknowledge("r", 2), nodeReady("r", 1, false))
	see("Reserved", berlin, berlin, "Acknowledged", "Acknowledged")
	b.applyAll(nodeReady("r", 1, true), nodeReady("r", 2, true))
	see("Active", berlin, berlin, "Ready", "Ready")
	b.applyAll(withdraw("r", 1), consumerGone("r", 1))
	see("Active", berlin, berlin, "Withdrawing", "Ready")
	b.wantAvailable(paris, cpu(7000))
	b.applyAll(isBack(paris), providerGone("r", 1))
	see("Active", berlin, berlin, "Gone", "Ready")
	b.wantAvailable(paris, cpu(8000))
}

func TestOlderPlacementKeepsStanding(t *testing.T) {
	b := newBook(t, served...)
	b.applyAll(isLost(paris), heal("r", berlin), withdraw("r", 2))
	if r := b.Reservation("r"); r.Phase() != Active || r.Current().Number != 1 || r.Provider != paris {
		t.Errorf("%s on %s, placement %d", r.Phase(), r.Provider, r.Current().Number)
	}
	b.wantAvailable(berlin, cpu(7000))
}

func TestEndGivesUpBothPlacements(t *testing.T) {
	b := newBook(t, served...)
	b.applyAll(isLost(paris), heal("r", berlin), end("r", EndExpired), providerGone("r", 2), consumerGone("r", 1), consumerGone("r", 2))
	if r := b.Reservation("r"); r.Phase() != Releasing {
		t.Errorf("%s while paris keeps capacity", r.Phase())
	}
	b.applyAll(providerGone("r", 1))
	if r := b.Reservation("r"); r.Phase() != Released {
		t.Errorf("%s when both are gone", r.Phase())
	}
}

func TestRefusalsWhileTwoPlacementsStand(t *testing.T) {
	b := newBook(t, served...)
	b.applyAll(isLost(paris), heal("r", berlin), acknowledge("r", 2))
	change := Event{Change: &Edit{Name: "r", Generation: 2, Amounts: cpu(500), Until: begin}}
	preempt := Event{Change: &Preempt{Name: "w", Priority: 1, Provider: paris, Ends: begin, Victims: []Victim{{PlacementRef: refTo("r", 1)}}}}
	waits := Event{Change: &Enqueue{Request: reserve("w", "", cpu(8000)).Change.(*Reserve), Until: begin}}
	b.applyAll(waits)
	for name, e := range map[string]Event{
		"another one beside them": heal("r", oslo), "a move": move("r", oslo), "other amounts": change, "a notice": preempt,
	} {
		if _, err := b.Check(&e); !errors.Is(err, ErrTaken) {
			t.Errorf("%s: %v, want %v", name, err, ErrTaken)
		}
	}
}

func TestChangeUnansweredBySilentProvider(t *testing.T) {
	asked := func(millis int64) []Event {
		return []Event{
			{Change: &Edit{Name: "r", Generation: 2, Amounts: cpu(millis), Digest: "new", Fallback: "old", Until: begin}},
			isLost(paris), heal("r", berlin), acknowledge("r", 2),
		}
	}
	settle := Event{Change: &Settle{PlacementRef: refTo("r", 1), Generation: 2}}
	tests := map[string]struct {
		asked       int64
		then        []Event
		want        int64
		paris       int64
		wantRefused bool
	}{
		"it is put again to one that is back": {3000, []Event{isBack(paris), withdraw("r", 2), settle}, 3000, 5000, false},
		"it is dropped with it":               {3000, []Event{nodeReady("r", 2, true), withdraw("r", 1)}, 1000, 5000, true},
		"one for less is dropped too, as the new one goes by what was agreed": {
			500, []Event{nodeReady("r", 2, true), withdraw("r", 1)}, 1000, 7000, true,
		},
		"one for less holds where both give up": {500, []Event{withdraw("r", 2), withdraw("r", 1)}, 500, 7000, false},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBook(t, served...)
			b.applyAll(asked(c.asked)...)
			if _, err := b.Check(&settle); !errors.Is(err, ErrTaken) {
				t.Errorf("an answer while two stand: %v, want %v", err, ErrTaken)
			}
			b.wantAvailable(berlin, cpu(7000))
			b.applyAll(c.then...)
			r := b.Reservation("r")
			if !r.Amounts.Equal(cpu(c.want)) || r.Pending != nil || (r.Refusal != nil) != c.wantRefused {
				t.Errorf("%v, unanswered %+v, refused %+v", r.Amounts, r.Pending, r.Refusal)
			}
			b.wantAvailable(paris, cpu(c.paris))
		})
	}
}

// After a restore, each provider reports its amounts. Once only one placement is left, the amounts
// of its provider are in force.
func TestRemainingProvidersAmountsAreInForce(t *testing.T) {
	b := newBook(t, served...)
	b.applyAll(isLost(paris), heal("r", berlin), Event{Change: &Restate{PlacementRef: refTo("r", 1), Amounts: cpu(3000)}})
	if r := b.Reservation("r"); !r.Amounts.Equal(cpu(1000)) {
		t.Errorf("%v while two stand", r.Amounts)
	}
	b.applyAll(isBack(paris), withdraw("r", 2))
	if r := b.Reservation("r"); !r.Amounts.Equal(cpu(3000)) {
		t.Errorf("%v on paris alone", r.Amounts)
	}
	b.wantAvailable(paris, cpu(5000))
	b.wantAvailable(berlin, cpu(7000))
}

func TestLastGivenUpPlacementIsCurrent(t *testing.T) {
	b := newBook(t, served...)
	b.applyAll(isLost(paris), heal("r", berlin), withdraw("r", 2), withdraw("r", 1))
	if p := b.Reservation("r").Current(); p.Number != 1 {
		t.Errorf("placement %d", p.Number)
	}
}
