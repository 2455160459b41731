// Package drains carries out the orders of the broker's administrator about clusters: cordons and drains.
package drains

import (
	"time"

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

// Due is the prefix of the names of the deadlines at which UpdateRecall runs for a drained
// reservation.
const Due = "drain/"

// Session is what drains need of the broker's session.
type Session interface {
	term.Term
	// ConfiguredDrains returns the configured drains by cluster, and false if the broker has not read its
	// configuration.
	ConfiguredDrains() (map[string]Drain, bool)
}

// Drains recalls the reservations of drained clusters. From then on, the
// broker handles the recall like a recall by the provider. It keeps no state besides
// the configuration and the book, so a replica that takes over can continue.
type Drains struct{ s Session }

// New returns the Drains of a session.
func New(s Session) *Drains { return &Drains{s} }

// Find returns the drain of a cluster, and whether there is one.
func (ds *Drains) Find(clusterID string) (Drain, bool) {
	orders, _ := ds.s.ConfiguredDrains()
	d, ok := orders[clusterID]
	return d, ok
}

// Cordon says why a cluster gets no new reservations, "" if it is neither drained nor cordoned.
func (ds *Drains) Cordon(clusterID string) string {
	if d, ok := ds.Find(clusterID); ok {
		return d.Describe()
	}
	return ""
}

// findEmptying returns the drain of a cluster, and whether its reservations must leave.
func (ds *Drains) findEmptying(clusterID string) (Drain, bool) {
	d, ok := ds.Find(clusterID)
	return d, ok && !d.CordonOnly
}

// Apply schedules recalls for the clusters whose drain in the new configuration differs from the one in before,
// the drains of the previous configuration. known is false if there was no previous configuration; all clusters are
// then examined.
func (ds *Drains) Apply(before map[string]Drain, known bool) {
	now, _ := ds.s.ConfiguredDrains()
	ds.s.Book().Clusters(func(c *ledger.Cluster) {
		was, had := before[c.ClusterID]
		is, has := now[c.ClusterID]
		// had and has are compared as well, because the zero Drain is a valid order: a drain without notice.
		if known && had == has && was == is {
			return
		}
		ds.s.PublishCluster(c.ClusterID)
		for _, name := range c.Reservations() {
			ds.ReservationChanged(ds.s.Book().Reservation(name))
		}
	})
}

// ReservationChanged schedules UpdateRecall if the recall of the reservation must change.
func (ds *Drains) ReservationChanged(r *ledger.Reservation) {
	if ds.neededRecall(r) != nil {
		ds.s.SetDeadline(Due+r.Name, ds.s.Now())
	}
}

// UpdateRecall records the event that neededRecall returns, and tries again later if that fails.
func (ds *Drains) UpdateRecall(name string) {
	r := ds.s.Book().Reservation(name)
	if r == nil {
		return
	}
	e := ds.neededRecall(r)
	if e == nil {
		return
	}
	if err := ds.s.Record(ledger.Event{Change: e}); err != nil {
		ds.s.Log().Error(err, "recording the drain of a placement failed, retrying", "reservation", name)
		ds.s.SetDeadline(Due+name, ds.s.Now().Add(term.RetryDelay))
		return
	}
	ds.s.Log().Info("drain changed the recall of a placement", "reservation", name, "provider", r.Placement(e.Placement).Provider, "until", e.Ends)
}

// neededRecall returns the event that makes the recall of a reservation agree with the configured
// drains. It returns nil if the recall agrees already, if the reservation has ended, or if the broker has
// not read its configuration. If the provider has also recalled the placement, the earlier deadline
// applies.
func (ds *Drains) neededRecall(r *ledger.Reservation) *ledger.Recall {
	orders, configured := ds.s.ConfiguredDrains()
	if !configured || r.EndReason != "" {
		return nil
	}
	known := r.CalledBack()
	if known != nil && known.IsDrain() {
		return ds.correctRecall(r, known)
	}
	if len(orders) == 0 {
		return nil
	}
	for i := range r.Placements {
		p := &r.Placements[i]
		d, drained := ds.findEmptying(p.Provider)
		if !drained || !r.Stands(p) || known != nil && known.Placement != p.Number {
			continue
		}
		if e := newDrainRecall(r, p, ds.s.Now(), d); known == nil || e.Ends.Before(known.Ends) {
			return e
		}
	}
	return nil
}

// correctRecall returns the event that adapts known, a recall that an earlier drain caused, to the
// configuration. It returns nil if nothing has to change.
func (ds *Drains) correctRecall(r *ledger.Reservation, known *ledger.CallBack) *ledger.Recall {
	p := r.Placement(known.Placement)
	d, drained := ds.findEmptying(p.Provider)
	if !drained {
		return &ledger.Recall{PlacementRef: r.Ref(p)}
	}
	if e := newDrainRecall(r, p, known.Drained, d); !e.Ends.Equal(known.Ends) || e.Message != known.Message {
		return e
	}
	return nil
}

// newDrainRecall returns the event that recalls a placement because of a drain that began at the
// given time.
func newDrainRecall(r *ledger.Reservation, p *ledger.Placement, began time.Time, d Drain) *ledger.Recall {
	return &ledger.Recall{PlacementRef: r.Ref(p), Ends: began.Add(d.Notice), Drained: began, Message: d.Reason}
}

// View describes the drain of a cluster, for display.
type View struct {
	Drain
	// Ends is when the last recalled reservation has to leave; zero if none has to.
	Ends time.Time
}

// ViewOf returns the view of a cluster's drain, nil if the cluster has none.
func (ds *Drains) ViewOf(c *ledger.Cluster) *View {
	d, ok := ds.Find(c.ClusterID)
	if !ok {
		return nil
	}
	v := &View{Drain: d}
	if d.CordonOnly {
		return v
	}
	for _, name := range c.Reservations() {
		r := ds.s.Book().Reservation(name)
		if known := r.CalledBack(); known != nil && r.Placement(known.Placement).Provider == c.ClusterID {
			v.Ends = term.Later(v.Ends, known.Ends)
		}
	}
	return v
}

// Describe returns a sentence for users about the drained cluster.
func (d *Drain) Describe() string {
	text := "is drained by the broker's administrator"
	if d.CordonOnly {
		text = "is cordoned by the broker's administrator"
	}
	if d.Reason != "" {
		text += " (" + d.Reason + ")"
	}
	return text
}
