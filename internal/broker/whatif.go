package broker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/drains"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/healing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/offers"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
)

// WhatIf is a copy of the broker's book on which a plan is simulated. The broker's own code
// decides. Every agent that is not silent is assumed to report at once, and no other requests
// arrive. Nothing is stored. It is not safe for concurrent use.
type WhatIf struct {
	b *Broker
	s *session
	// now is the simulated time, and end is the time at which Run stops.
	now, end time.Time
	// copied is the position of the newest event in the copied book.
	copied uint64
	// silent are the clusters whose agents do nothing.
	silent map[string]bool
	// changed lists the reservations about which an agent may have to report.
	changed []string
	courses map[string]*Course
	// started is true once the course of every reservation contains its present step.
	started bool
}

// heardUntil is for how long the simulated agents count as connected. It is longer than any plan.
const heardUntil = 10 * longestRecall

// NewWhatIf returns a copy of the book as of the given time, or of its newest event if that is
// later. Run advances the copy by the duration ahead. The clusters in silent, and those that the
// book knows to be silent, get nothing new in the copy. NewWhatIf takes the book over: the caller
// must not use book any longer.
func NewWhatIf(book *replay.Book, config Config, at time.Time, ahead time.Duration, silent []string) (*WhatIf, error) {
	now := term.Later(at, book.State.Latest()).UTC()
	w := &WhatIf{copied: book.State.Position(), now: now, end: now.Add(ahead), silent: map[string]bool{}, courses: map[string]*Course{}}
	config.Document = nil // the copy records no configuration
	w.b = New(Options{Log: logr.Discard(), Now: func() time.Time { return w.now }})
	w.b.config, w.b.configured = config, true
	w.s = newSession(w.b, book, journal.Scratch("what-if", book.State.Position()))
	w.b.session = w.s
	w.s.changeObservers = append(w.s.changeObservers, w.addStep)
	// Healing repeats a failed search early if capacity is freed, so a long plan can do with few
	// regular searches.
	w.s.Healing.RetryEvery = max(healing.Retry, ahead/20)
	for _, id := range silent {
		w.silent[id] = true
	}
	w.s.book.Clusters(func(c *ledger.Cluster) {
		w.s.Recovery.Trust(c.ClusterID)
		if !c.LostSince.IsZero() {
			w.silent[c.ClusterID] = true
		}
	})
	w.s.start()
	w.started = true
	// At the start of a term, many deadlines wait until agents have called. The start is set so far
	// back that this wait is over.
	w.s.began = now.Add(-max(config.StaleThreshold, config.Timeouts.Silence))
	w.s.book.Clusters(func(c *ledger.Cluster) { w.setHeard(c.ClusterID) })
	w.s.rescheduleAll()
	return w, w.advanceTo(now)
}

// setHeard marks a cluster as silent if the plan says so, and otherwise as connected until the end of
// the plan.
func (w *WhatIf) setHeard(clusterID string) {
	p := w.s.Presence(clusterID)
	p.Heard = w.now.Add(heardUntil)
	if w.silent[clusterID] {
		p.Heard = w.s.began
	}
	w.s.UpdateCluster(clusterID)
}

// Now returns the simulated time.
func (w *WhatIf) Now() time.Time { return w.now }

// Record returns the position of the newest event in the book that was copied.
func (w *WhatIf) Record() uint64 { return w.copied }

// Drain simulates the drain of a cluster, or a change of its drain. If the book has no such
// cluster, Drain returns an error that names the clusters in the book.
func (w *WhatIf) Drain(clusterID string, d drains.Drain) error {
	if w.s.book.Cluster(clusterID) == nil {
		return fmt.Errorf("no cluster %q has advertised: choose one of %s", clusterID, strings.Join(w.clusterIDs(), ", "))
	}
	config := w.b.config
	config.Drains = maps.Clone(config.Drains)
	if config.Drains == nil {
		config.Drains = map[string]drains.Drain{}
	}
	config.Drains[clusterID] = d
	w.b.SetConfig(context.Background(), config)
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
	config := w.b.config
	config.Access = config.Access.Approving(offer.ClusterID)
	if err := config.Access.Check(offer.ClusterID); err != nil {
		return err
	}
	w.b.SetConfig(context.Background(), config)
	added := *offer
	added.Agent, added.Source = true, nil
	w.s.Recovery.Trust(offer.ClusterID)
	w.s.Presence(offer.ClusterID).Heard = w.now.Add(heardUntil)
	return w.s.Record(ledger.Event{Change: &added})
}

// Ask simulates a request, which gets a placement or waits in the queue. It returns the name of the
// reservation. If the broker refuses the request, it returns the refusal as an error.
func (w *WhatIf) Ask(q *requests.Request) (string, error) {
	if err := q.Complete(); err != nil {
		return "", err
	}
	if q.Object != nil && q.Duration == 0 {
		q.Duration = w.b.config.DefaultTTL
	}
	r, err := w.s.reserveOrQueue(q)
	if err != nil {
		return "", err
	}
	return r.Name, nil
}

// Run simulates the time until the end of the copy.
func (w *WhatIf) Run() error { return w.advanceTo(w.end) }

// advanceTo simulates the time until the given time.
func (w *WhatIf) advanceTo(until time.Time) error {
	for {
		if err := w.actForAgents(); err != nil {
			return err
		}
		next, more := w.s.carryOutDue()
		switch {
		case len(w.changed) > 0:
		case !more || next.After(until):
			w.now = until
			return nil
		case next.After(w.now):
			w.now = next
		}
	}
}

func (w *WhatIf) clusterIDs() []string {
	var ids []string
	w.s.book.Clusters(func(c *ledger.Cluster) { ids = append(ids, c.ClusterID) })
	slices.Sort(ids)
	return ids
}

// actForAgents makes all reports that agents would make about the changed reservations.
func (w *WhatIf) actForAgents() error {
	for len(w.changed) > 0 {
		names := w.changed
		w.changed = nil
		for _, name := range names {
			r := w.s.book.Reservation(name)
			if r == nil {
				continue
			}
			if err := w.actOn(r); err != nil {
				return fmt.Errorf("reservation %q: %w", name, err)
			}
		}
	}
	return nil
}

// actOn makes the next report about a reservation, if there is one. The report changes the
// reservation, so that actForAgents calls actOn for it again.
func (w *WhatIf) actOn(r *ledger.Reservation) error {
	if r.Duration == 0 && r.EndReason == "" && r.Waiting == nil && !r.Until.After(w.end) && w.hasActingAgent(r.Requester) {
		return w.s.Record(ledger.Event{Change: &ledger.Renew{Name: r.Name, Until: w.end.Add(lease)}})
	}
	for i := range r.Placements {
		p := &r.Placements[i]
		if report := w.providerReport(r, p); report != nil {
			return w.s.takeProviderReport(r, p, report)
		}
		if report := w.consumerReport(r, p); report != nil {
			return w.s.takeConsumerReport(r, p, report)
		}
	}
	return nil
}

// hasActingAgent reports whether a cluster has an agent that is not silent.
func (w *WhatIf) hasActingAgent(clusterID string) bool {
	return w.s.book.HasAgent(clusterID) && !w.silent[clusterID]
}

func (w *WhatIf) providerReport(r *ledger.Reservation, p *ledger.Placement) *v1.StatusReport {
	switch stands := r.Stands(p); {
	case !w.hasActingAgent(p.Provider):
	case stands && p.AcknowledgedAt.IsZero():
		return &v1.StatusReport{State: v1.StatusReportStateAcknowledged}
	case stands && r.AskedOf(p) != nil && r.Beside(p) == nil:
		return &v1.StatusReport{State: v1.StatusReportStateAcknowledged, Change: r.AskedOf(p).Generation}
	case !stands && !p.ProviderGone:
		return &v1.StatusReport{State: v1.StatusReportStateGone}
	}
	return nil
}

func (w *WhatIf) consumerReport(r *ledger.Reservation, p *ledger.Placement) *v1.StatusReport {
	switch stands := r.Stands(p); {
	case !w.hasActingAgent(r.Requester):
	case stands && !p.AcknowledgedAt.IsZero() && !p.EverReady:
		return &v1.StatusReport{State: v1.StatusReportStateReady}
	case !stands && !p.ConsumerGone:
		return &v1.StatusReport{State: v1.StatusReportStateGone}
	}
	return nil
}
