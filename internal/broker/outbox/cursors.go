package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
)

// labelCursors marks the ConfigMap with the cursors. The ConfigMap lacks the label of the journal's own objects,
// because a broker creates a new journal only if no object with that label exists.
const labelCursors = "broker.fluidos.eu/notifications"

// cursor is the place up to which all events of a channel were delivered.
type cursor struct {
	journal.Place
	// FailingSince is when the first attempt since the last delivery failed; zero if the last attempt succeeded.
	FailingSince time.Time `json:"failingSince,omitzero"`
	// deliveries counts deliveries and drops. It is not stored.
	deliveries uint64
}

func (c cursor) isStoredAs(o cursor) bool {
	return c.Place == o.Place && c.FailingSince.Equal(o.FailingSince)
}

// cursors stores the cursors of all channels in one ConfigMap.
type cursors struct {
	store   journal.Store
	journal string

	// known is the object as this replica read or stored it last, nil if it does not exist.
	known *journal.Object
	// stored holds the cursors in known, and at is when they were stored.
	stored map[string]cursor
	at     time.Time
}

func (s *cursors) name() string { return s.journal + "-notifications" }

func (s *cursors) readAll(ctx context.Context) (map[string]cursor, error) {
	obj, err := s.store.Get(ctx, s.name())
	if errors.Is(err, journal.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the cursors of notifications: %w", err)
	}
	out := map[string]cursor{}
	for channel, text := range obj.Data {
		c := cursor{}
		if json.Unmarshal([]byte(text), &c) == nil { // a cursor that was edited by hand is ignored, so the channel begins at the end of the journal
			out[channel] = c
		}
	}
	s.known, s.stored = &obj, out
	return out, nil
}

// storeAll stores cursors, unless they are stored already. It fails if another replica has stored cursors in the
// meantime.
func (s *cursors) storeAll(ctx context.Context, all map[string]cursor, now time.Time) error {
	if s.areStored(all) {
		return nil
	}
	data := map[string]string{}
	for channel, c := range all {
		text, err := json.Marshal(c)
		if err != nil {
			return err
		}
		data[channel] = string(text)
	}
	obj := journal.Object{
		Name: s.name(), Data: data,
		Labels: map[string]string{journal.LabelManagedBy: journal.ManagedBy, labelCursors: "cursors"},
	}
	var stored journal.Object
	var err error
	if s.known == nil {
		stored, err = s.store.Create(ctx, obj)
	} else {
		obj.ResourceVersion = s.known.ResourceVersion
		stored, err = s.store.Update(ctx, obj)
	}
	if err != nil {
		return fmt.Errorf("storing the cursors of notifications: %w", err)
	}
	failpoint.Hit(failpoint.CursorsStored)
	s.known, s.stored, s.at = &stored, all, now
	return nil
}

// oldestPosition returns the smallest position in the stored cursors, the largest number if there are none.
func (s *cursors) oldestPosition() uint64 {
	oldest := ^uint64(0)
	for _, c := range s.stored {
		oldest = min(oldest, c.Position)
	}
	return oldest
}

func (s *cursors) areStored(all map[string]cursor) bool {
	return s.known != nil && maps.EqualFunc(all, s.stored, cursor.isStoredAs)
}

func (s *cursors) storeDue(ctx context.Context, all map[string]cursor, now time.Time) error {
	due := now.Sub(s.at) >= storeIdle
	for channel, c := range all {
		known := s.stored[channel]
		due = due || c.deliveries != known.deliveries || !c.FailingSince.Equal(known.FailingSince)
	}
	if !due {
		return nil
	}
	return s.storeAll(ctx, all, now)
}

func (s *cursors) deleteObject(ctx context.Context) error {
	if s.known == nil {
		return nil
	}
	if err := s.store.Delete(ctx, s.name()); err != nil && !errors.Is(err, journal.ErrNotFound) {
		return fmt.Errorf("deleting the cursors of notifications: %w", err)
	}
	s.known, s.stored = nil, nil
	return nil
}
