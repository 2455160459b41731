package broker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/drains"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/healing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/offers"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/whatif"
)

// WhatIf is a copy of the broker's book on which a plan is simulated. The broker's own code
// decides. Nothing is stored. It is not safe for concurrent use.
type WhatIf struct {
	*whatif.Simulation
	s *session
	// copied is the position of the newest event in the copied book.
	copied uint64
}

// heardUntil is for how long the simulated agents count as connected. It is longer than any plan.
const heardUntil = 10 * 365 * 24 * time.Hour

// NewWhatIf returns a copy of the book as of the given time, or of its newest event if that is
// later. Run advances the copy by the duration ahead. The clusters in silent, and those that the
// book knows to be silent, get nothing new in the copy. NewWhatIf takes the book over: the caller
// must not use book any longer.
func NewWhatIf(book *replay.Book, config settings.Config, at time.Time, ahead time.Duration, silent []string) (*WhatIf, error) {
	now, asleep := term.Later(at, book.State.Latest()).UTC(), map[string]bool{}
	for _, id := range silent {
		asleep[id] = true
	}
	book.State.Clusters(func(c *ledger.Cluster) {
		if !c.LostSince.IsZero() {
			asleep[c.ClusterID] = true
		}
	})
	w := &WhatIf{Simulation: whatif.New(now, ahead, asleep), copied: book.State.Position()}
	config.Document = nil // the copy records no configuration
	b := New(Options{Log: logr.Discard(), Now: w.Now})
	b.config, b.configured = config, true
	s := newSession(b, book, journal.Scratch("what-if", book.State.Position()))
	b.session, w.s = s, s
	s.changeObservers = append(s.changeObservers, w.AddStep)
	// Healing repeats a failed search early if capacity is freed, so a long plan can do with few
	// regular searches.
	s.RetryEvery = max(healing.Retry, ahead/20)
	s.book.Clusters(func(c *ledger.Cluster) { s.TrustCluster(c.ClusterID) })
	s.startTerm()
	// At the start of a term, many deadlines wait until agents have called. The start is set so far
	// back that this wait is over.
	s.began = now.Add(-max(config.StaleThreshold, config.Timeouts.Silence))
	s.book.Clusters(func(c *ledger.Cluster) {
		s.Presence(c.ClusterID).Heard = now.Add(heardUntil)
		if asleep[c.ClusterID] {
			s.Presence(c.ClusterID).Heard = s.began
		}
		s.UpdateCluster(c.ClusterID)
	})
	s.RescheduleReservations()
	return w, w.Begin(s)
}

// CopiedPosition returns the position of the newest event in the book that was copied.
func (w *WhatIf) CopiedPosition() uint64 { return w.copied }

// Drain simulates the drain of a cluster, or a change of its drain. If the book has no such
// cluster, Drain returns an error that names the clusters in the book.
func (w *WhatIf) Drain(clusterID string, d drains.Drain) error {
	if w.s.book.Cluster(clusterID) == nil {
		var ids []string
		w.s.book.Clusters(func(c *ledger.Cluster) { ids = append(ids, c.ClusterID) })
		slices.Sort(ids)
		return fmt.Errorf("no cluster %q has advertised: choose one of %s", clusterID, strings.Join(ids, ", "))
	}
	config := w.s.b.config
	config.Drains = maps.Clone(config.Drains)
	if config.Drains == nil {
		config.Drains = map[string]drains.Drain{}
	}
	config.Drains[clusterID] = d
	w.s.b.SetConfig(context.Background(), config)
	return nil
}

// Add simulates one more cluster with an agent. The WhatIf admits the cluster even if only approved
// clusters may take part, but Add refuses a denied cluster.
func (w *WhatIf) Add(offer *ledger.Offer) error {
	if w.s.book.Cluster(offer.ClusterID) != nil {
		return fmt.Errorf("cluster %q takes part already: choose the ID of a new one", offer.ClusterID)
	}
	if err := offers.Check(offer); err != nil {
		return fmt.Errorf("cluster %q: %w", offer.ClusterID, err)
	}
	config := w.s.b.config
	config.Access = config.Access.Approving(offer.ClusterID)
	if err := config.Access.Check(offer.ClusterID); err != nil {
		return err
	}
	w.s.b.SetConfig(context.Background(), config)
	added := *offer
	added.Agent, added.Source = true, nil
	w.s.Recovery.TrustCluster(offer.ClusterID)
	w.s.Presence(offer.ClusterID).Heard = w.Now().Add(heardUntil)
	return w.s.Record(ledger.Event{Change: &added})
}

// Ask simulates a request, which gets a placement or waits in the queue. It returns the name of the
// reservation. If the broker refuses the request, it returns the refusal as an error.
func (w *WhatIf) Ask(q *requests.Request) (string, error) {
	if err := q.Complete(); err != nil {
		return "", err
	}
	if q.Object != nil && q.Duration == 0 {
		q.Duration = w.s.b.config.DefaultTTL
	}
	r, err := w.s.ReserveOrQueue(q)
	if err != nil {
		return "", err
	}
	return r.Name, nil
}
