package broker

import (
	"context"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/drains"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/links"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/offers"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/reputation"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/views"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// ClusterView is what the broker knows about a cluster, for display.
type ClusterView struct {
	ledger.Offer
	// Reserved is the sum of max(held, used) over all placements on the cluster, plus the amounts
	// of quotes.
	Reserved  quantity.Amounts
	Available quantity.Amounts
	// Stretch is how many times each resource may be promised; nil if each may be promised once.
	Stretch quantity.Ratios
	// Score rates the free capacity, see decision.AvailabilityScore.
	Score      decision.Score
	Placements int
	Phase      term.ClusterPhase
	// Awaited says why the cluster gets no new reservations before its agent has announced its
	// holdings; "" if that does not apply.
	Awaited string
	// Record counts the outcomes of the placements that were granted on the cluster.
	Record reputation.Record
	// Reliability is the share of promises that the cluster has kept, from 0 to 1; nil if unknown.
	Reliability *float64
	// Unreachable are the providers that the cluster cannot reach, as it reported.
	Unreachable []links.Unreachable
	// Pending is the sum of the requests of the cluster's own unschedulable pods, as last
	// advertised.
	Pending offers.Demand
	// Doubts describes implausible figures of the offer.
	Doubts []string
	// Standing says why the cluster gets no new placements as a provider, Excess why it gets no new
	// reservations as a requester; nil if there is no reason.
	Standing *decision.Standing
	Excess   *decision.Excess
	// Failures counts the cluster's recent failures as a provider, by requester.
	Failures map[string]int32
	// Lifted is the mark with which an administrator last lifted the cluster's pauses.
	Lifted string
	// Denied is true if the administrator's lists shut the cluster out.
	Denied bool
	// Drain is the drain or cordon of the cluster by an administrator; nil if there is none.
	Drain *drains.View
	// OverBudget has a text for each limit of its budget that the cluster has recently exceeded.
	OverBudget []string
	// Heard is when the cluster was last heard.
	Heard time.Time
}

// Cluster returns the view of a cluster; nil, nil for an unknown one.
func (b *Broker) Cluster(ctx context.Context, id string) (*ClusterView, error) {
	return answerPlan(ctx, b, "", func(s *session) (*ClusterView, error) {
		c := s.book.Cluster(id)
		if c == nil {
			return nil, nil
		}
		available := c.Available()
		view := &ClusterView{
			Offer: c.Offer, Reserved: c.Claimed().Clone(), Available: available, Stretch: c.Stretch(),
			Score:      decision.AvailabilityScore(available, c.Lendable()),
			Placements: c.Placements(), Phase: s.Presence(id).Phase, Heard: s.Presence(id).Heard,
			Doubts: s.DoubtsAbout(c), Record: c.Record, OverBudget: s.Limiter.OverBudget(id),
			Denied:      s.IsDenied(c),
			Drain:       s.Drains.ViewOf(c),
			Unreachable: s.Links.UnreachableFrom(id),
			Pending:     s.Presence(id).Demand,
			Standing:    s.Presence(id).Standing, Excess: s.Presence(id).Excess,
			Failures: c.Providing.Failures(s.Now()), Lifted: c.Lifted,
		}
		if share, known := c.Record.Share(s.Now()); known {
			view.Reliability = &share
		}
		if s.Recovery.IsBlocked(id) {
			view.Awaited = s.Recovery.DescribeProgress()
		}
		return view, nil
	})
}

// peek returns what read returns, or the zero value while there is no session. It does not wait until the
// events that read sees are durable.
func peek[T any](b *Broker, read func(*session) T) (out T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session != nil {
		out = read(b.session)
	}
	return out
}

// ManifestOf returns the object that contains a cluster's hand-written offer, nil if there is none.
// It does not wait until the event that stored it is durable.
func (b *Broker) ManifestOf(clusterID string) *ledger.Manifest {
	return peek(b, func(s *session) *ledger.Manifest {
		if c := s.book.Cluster(clusterID); c != nil {
			return c.Source
		}
		return nil
	})
}

// ObjectOf returns the object that asked for a reservation, nil if the reservation is unknown or
// was requested over REST. It does not wait until the event that stored it is durable.
func (b *Broker) ObjectOf(reservation string) *ledger.ObjectRef {
	return peek(b, func(s *session) *ledger.ObjectRef {
		if r := s.book.Reservation(reservation); r != nil {
			return r.Object
		}
		return nil
	})
}

// Reservation returns a view of a reservation; nil, nil if it is not in the book.
func (b *Broker) Reservation(ctx context.Context, name string) (*views.Reservation, error) {
	return b.viewReservation(ctx, func(s *session) *ledger.Reservation { return s.book.Reservation(name) })
}

// ObjectReservation returns a view of the reservation that a Reservation object requested under a
// key; nil, nil if it is not in the book.
func (b *Broker) ObjectReservation(ctx context.Context, requester, key string) (*views.Reservation, error) {
	return b.viewReservation(ctx, func(s *session) *ledger.Reservation {
		r, _ := s.book.ByKey(requester, objectKey(key))
		return r
	})
}

func (b *Broker) viewReservation(ctx context.Context, find func(*session) *ledger.Reservation) (*views.Reservation, error) {
	return answerPlan(ctx, b, "", func(s *session) (*views.Reservation, error) {
		if r := find(s); r != nil {
			return s.Views.ViewOf(r), nil
		}
		return nil, nil
	})
}
