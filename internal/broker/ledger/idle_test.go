package ledger

import (
	"errors"
	"testing"
	"time"
)

func idleSince(name string, placement int32, since, ends time.Time) Event {
	return Event{Change: &Idle{PlacementRef: refTo(name, placement), Since: since, Ends: ends}}
}

func TestIdleTimeEndsWithItsPlacement(t *testing.T) {
	for name, events := range map[string][]Event{
		"used again":         {idleSince("r", 1, time.Time{}, time.Time{})},
		"given up":           {withdraw("r", 1)},
		"ended":              {end("r", EndIdle)},
		"left for a new one": {calledBack("r", 1, time.Minute), heal("r", berlin), acknowledge("r", 2), nodeReady("r", 2, true), withdraw("r", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBook(t, served...)
			b.applyAll(idleSince("r", 1, begin, begin.Add(time.Hour)))
			if got := b.Reservation("r").IdleNow(); got == nil || got.Placement != 1 || !got.Since.Equal(begin) || !got.Ends.Equal(begin.Add(time.Hour)) {
				t.Fatalf("%+v", got)
			}
			b.applyAll(events...)
			if got := b.Reservation("r").IdleNow(); got != nil {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestImpossibleIdleTimeIsRefused(t *testing.T) {
	never := time.Time{}
	cases := map[string]struct {
		before []Event
		event  Event
		want   error
	}{
		"no such placement":     {nil, idleSince("r", 2, begin, never), ErrUnknown},
		"given up before":       {[]Event{withdraw("r", 1)}, idleSince("r", 1, begin, never), ErrOver},
		"used, and not idle":    {nil, idleSince("r", 1, never, never), ErrTaken},
		"released before":       {nil, idleSince("r", 1, begin, begin.Add(-time.Second)), ErrMalformed},
		"used, and released":    {[]Event{idleSince("r", 1, begin, never)}, idleSince("r", 1, never, begin), ErrMalformed},
		"the other placement's": {[]Event{idleSince("r", 1, begin, never), calledBack("r", 1, time.Minute), heal("r", berlin)}, idleSince("r", 2, begin, never), ErrTaken},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBook(t, served...)
			b.applyAll(c.before...)
			if _, err := b.Check(&c.event); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}
