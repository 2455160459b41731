package ledger

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDeadline(t *testing.T) {
	limits := Limits{Acknowledge: 10 * time.Second, Ready: 2 * time.Minute}
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
			at, due := b.Deadline(b.Reservation("r"), limits)
			if diff := cmp.Diff(tc.want, deadline{at, due}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
