package trail

import (
	"context"
	"errors"
	"fmt"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
)

// Book is a Context that looks up reservations in a ledger.
type Book struct{ *ledger.State }

// Parties implements Context.
func (b Book) Parties(reservation string, placement int32) (requester, provider string, number int32) {
	r := b.Reservation(reservation)
	if r == nil {
		return "", "", 0
	}
	p := r.Placement(placement)
	if placement == 0 {
		p = r.Current()
	}
	if p == nil {
		return r.Requester, "", placement
	}
	return r.Requester, p.Provider, p.Number
}

// Read describes all kept records of a journal. It replays them to find the parties of reservations
// that a record only names. For records before the oldest stored checkpoint, it knows only the
// parties that the records name themselves.
func Read(ctx context.Context, kept *journal.Kept) ([]Record, error) {
	base, from, err := oldestBase(ctx, kept)
	if err != nil {
		return nil, err
	}
	out := make([]Record, 0, len(kept.Entries))
	for i := range kept.Entries {
		e := &kept.Entries[i]
		var around Context
		if base != nil && e.Position > from && e.Kind == journalKind {
			if err := base.apply(e); err != nil {
				return nil, err
			}
			around = base
		}
		r, err := Describe(e, around)
		if err != nil {
			return nil, err
		}
		out = append(out, *r)
	}
	return out, nil
}

func (b *Book) apply(e *journal.Entry) error {
	event := &ledger.Event{}
	err := event.UnmarshalJSON(e.Data)
	if err == nil {
		err = b.Apply(e.Position, event)
	}
	if err != nil {
		return fmt.Errorf("journal record %d: %w", e.Position, err)
	}
	return nil
}

func oldestBase(ctx context.Context, kept *journal.Kept) (*Book, uint64, error) {
	state, from, err := kept.OldestBase(ctx)
	if errors.Is(err, journal.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	if state == nil {
		return &Book{ledger.New()}, 0, nil
	}
	restored, err := replay.Read(journal.Recovery{Checkpoint: state})
	if err != nil {
		return nil, 0, fmt.Errorf("checkpoint at position %d: %w", from, err)
	}
	return &Book{restored.State}, from, nil
}
