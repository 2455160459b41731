package broker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// ClusterView is the broker's knowledge of a cluster, for display.
type ClusterView struct {
	ledger.Offer
	// Reserved is Σ max(held, used) over the placements here, plus what quotes hold.
	Reserved  quantity.Amounts
	Available quantity.Amounts
	// Stretch is how many times each resource may be promised here; nil for once.
	Stretch quantity.Ratios
	// Score rates the free capacity, see decision.AvailabilityScore.
	Score      decision.Score
	Placements int
	Phase      ClusterPhase
	// Awaited explains why the cluster gets no new reservations before its agent has announced
	// its holdings; "" if it is not blocked.
	Awaited string
	// Record counts the outcomes of the placements granted here.
	Record ledger.Record
	// Reliability is the share of promises that the cluster kept, from 0 to 1; nil if unknown.
	Reliability *float64
	// Unreachable are the providers that the cluster reports it cannot reach.
	Unreachable []UnreachableProvider
	// Doubts are the implausible figures of the offer.
	Doubts []string
	// Standing is why nothing new is placed here, Excess why the cluster gets nothing new; nil
	// if there is no reason. OnTrial reports whether a single placement is on trial.
	Standing *decision.Standing
	Excess   *decision.Excess
	// Failures counts the cluster's recent failures as a provider, by requester.
	Failures map[string]int32
	// Lifted is the mark with which an operator last lifted its pauses.
	Lifted  string
	OnTrial bool
	// Denied reports whether the administrator's lists shut the cluster out.
	Denied bool
	// OverBudget describes each figure in which the cluster is over its budget of the broker.
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
			Doubts: s.clusters.doubtsAbout(c), Record: c.Record, OverBudget: s.accounts.overBudget(id),
			Denied:      s.clusters.isDenied(c),
			Unreachable: s.links.unreachableFrom(id),
			Standing:    s.clusters.presenceOf(id).standing, Excess: s.clusters.presenceOf(id).excess,
			Failures: c.Providing.Failures(s.now()), Lifted: c.Lifted,
		}
		if paused := c.Providing.Suspended(s.now()); paused != nil {
			view.OnTrial = paused.Trial != ""
		}
		if share, known := c.Record.Share(s.now()); known {
			view.Reliability = &share
		}
		if s.recovery.isBlocked(id) {
			view.Awaited = s.recovery.describeProgress()
		}
		return nil
	})
	return view, err
}

// Serves returns 1 while this replica answers, else 0.
func (b *Broker) Serves() float64 {
	if b.Serving() {
		return 1
	}
	return 0
}

// Awaited counts the clusters that get no new reservations before they have announced their
// holdings.
func (b *Broker) Awaited() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session == nil {
		return 0
	}
	return float64(len(b.session.recovery.waiting))
}

// Outcomes sums the outcomes of all placements over all clusters.
func (b *Broker) Outcomes() ledger.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	var sum ledger.Record
	if b.session == nil {
		return sum
	}
	b.session.book.Clusters(func(c *ledger.Cluster) {
		sum.Granted += c.Record.Granted
		sum.Ready += c.Record.Ready
		sum.Refused += c.Record.Refused
		sum.Unanswered += c.Record.Unanswered
		sum.NeverReady += c.Record.NeverReady
		sum.Dropped += c.Record.Dropped
	})
	return sum
}

// ManifestOf returns the object that contains a cluster's hand-written offer, nil if there is
// none. It does not wait until that is durable.
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

// ObjectOf returns the object that asked for a reservation, nil for one that came over REST or
// is unknown. Like ManifestOf it does not wait until that is durable.
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
	Phase           ledger.Phase
	PlacementPhases []ledger.PlacementPhase
	// Endpoint is the API server of the provider that serves it, see Serving.
	Endpoint string
	// ProviderHasAgent and RequesterHasAgent report which sides have an agent that can act.
	ProviderHasAgent, RequesterHasAgent bool
	Message                             string
	// Place is its place in the queue, nil if it does not wait.
	Place *QueueView
	// Warning says that the reservation has to make room and for which priority; "" for no
	// warning.
	Warning string
	// Recall says until when the reservation stays with a provider that recalled it; "" for no
	// recall.
	Recall string
	// ConnectBy is when the node must be Ready while the network between the clusters is being set
	// up, else zero.
	ConnectBy time.Time
	// UnreadySince is when the requester reported that the node is no longer Ready, and MoveAt when
	// the reservation may move to another provider for it; both are zero while the node is Ready.
	UnreadySince, MoveAt time.Time
	// LostSince is when the silent provider last called; zero if no provider is silent.
	LostSince time.Time
	// Lost is the silent provider; "" if there is none.
	Lost string
}

// Over reports whether the reservation has ended and both sides have confirmed it.
func (v *ReservationView) Over() bool { return v.Phase == ledger.Released || v.Phase == ledger.Failed }

// Describe formats the held amounts and the duration.
func (v *ReservationView) Describe() string {
	if v.Duration == 0 {
		return describeAmounts(v.Amounts)
	}
	return fmt.Sprintf("%s for %s in all", describeAmounts(v.Amounts), v.Duration)
}

// Reservation returns a view of a reservation; nil, nil if it is not in the book.
func (b *Broker) Reservation(ctx context.Context, name string) (*ReservationView, error) {
	return b.viewReservation(ctx, func(s *session) *ledger.Reservation { return s.book.Reservation(name) })
}

// ObjectReservation returns a view of the reservation that an object asked for; nil, nil if it
// is not in the book.
func (b *Broker) ObjectReservation(ctx context.Context, requester, uid string) (*ReservationView, error) {
	return b.viewReservation(ctx, func(s *session) *ledger.Reservation {
		r, _ := s.book.ByKey(requester, objectKey(uid))
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
		RequesterHasAgent: rs.s.book.HasAgent(r.Requester), Place: rs.s.queue.viewOf(r),
	}
	// The book changes Waiting in place, so a view must not keep it.
	v.Waiting = nil
	if p := r.Serving(); p != nil {
		v.Lost, v.LostSince = rs.s.healing.silentProvider(r)
		v.ConnectBy = rs.s.connectBy(r, p)
		if p.IsUnready() && r.Stands(p) {
			v.UnreadySince, v.MoveAt = p.NodeSince.Time(), rs.s.healing.moveAt(p)
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

// objectKey returns the key of the reservation of an object. Keys over REST contain no slash,
// so no agent can use it.
func objectKey(uid string) string { return "object/" + uid }

// ReserveObject grants the request of a Reservation object, or finds its earlier grant. A
// request without duration gets the default one.
func (b *Broker) ReserveObject(ctx context.Context, q Request) (*ReservationView, error) {
	q.Key = objectKey(q.Object.UID)
	if err := q.complete(); err != nil {
		return nil, err
	}
	var view *ReservationView
	err := b.commitPlan(ctx, func(s *session) error {
		if r, shut := s.book.ByKey(q.Requester, q.Key); r != nil && !shut {
			view = s.reservations.viewOf(r)
			return nil
		}
		if q.Duration == 0 {
			q.Duration = b.config.DefaultTTL
		}
		if q.Target == q.Requester && q.Target != "" {
			return fault.New(fault.Invalid, "targetClusterID %q is the requester itself: name another cluster or none", q.Target)
		}
		r, err := s.reservations.reserveOrQueue(&q)
		if err != nil {
			return err
		}
		view = s.reservations.viewOf(r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return view, nil
}

// Release ends a reservation whose object is deleted. A reservation that has ended or is
// unknown stays as it is.
func (b *Broker) Release(ctx context.Context, name, why string) error {
	return b.commitPlan(ctx, func(s *session) error {
		r := s.book.Reservation(name)
		if r == nil {
			return nil
		}
		return s.reservations.releaseReservation(r, why)
	})
}
