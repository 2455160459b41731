package broker

import (
	"context"
	"fmt"
	"slices"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/drains"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/healing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/links"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/reputation"
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
	Phase      ClusterPhase
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
	Pending PendingDemand
	// Doubts describes implausible figures of the offer.
	Doubts []string
	// Standing says why the cluster gets no new placements as a provider, Excess why it gets no new
	// reservations as a requester; nil if there is no reason.
	Standing *decision.Standing
	Excess   *decision.Excess
	// Failures counts the cluster's recent failures as a provider, by requester.
	Failures map[string]int32
	// Lifted is the mark with which an operator last lifted the cluster's pauses.
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
	var view *ClusterView
	err := b.commitPlan(ctx, func(s *session) error {
		c := s.book.Cluster(id)
		if c == nil {
			return nil
		}
		available := c.Available()
		view = &ClusterView{
			Offer: c.Offer, Reserved: c.Claimed().Clone(), Available: available, Stretch: c.Stretch(),
			Score:      decision.AvailabilityScore(available, c.Lendable()),
			Placements: c.Placements(), Phase: s.clusters.presenceOf(id).phase, Heard: s.clusters.presenceOf(id).heard,
			Doubts: s.clusters.doubtsAbout(c), Record: c.Record, OverBudget: s.accounts.OverBudget(id),
			Denied:      s.clusters.isDenied(c),
			Drain:       s.drains.ViewOf(c),
			Unreachable: s.links.UnreachableFrom(id),
			Pending:     s.clusters.presenceOf(id).demand,
			Standing:    s.clusters.presenceOf(id).standing, Excess: s.clusters.presenceOf(id).excess,
			Failures: c.Providing.Failures(s.now()), Lifted: c.Lifted,
		}
		if share, known := c.Record.Share(s.now()); known {
			view.Reliability = &share
		}
		if s.recovery.IsBlocked(id) {
			view.Awaited = s.recovery.DescribeProgress()
		}
		return nil
	})
	return view, err
}

// ManifestOf returns the object that contains a cluster's hand-written offer, nil if there is none.
// It does not wait until the event that stored it is durable.
func (b *Broker) ManifestOf(clusterID string) *ledger.Manifest {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session == nil {
		return nil
	}
	if c := b.session.book.Cluster(clusterID); c != nil {
		return c.Source
	}
	return nil
}

// ObjectOf returns the object that asked for a reservation, nil if the reservation is unknown or
// was requested over REST. It does not wait until the event that stored it is durable.
func (b *Broker) ObjectOf(reservation string) *ledger.ObjectRef {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session == nil {
		return nil
	}
	if r := b.session.book.Reservation(reservation); r != nil {
		return r.Object
	}
	return nil
}

// ReservationView is a reservation, for display.
type ReservationView struct {
	ledger.Reservation
	Phase ledger.Phase
	// Cost is what the reservation costs, nil if it has no price.
	Cost            *brokerv1alpha1.ReservationCost
	PlacementPhases []ledger.PlacementPhase
	// Endpoint is the address of the API server of the provider that serves the reservation, see
	// ledger.Reservation.Serving.
	Endpoint string
	// ProviderHasAgent and RequesterHasAgent are true if that side has an agent.
	ProviderHasAgent, RequesterHasAgent bool
	Message                             string
	// Place is the reservation's place in the queue, nil if it does not wait.
	Place *QueueView
	// Warning says that the reservation has to make room for a request, and which priority this
	// request has; "" if it does not have to make room.
	Warning string
	// Recall says until when the reservation stays at its provider, because the provider has
	// recalled it or an administrator drains the provider; "" if it need not leave.
	Recall string
	// ConnectBy is the time by which the node must be Ready, if the network between the clusters is
	// still being set up; zero otherwise.
	ConnectBy time.Time
	// UnreadySince is when the requester reported that the node is no longer Ready. MoveAt is when
	// the reservation may move to another provider because of that. Both are zero otherwise.
	UnreadySince, MoveAt time.Time
	// LostSince is when the silent provider was last heard; zero if no provider is silent.
	LostSince time.Time
	// Lost is the ID of the silent provider; "" if there is none.
	Lost string
}

// Over reports whether the reservation has ended and the broker waits for nothing more.
func (v *ReservationView) Over() bool { return v.Phase == ledger.Released || v.Phase == ledger.Failed }

// Describe formats the amounts and the duration of the reservation.
func (v *ReservationView) Describe() string {
	if v.Duration == 0 {
		return v.Amounts.Describe()
	}
	return fmt.Sprintf("%s for %s in all", v.Amounts.Describe(), v.Duration)
}

// Reservation returns a view of a reservation; nil, nil if it is not in the book.
func (b *Broker) Reservation(ctx context.Context, name string) (*ReservationView, error) {
	return b.viewReservation(ctx, func(s *session) *ledger.Reservation { return s.book.Reservation(name) })
}

// ObjectReservation returns a view of the reservation that a Reservation object requested under a
// key; nil, nil if it is not in the book.
func (b *Broker) ObjectReservation(ctx context.Context, requester, key string) (*ReservationView, error) {
	return b.viewReservation(ctx, func(s *session) *ledger.Reservation {
		r, _ := s.book.ByKey(requester, objectKey(key))
		return r
	})
}

func (b *Broker) viewReservation(ctx context.Context, find func(*session) *ledger.Reservation) (*ReservationView, error) {
	var view *ReservationView
	err := b.commitPlan(ctx, func(s *session) error {
		if r := find(s); r != nil {
			view = s.reservations.viewOf(r)
		}
		return nil
	})
	return view, err
}

func (rs *reservations) viewOf(r *ledger.Reservation) *ReservationView {
	v := &ReservationView{
		Reservation: *r, Phase: r.Phase(), Message: rs.describeState(r),
		RequesterHasAgent: rs.s.book.HasAgent(r.Requester), Place: rs.s.queue.viewOf(r), Cost: showCost(r),
	}
	// The book modifies Waiting in place, so a view must not share it.
	v.Waiting = nil
	if p := r.Serving(); p != nil {
		v.Lost, v.LostSince = healing.SilentProvider(rs.s.book, r)
		v.ConnectBy = rs.s.connectBy(r, p)
		if p.IsUnready() && r.Stands(p) {
			v.UnreadySince, v.MoveAt = p.NodeSince.Time(), rs.s.healing.MoveAt(p)
		}
		v.Endpoint, v.ProviderHasAgent = rs.s.book.Cluster(p.Provider).Endpoint, rs.s.book.HasAgent(p.Provider)
	}
	if r.Notice != nil {
		v.Warning = rs.s.preemption.noticeMessage(r)
	}
	if r.CalledBack() != nil {
		v.Recall = rs.recallMessage(r)
	}
	v.Placements = slices.Clone(r.Placements)
	for i := range r.Placements {
		v.PlacementPhases = append(v.PlacementPhases, r.PlacementPhase(&r.Placements[i]))
	}
	return v
}
