package broker

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/views"
)

// Past is the broker's state at an earlier position of its journal. It records nothing.
//
// It shows what a broker would have shown right after it took over at that position. Agents count
// as connected at that time, unless the journal says that they were silent. Reports that are not
// journaled are unknown.
type Past struct {
	b *Broker
	// changed maps the position of each replayed record to its time.
	changed map[uint64]time.Time
}

// NewPast replays a journal up to the last record of recovery. at is the time for which the state
// is shown. readConfig reads a recorded configuration, see specs.ReadDocument.
func NewPast(recovery journal.Recovery, at time.Time, readConfig func(json.RawMessage) (settings.Config, error)) (*Past, error) {
	replayed, err := replay.Read(recovery)
	if err != nil {
		return nil, err
	}
	p := &Past{
		b:       New(Options{Log: logr.Discard(), Now: func() time.Time { return at }}),
		changed: map[uint64]time.Time{},
	}
	for _, r := range recovery.Records {
		var e ledger.Event
		if err := e.UnmarshalJSON(r.Data); err != nil {
			return nil, fmt.Errorf("journal record %d: %w", r.Position, err)
		}
		p.changed[r.Position] = e.At
	}
	if document := replayed.State.Configuration().Document; document != nil {
		if p.b.config, err = readConfig(document); err != nil {
			return nil, err
		}
	}
	s := newSession(p.b, replayed, nil)
	p.b.session = s
	s.began = at
	s.deriveState()
	s.RestoreSilence()
	return p, nil
}

// Clusters returns all clusters, sorted by ID.
func (p *Past) Clusters(ctx context.Context) ([]*ClusterView, error) {
	var out []*ClusterView
	var all []string
	p.b.session.book.Clusters(func(c *ledger.Cluster) { all = append(all, c.ClusterID) })
	slices.Sort(all)
	for _, id := range all {
		v, err := p.b.Cluster(ctx, id)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// Reservations returns all reservations in the book, sorted by name.
func (p *Past) Reservations() []*views.Reservation {
	var out []*views.Reservation
	s := p.b.session
	s.book.Reservations(func(r *ledger.Reservation) { out = append(out, s.Views.ViewOf(r)) })
	slices.SortFunc(out, func(a, b *views.Reservation) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// ChangedAt returns when a reservation last changed. If no replayed record changed it, ChangedAt
// returns when it was created.
func (p *Past) ChangedAt(v *views.Reservation) time.Time {
	if at, known := p.changed[v.Changed]; known {
		return at
	}
	return v.CreatedAt.Time()
}
