package ledger

import (
	"errors"
	"testing"
	"time"
)

func TestRecallEndsOnTime(t *testing.T) {
	limits := Limits{Acknowledge: time.Hour, Ready: time.Hour}
	cases := map[string]struct {
		events []Event
		want   Due
		in     time.Duration
	}{
		"before the reservation does": {[]Event{calledBack("r", 1, time.Minute)}, DueRecall, time.Minute},
		"later when it is put off": {
			[]Event{calledBack("r", 1, time.Minute), calledBack("r", 1, 2*time.Minute)}, DueRecall, 2 * time.Minute,
		},
		"and while another one is to take over": {[]Event{calledBack("r", 1, time.Minute), heal("r", berlin)}, DueRecall, time.Minute},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBook(t, served...)
			b.applyAll(renew("r", begin.Add(time.Hour)))
			b.applyAll(c.events...)
			if at, due := b.Deadline(b.Reservation("r"), limits, nil); due != c.want || !at.Equal(begin.Add(c.in)) {
				t.Errorf("%s at %s", due, at.Sub(begin))
			}
		})
	}
}

func TestRecallEndsWithItsPlacement(t *testing.T) {
	for name, events := range map[string][]Event{
		"withdrawn":          {notCalledBack("r", 1)},
		"given up":           {withdraw("r", 1)},
		"ended":              {end("r", EndReleased)},
		"left for a new one": {heal("r", berlin), acknowledge("r", 2), nodeReady("r", 2, true), withdraw("r", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBook(t, served...)
			b.applyAll(calledBack("r", 1, time.Minute))
			b.applyAll(events...)
			if got := b.Reservation("r").CalledBack(); got != nil {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestRecallOfEndedPlacementIsRefused(t *testing.T) {
	cases := map[string]struct {
		before []Event
		event  Event
		want   error
	}{
		"no such placement":          {nil, calledBack("r", 2, time.Minute), ErrUnknown},
		"given up before":            {[]Event{withdraw("r", 1)}, calledBack("r", 1, time.Minute), ErrOver},
		"not called back":            {nil, notCalledBack("r", 1), ErrTaken},
		"the other one of two is":    {[]Event{calledBack("r", 1, time.Minute), heal("r", berlin)}, calledBack("r", 2, time.Minute), ErrTaken},
		"a victim of what leaves so": {[]Event{calledBack("r", 1, time.Minute)}, Event{Change: &Preempt{Name: "w", Priority: 9, Provider: paris, Victims: []Victim{{PlacementRef: refTo("r", 1)}}, Ends: begin}}, ErrTaken},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBook(t, served...)
			b.applyAll(Event{Change: &Enqueue{Request: &Reserve{Name: "w", Request: Request{Key: "key-w", Requester: rome, Amounts: cpu(9000)}}, Until: begin.Add(time.Hour)}})
			b.applyAll(c.before...)
			if _, err := b.Check(&c.event); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}
