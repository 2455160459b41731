package ledger

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func closeEvent(name string) Event { return Event{Change: &Close{Name: name}} }

// After the broker has closed a reservation without waiting for its requester, the requester's
// agent still gets its instruction. The reservation stays in the book until the agent has
// confirmed.
func TestReservationClosesWithoutRequester(t *testing.T) {
	b := newBook(t, offer(rome, nil), offer(paris, cpu(8000)), reserve("r", paris, cpu(1000)), end("r", EndExpired), providerGone("r", 1))
	steps := []struct {
		event Event
		want  sight
		over  bool
	}{
		{closeEvent("r"), sight{Released, Gone, Release}, false},
		{consumerGone("r", 1), sight{Released, Gone, Ended}, true},
	}
	for _, step := range steps {
		b.applyAll(step.event)
		if diff := cmp.Diff(step.want, b.sightOf("r", 1)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := b.Reservation("r").Over(); got != step.over {
			t.Errorf("over: %t, want %t", got, step.over)
		}
	}
}

// anyClose usually returns the next event on the way of a reservation to its Close: its end, the
// confirmation of its provider, or the Close.
func (m *machine) anyClose(c choose) Event {
	ref := m.anyPlacement(c)
	for _, g := range m.naive.grants {
		entry := g.entry
		if c(8) == 0 || entry.closed || !m.naive.hasAgent(entry.requester) || m.naive.isOver(entry) {
			continue
		}
		switch {
		case entry.end == "":
			return end(entry.name, EndReleased)
		case !g.left:
			return providerGone(entry.name, g.number)
		}
		ref.Name = entry.name
	}
	return closeEvent(ref.Name)
}
