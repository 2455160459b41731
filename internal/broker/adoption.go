package broker

import (
	"fmt"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

const (
	// maxUnclaimed is how many reservations one provider may have brought into the book
	// that no requester has claimed yet. It is what one announcement can list.
	maxUnclaimed = 2048
	// strangerPatience is how long such a reservation stands whose requester has no agent
	// that the broker knows. After a journal was begun anew agents are back within minutes.
	strangerPatience = 10 * time.Minute
)

// adoptionRoom is what a provider may bring into the book on its own word.
type adoptionRoom struct {
	// awaited is false where the broker expects no announcement of the cluster's placements.
	awaited bool
	places  int
	// left is what its capacity holds beside what is in the book.
	left quantity.Amounts
}

func (t *session) adoptionRoom(clusterID string, provided []provision) *adoptionRoom {
	room := &adoptionRoom{awaited: t.awaits(clusterID), places: maxUnclaimed}
	c := t.book.Cluster(clusterID)
	if c == nil || !room.awaited {
		return room
	}
	for _, name := range c.Reservations() {
		if r := t.book.Reservation(name); r != nil && r.Unclaimed {
			room.places--
		}
	}
	// Nodes may be gone since the reservations were granted: all of the capacity counts.
	// What is in the book and is not announced has ended.
	room.left = c.Lendable().Max(c.Capacity)
	for i := range provided {
		p := &provided[i]
		r := t.book.Reservation(p.Name)
		if r == nil {
			continue
		}
		if known := r.Placement(p.Placement); known != nil && known.Provider == clusterID && !known.ProviderGone {
			room.left = room.left.Sub(r.HeldBy(known))
		}
	}
	return room
}

// refuses says why a placement is not entered, "" where it is, and then takes its room.
func (a *adoptionRoom) refuses(p *provision) string {
	switch {
	case !a.awaited:
		return "no announcement of it is awaited"
	case a.places <= 0:
		return fmt.Sprintf("the cluster has brought %d reservations that nobody has claimed, the most it may", maxUnclaimed)
	}
	if short, ok := quantity.Fits(p.amounts, a.left); !ok {
		return fmt.Sprintf("the cluster has %s of %s left for what it announces, and this needs %s",
			quantity.Format(short.Resource, short.Have), short.Resource, quantity.Format(short.Resource, short.Need))
	}
	a.left = a.left.Sub(p.amounts)
	a.places--
	return ""
}

// askRequester has a requester announce what it has, so that it claims what a provider has
// announced in its name, or not. Nothing is kept from it meanwhile.
func (t *session) askRequester(clusterID string) {
	if t.recovery.told[clusterID] || t.recovery.asked[clusterID] || !t.book.HasAgent(clusterID) {
		return
	}
	t.recovery.asked[clusterID] = true
	t.b.wakeAll()
}

// isStranger reports whether a reservation stands on its provider's word alone, in the name
// of a cluster that the broker does not know.
func (t *session) isStranger(r *ledger.Reservation) bool {
	return r.Unclaimed && r.EndReason == "" && !t.book.HasAgent(r.Requester)
}

// strangerDeadline is when such a reservation ends.
func (t *session) strangerDeadline(r *ledger.Reservation) time.Time {
	return later(later(r.CreatedAt.Time(), t.began).Add(strangerPatience), t.settling())
}
