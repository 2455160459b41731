package broker

import (
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
)

// Drain is an administrator's order about a cluster: the cluster gets no new reservations, and its
// reservations move to other clusters unless CordonOnly is true.
type Drain struct {
	// CordonOnly lets existing reservations stay.
	CordonOnly bool
	// Notice is how long existing reservations may stay, counted from when the broker first reads
	// the order.
	Notice time.Duration
	// Reason is the administrator's text for users; it may be empty.
	Reason string
}

// drainDue is the prefix of the names of the deadlines at which updateRecall runs for a drained
// reservation.
const drainDue = "drain/"

// drains is the component that recalls the reservations of drained clusters. From then on, the
// broker handles the recall like a recall by the provider. drains keeps no state of its own besides
// the configuration and the book, so a replica that takes over can continue.
type drains struct{ s *session }

// findDrain returns the drain of a cluster, and whether there is one.
func (ds *drains) findDrain(clusterID string) (Drain, bool) {
	d, ok := ds.s.config().Drains[clusterID]
	return d, ok
}

// findEmptying returns the drain of a cluster, and whether its reservations must leave.
func (ds *drains) findEmptying(clusterID string) (Drain, bool) {
	d, ok := ds.findDrain(clusterID)
	return d, ok && !d.CordonOnly
}

// applyConfig schedules recalls for the clusters whose drain in the new configuration differs from the one in before,
// the drains of the previous configuration. known is false if there was no previous configuration; all clusters are
// then examined.
func (ds *drains) applyConfig(before map[string]Drain, known bool) {
	now := ds.s.config().Drains
	ds.s.book.Clusters(func(c *ledger.Cluster) {
		was, had := before[c.ClusterID]
		is, has := now[c.ClusterID]
		// had and has are compared as well, because the zero Drain is a valid order: a drain without notice.
		if known && had == has && was == is {
			return
		}
		ds.s.b.feed.addCluster(c.ClusterID)
		for _, name := range c.Reservations() {
			ds.reservationChanged(ds.s.book.Reservation(name))
		}
	})
}

// reservationChanged schedules updateRecall if the recall of the reservation must change.
func (ds *drains) reservationChanged(r *ledger.Reservation) {
	if ds.neededRecall(r) != nil {
		ds.s.deadlines.setDeadline(drainDue+r.Name, ds.s.now())
	}
}

// updateRecall records the event that neededRecall returns, and tries again later if that fails.
func (ds *drains) updateRecall(name string) {
	r := ds.s.book.Reservation(name)
	if r == nil {
		return
	}
	e := ds.neededRecall(r)
	if e == nil {
		return
	}
	if err := ds.s.record(ledger.Event{Change: e}); err != nil {
		ds.s.log.Error(err, "recording the drain of a placement failed, retrying", "reservation", name)
		ds.s.deadlines.setDeadline(drainDue+name, ds.s.now().Add(reopenDelay))
		return
	}
	ds.s.log.Info("drain changed the recall of a placement", "reservation", name, "provider", r.Placement(e.Placement).Provider, "until", e.Ends)
}

// neededRecall returns the event that makes the recall of a reservation agree with the configured
// drains. It returns nil if the recall agrees already, if the reservation has ended, or if the broker has
// not read its configuration. If the provider has also recalled the placement, the earlier deadline
// applies.
func (ds *drains) neededRecall(r *ledger.Reservation) *ledger.Recall {
	if !ds.s.b.configured || r.EndReason != "" {
		return nil
	}
	known := r.CalledBack()
	if known != nil && known.IsDrain() {
		return ds.correctRecall(r, known)
	}
	if len(ds.s.config().Drains) == 0 {
		return nil
	}
	for i := range r.Placements {
		p := &r.Placements[i]
		d, drained := ds.findEmptying(p.Provider)
		if !drained || !r.Stands(p) || known != nil && known.Placement != p.Number {
			continue
		}
		if e := newDrainRecall(r, p, ds.s.now(), d); known == nil || e.Ends.Before(known.Ends) {
			return e
		}
	}
	return nil
}

// correctRecall returns the event that adapts known, a recall that an earlier drain caused, to the
// configuration. It returns nil if nothing has to change.
func (ds *drains) correctRecall(r *ledger.Reservation, known *ledger.CallBack) *ledger.Recall {
	p := r.Placement(known.Placement)
	d, drained := ds.findEmptying(p.Provider)
	if !drained {
		return &ledger.Recall{PlacementRef: ledger.PlacementRef{Name: r.Name, Placement: p.Number}}
	}
	if e := newDrainRecall(r, p, known.Drained, d); !e.Ends.Equal(known.Ends) || e.Message != known.Message {
		return e
	}
	return nil
}

// newDrainRecall returns the event that recalls a placement because of a drain that began at the
// given time.
func newDrainRecall(r *ledger.Reservation, p *ledger.Placement, began time.Time, d Drain) *ledger.Recall {
	return &ledger.Recall{
		PlacementRef: ledger.PlacementRef{Name: r.Name, Placement: p.Number},
		Ends:         began.Add(d.Notice), Drained: began, Message: d.Reason,
	}
}

// DrainView describes the drain of a cluster, for display.
type DrainView struct {
	Drain
	// Ends is when the last recalled reservation has to leave; zero if none has to.
	Ends time.Time
}

// viewOf returns the view of a cluster's drain, nil if the cluster has none.
func (ds *drains) viewOf(c *ledger.Cluster) *DrainView {
	d, ok := ds.findDrain(c.ClusterID)
	if !ok {
		return nil
	}
	v := &DrainView{Drain: d}
	if d.CordonOnly {
		return v
	}
	for _, name := range c.Reservations() {
		r := ds.s.book.Reservation(name)
		if known := r.CalledBack(); known != nil && r.Placement(known.Placement).Provider == c.ClusterID {
			v.Ends = term.Later(v.Ends, known.Ends)
		}
	}
	return v
}

// withCordon adds a drain to the standing of a cluster and returns the standing. The given standing
// may be nil.
func withCordon(d *Drain, s *decision.Standing) *decision.Standing {
	if s == nil {
		s = &decision.Standing{}
	}
	s.Cordoned = d.describeCluster()
	return s
}

// describeCluster returns a sentence for users about the drained cluster.
func (d *Drain) describeCluster() string {
	text := "is drained by the broker's administrator"
	if d.CordonOnly {
		text = "is cordoned by the broker's administrator"
	}
	if d.Reason != "" {
		text += " (" + d.Reason + ")"
	}
	return text
}
