// Package whatif simulates what a broker and its agents would do.
package whatif

import (
	"fmt"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Broker is the broker in a simulation. It decides as the real one does.
type Broker interface {
	Book() *ledger.State
	Record(e ledger.Event) error
	// CarryOutDue takes the steps that are due, and returns when the next one is, false if there is none.
	CarryOutDue() (next time.Time, more bool)
	TakeProviderReport(r *ledger.Reservation, p *ledger.Placement, report *v1.StatusReport) error
	TakeConsumerReport(r *ledger.Reservation, p *ledger.Placement, report *v1.StatusReport) error
	DescribeWait(r *ledger.Reservation) string
	IsOpen(clusterID string) bool
	Cordon(clusterID string) string
	OpenCapacity(c *ledger.Cluster) quantity.Amounts
}

// Simulation advances a broker through simulated time. Every agent that is not silent reports at once,
// and no other requests arrive.
type Simulation struct {
	broker Broker
	// now is the simulated time, and end is the time at which Run stops.
	now, end time.Time
	// silent are the clusters whose agents do nothing.
	silent map[string]bool
	// changed lists the reservations about which an agent may have to report.
	changed []string
	courses map[string]*Course
	// started is true once the course of every reservation contains its present step.
	started bool
}

// New returns a simulation of the given duration that begins now. The agents in silent do nothing.
func New(now time.Time, ahead time.Duration, silent map[string]bool) *Simulation {
	return &Simulation{now: now, end: now.Add(ahead), silent: silent, courses: map[string]*Course{}}
}

// Begin begins the simulation of a broker. AddStep has been called for its reservations.
func (s *Simulation) Begin(b Broker) error {
	s.broker, s.started = b, true
	return s.advanceTo(s.now)
}

// Now returns the simulated time.
func (s *Simulation) Now() time.Time { return s.now }

// Run simulates the time until the end of the copy.
func (s *Simulation) Run() error { return s.advanceTo(s.end) }

func (s *Simulation) advanceTo(until time.Time) error {
	for {
		if err := s.actForAgents(); err != nil {
			return err
		}
		next, more := s.broker.CarryOutDue()
		switch {
		case len(s.changed) > 0:
		case !more || next.After(until):
			s.now = until
			return nil
		case next.After(s.now):
			s.now = next
		}
	}
}

// actForAgents makes all reports that agents would make about the changed reservations.
func (s *Simulation) actForAgents() error {
	for len(s.changed) > 0 {
		names := s.changed
		s.changed = nil
		for _, name := range names {
			r := s.broker.Book().Reservation(name)
			if r == nil {
				continue
			}
			if err := s.actOn(r); err != nil {
				return fmt.Errorf("reservation %q: %w", name, err)
			}
		}
	}
	return nil
}

// actOn makes the next report about a reservation, if there is one. The report changes the
// reservation, so that actForAgents calls actOn for it again.
func (s *Simulation) actOn(r *ledger.Reservation) error {
	if r.Duration == 0 && r.EndReason == "" && r.Waiting == nil && !r.Until.After(s.end) && s.hasActingAgent(r.Requester) {
		return s.broker.Record(ledger.Event{Change: &ledger.Renew{Name: r.Name, Until: s.end.Add(term.Lease)}})
	}
	for i := range r.Placements {
		p := &r.Placements[i]
		if report := s.providerReport(r, p); report != nil {
			return s.broker.TakeProviderReport(r, p, report)
		}
		if report := s.consumerReport(r, p); report != nil {
			return s.broker.TakeConsumerReport(r, p, report)
		}
	}
	return nil
}

func (s *Simulation) hasActingAgent(clusterID string) bool {
	return s.broker.Book().HasAgent(clusterID) && !s.silent[clusterID]
}

func (s *Simulation) providerReport(r *ledger.Reservation, p *ledger.Placement) *v1.StatusReport {
	switch stands := r.Stands(p); {
	case !s.hasActingAgent(p.Provider):
	case stands && p.AcknowledgedAt.IsZero():
		return &v1.StatusReport{State: v1.StatusReportStateAcknowledged}
	case stands && r.AskedOf(p) != nil && r.Beside(p) == nil:
		return &v1.StatusReport{State: v1.StatusReportStateAcknowledged, Change: r.AskedOf(p).Generation}
	case !stands && !p.ProviderGone:
		return &v1.StatusReport{State: v1.StatusReportStateGone}
	}
	return nil
}

func (s *Simulation) consumerReport(r *ledger.Reservation, p *ledger.Placement) *v1.StatusReport {
	switch stands := r.Stands(p); {
	case !s.hasActingAgent(r.Requester):
	case stands && !p.AcknowledgedAt.IsZero() && !p.EverReady:
		return &v1.StatusReport{State: v1.StatusReportStateReady}
	case !stands && !p.ConsumerGone:
		return &v1.StatusReport{State: v1.StatusReportStateGone}
	}
	return nil
}
