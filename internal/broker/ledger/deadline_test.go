package ledger

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDeadline(t *testing.T) {
	limits := Limits{Acknowledge: 10 * time.Second, Ready: 2 * time.Minute, Network: 10 * time.Minute}
	hour := begin.Add(time.Hour)
	enrolled := []Event{offer(rome, nil), offer(paris, cpu(8000)), offer(berlin, cpu(8000)), reserve("r", paris, cpu(1000))}

	type deadline struct {
		At  time.Time
		Due Due
	}
	cases := map[string]struct {
		before []Event // the first is applied at second 0
		events []Event
		want   deadline
	}{
		"a grant waits for the provider from its instant": {
			enrolled, nil, deadline{timeOf(3 + 10), DueAcknowledgement},
		},
		"an acknowledgement starts the wait for the node": {
			enrolled, []Event{acknowledge("r", 1)}, deadline{timeOf(4 + 120), DueReady},
		},
		"a repeated acknowledgement does not put the wait for the node off": {
			enrolled, []Event{acknowledge("r", 1), acknowledge("r", 1), acknowledge("r", 1)}, deadline{timeOf(4 + 120), DueReady},
		},
		"a ready node does not end the wait for the provider": {
			enrolled, []Event{nodeReady("r", 1, true)}, deadline{timeOf(3 + 10), DueAcknowledgement},
		},
		"an active reservation waits for its end": {
			enrolled, []Event{acknowledge("r", 1), nodeReady("r", 1, true)}, deadline{hour, DueExpiry},
		},
		"a node that was ready once is not waited for again": {
			enrolled, []Event{acknowledge("r", 1), nodeReady("r", 1, true), nodeReady("r", 1, false)}, deadline{hour, DueExpiry},
		},
		"a node that waits for its network alone has the network's time from then on": {
			enrolled, []Event{acknowledge("r", 1), connect("r", 1)}, deadline{timeOf(5 + 600), DueNetwork},
		},
		"a node without its network has no more time than the reservation": {
			enrolled, []Event{acknowledge("r", 1), connect("r", 1), renew("r", timeOf(300))}, deadline{timeOf(300), DueExpiry},
		},
		"a node whose network was set up has no deadline": {
			enrolled, []Event{acknowledge("r", 1), connect("r", 1), nodeReady("r", 1, true), nodeReady("r", 1, false)}, deadline{hour, DueExpiry},
		},
		"a renewal moves the end": {
			enrolled, []Event{acknowledge("r", 1), nodeReady("r", 1, true), renew("r", timeOf(7200))}, deadline{timeOf(7200), DueExpiry},
		},
		"an end before the provider's time is up comes first": {
			enrolled, []Event{renew("r", timeOf(12))}, deadline{timeOf(12), DueExpiry},
		},
		"an end in the very instant of the provider's comes first": {
			enrolled, []Event{renew("r", timeOf(13))}, deadline{timeOf(13), DueExpiry},
		},
		"an end before the node's time is up comes first": {
			enrolled, []Event{acknowledge("r", 1), renew("r", timeOf(60))}, deadline{timeOf(60), DueExpiry},
		},
		"an end in the very instant of the node's comes first": {
			enrolled, []Event{acknowledge("r", 1), renew("r", timeOf(124))}, deadline{timeOf(124), DueExpiry},
		},
		"a withdrawn placement waits for nothing but the reservation's end": {
			enrolled, []Event{withdraw("r", 1)}, deadline{hour, DueExpiry},
		},
		"a move gives the next provider its whole time": {
			enrolled, []Event{withdraw("r", 1), move("r", berlin)}, deadline{timeOf(5 + 10), DueAcknowledgement},
		},
		"a move gives the next node its whole time": {
			enrolled, []Event{acknowledge("r", 1), nodeReady("r", 1, true), withdraw("r", 1), move("r", berlin), acknowledge("r", 2)},
			deadline{timeOf(8 + 120), DueReady},
		},
		"nothing is due after the end": {
			enrolled, []Event{end("r", EndReleased)}, deadline{time.Time{}, DueNothing},
		},
		"nothing is due after everything is gone": {
			enrolled, []Event{end("r", EndReleased), providerGone("r", 1), consumerGone("r", 1)}, deadline{time.Time{}, DueNothing},
		},
		"a provider without agent is not waited for": {
			[]Event{offer(rome, nil), handWritten(oslo, cpu(8000)), reserve("r", oslo, cpu(1000))}, nil, deadline{hour, DueExpiry},
		},
		"a requester without agent has no node to wait for": {
			[]Event{offer(paris, cpu(8000)), reserve("r", paris, cpu(1000))}, []Event{acknowledge("r", 1)}, deadline{hour, DueExpiry},
		},
		"a provider whose agent enrols later has its whole time from then on": {
			[]Event{handWritten(oslo, cpu(8000)), reserve("r", oslo, cpu(1000))},
			[]Event{shut(rome, "a"), shut(rome, "b"), offer(oslo, cpu(8000)), shut(rome, "c"), offer(oslo, cpu(8000))},
			deadline{timeOf(4 + 10), DueAcknowledgement},
		},
		"a requester whose agent enrols later has its whole time from then on": {
			[]Event{offer(paris, cpu(8000)), reserve("r", paris, cpu(1000))},
			[]Event{acknowledge("r", 1), shut(rome, "a"), offer(rome, nil), shut(rome, "b"), offer(rome, nil)},
			deadline{timeOf(4 + 120), DueReady},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBook(t, tc.before...)
			b.applyAll(tc.events...)
			at, due := b.Deadline(b.Reservation("r"), limits, nil)
			if diff := cmp.Diff(tc.want, deadline{at, due}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPostponedDeadlineHidesNoOther(t *testing.T) {
	limits := Limits{Acknowledge: 10 * time.Second, Ready: 2 * time.Minute, Network: 10 * time.Minute}
	enrolled := []Event{offer(rome, nil), offer(paris, cpu(8000)), offer(berlin, cpu(8000)), reserve("r", paris, cpu(1000))}
	running := slices.Concat(enrolled, []Event{acknowledge("r", 1), nodeReady("r", 1, true)})
	leaseEnds := renew("r", timeOf(7))
	notice := []Event{
		{Change: &Enqueue{Request: &Reserve{Name: "high", Request: Request{Key: "key-high", Requester: rome, Amounts: cpu(8000)}}, Until: timeOf(3600)}},
		{Change: &Preempt{Name: "high", Priority: 9, Provider: paris, Victims: []Victim{{PlacementRef: refTo("r", 1)}}, Ends: timeOf(20)}},
	}
	postponed := map[Due]time.Duration{DueExpiry: 24 * time.Hour, DueAcknowledgement: time.Hour, DueReady: time.Hour, DueNotice: time.Hour, DueRecall: 2 * time.Hour}

	cases := map[string]struct {
		events []Event
		except Due // this deadline is not postponed
		want   Due
	}{
		"the end of a lease hides no recall":         {slices.Concat(running, []Event{leaseEnds, calledBack("r", 1, 30*time.Second)}), DueRecall, DueRecall},
		"the end of a lease hides no notice":         {slices.Concat(running, []Event{leaseEnds}, notice), DueNotice, DueNotice},
		"the end of a lease hides no missing answer": {slices.Concat(enrolled, []Event{leaseEnds}), DueAcknowledgement, DueAcknowledgement},
		"the end of a lease hides no missing node":   {slices.Concat(enrolled, []Event{acknowledge("r", 1), leaseEnds}), DueReady, DueReady},
		"a missing answer hides no recall":           {slices.Concat(enrolled, []Event{calledBack("r", 1, 30*time.Second)}), DueRecall, DueRecall},
		"a missing node hides no end":                {slices.Concat(enrolled, []Event{acknowledge("r", 1)}), DueExpiry, DueExpiry},
		"a notice hides no recall":                   {slices.Concat(running, notice, []Event{calledBack("r", 1, 30*time.Second)}), DueRecall, DueRecall},
		"a recall hides no notice":                   {slices.Concat(running, notice, []Event{calledBack("r", 1, 10*time.Second)}), DueNotice, DueNotice},
		"of postponed deadlines the earliest counts": {slices.Concat(running, notice, []Event{calledBack("r", 1, 10*time.Second)}), DueNothing, DueNotice},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBook(t, tc.events...)
			_, due := b.Deadline(b.Reservation("r"), limits, func(at time.Time, due Due) time.Time {
				if due == tc.except {
					return at
				}
				return at.Add(postponed[due])
			})
			if due != tc.want {
				t.Errorf("due is %q, want %q", due, tc.want)
			}
		})
	}
}

func TestDeadlineThatDoesNotCount(t *testing.T) {
	b := newBook(t, offer(rome, nil), offer(paris, cpu(8000)), reserve("r", paris, cpu(1000)))
	limits := Limits{Acknowledge: 10 * time.Second, Ready: 2 * time.Minute}
	for ignored, want := range map[Due]Due{DueAcknowledgement: DueExpiry, DueExpiry: DueAcknowledgement} {
		_, due := b.Deadline(b.Reservation("r"), limits, func(at time.Time, due Due) time.Time {
			if due == ignored {
				return time.Time{}
			}
			return at
		})
		if due != want {
			t.Errorf("without %q, %q is due, want %q", ignored, due, want)
		}
	}
}

func connect(name string, placement int32) Event {
	return Event{Change: &Connect{PlacementRef: refTo(name, placement)}}
}

func TestNetworkTimeNeverShortensTheNodesTime(t *testing.T) {
	b := newBook(t, offer(rome, nil), offer(paris, cpu(8000)), reserve("r", paris, cpu(1000)), acknowledge("r", 1), connect("r", 1))
	at, due := b.Deadline(b.Reservation("r"), Limits{Acknowledge: 10 * time.Second, Ready: 2 * time.Minute, Network: time.Second}, nil)
	if want := timeOf(3 + 120); due != DueReady || !at.Equal(want) {
		t.Errorf("due %s at %s, want NeverReady at %s", due, at, want)
	}
}

func TestFailedRequesterGivesNoMoreTimeForTheNetwork(t *testing.T) {
	never := func(name, provider, next string) []Event {
		bad := withdraw(name, 1)
		bad.Change.(*Withdraw).Reason = string(DueNetwork)
		return []Event{
			reserve(name, provider, cpu(10)), acknowledge(name, 1), connect(name, 1), bad,
			move(name, next), acknowledge(name, 2), nodeReady(name, 2, true),
		}
	}
	b := newBook(t, offer(rome, nil), offer("athens", nil), offer(paris, cpu(8000)), offer(berlin, cpu(8000)))
	b.applyAll(never("r1", paris, berlin)...)
	b.applyAll(reserve("r2", paris, cpu(10)), acknowledge("r2", 1), reserveFor("athens", "r3", paris, cpu(10)), acknowledge("r3", 1))
	may := func(name string, later time.Duration) bool {
		r := b.Reservation(name)
		return b.MayConnect(r, r.Current(), timeOf(20).Add(later))
	}
	if may("r2", 0) || !may("r3", 0) || !may("r2", 25*time.Hour) {
		t.Errorf("rome, which it failed: %t, want false; athens: %t, want true; rome a day later: %t, want true", may("r2", 0), may("r3", 0), may("r2", 25*time.Hour))
	}
}

func TestFewPlacementsOfAnUnprovenProviderWaitForItsNetwork(t *testing.T) {
	b := newBook(t, offer(rome, nil), offer(paris, cpu(8000)))
	may := func(name string) bool {
		r := b.Reservation(name)
		return b.MayConnect(r, r.Current(), timeOf(100))
	}
	for i := range maxConnecting {
		name := fmt.Sprint("r", i)
		b.applyAll(reserve(name, paris, cpu(10)))
		if may(name) {
			t.Errorf("%s waits for the network, and its provider has not acknowledged it", name)
		}
		b.applyAll(acknowledge(name, 1))
		if !may(name) {
			t.Errorf("%s must not wait for its network", name)
		}
		b.applyAll(connect(name, 1))
	}
	b.applyAll(reserve("r9", paris, cpu(10)), acknowledge("r9", 1))
	if may("r9") {
		t.Errorf("%d placements wait already, and one more may", maxConnecting)
	}
	b.applyAll(nodeReady("r0", 1, true))
	if !may("r9") {
		t.Error("a node is Ready, and no other placement may wait for its network")
	}
}
