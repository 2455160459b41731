package broker

import (
	"fmt"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

const (
	// maxUnclaimed is how many reservations one provider may have added to the book that no
	// requester has claimed yet. It is as many as one announcement can list.
	maxUnclaimed = 2048
	// strangerPatience is how long such a reservation stands if its requester has no known
	// agent. After a journal was begun anew agents are back within minutes.
	strangerPatience = 10 * time.Minute
)

// adoptionRoom limits what a provider may add to the book on its own word.
type adoptionRoom struct {
	// awaited is false if the broker awaits no announcement of the cluster.
	awaited bool
	places  int
	// left is the capacity beside the placements in the book.
	left quantity.Amounts
}

func (rc *recovery) newAdoptionRoom(clusterID string, provided []announcedPlacement) *adoptionRoom {
	room := &adoptionRoom{awaited: rc.awaits(clusterID), places: maxUnclaimed}
	c := rc.s.book.Cluster(clusterID)
	if c == nil || !room.awaited {
		return room
	}
	for _, name := range c.Reservations() {
		if r := rc.s.book.Reservation(name); r != nil && r.Unclaimed {
			room.places--
		}
	}
	// The whole capacity counts: nodes may be gone since the reservations were granted.
	// What is in the book and is not announced has ended.
	room.left = c.Lendable().Max(c.Capacity)
	for i := range provided {
		p := &provided[i]
		r := rc.s.book.Reservation(p.Name)
		if r == nil {
			continue
		}
		if known := r.Placement(p.Placement); known != nil && known.Provider == clusterID && !known.ProviderGone {
			room.left = room.left.Sub(r.HeldBy(known))
		}
	}
	return room
}

// refuses returns why a placement is not adopted. If it is, refuses returns "" and deducts its
// room.
func (a *adoptionRoom) refuses(p *announcedPlacement) string {
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

// askRequester asks a requester to announce whether it claims what a provider announced in its
// name. The requester is not blocked meanwhile.
func (rc *recovery) askRequester(clusterID string) {
	if rc.told[clusterID] || rc.asked[clusterID] || !rc.s.book.HasAgent(clusterID) {
		return
	}
	rc.asked[clusterID] = true
	rc.s.b.wakeAll()
}

// isStranger reports whether a reservation rests on its provider's word alone, in the name of
// a cluster that the broker does not know.
func (rc *recovery) isStranger(r *ledger.Reservation) bool {
	return r.Unclaimed && r.EndReason == "" && !rc.s.book.HasAgent(r.Requester)
}

// strangerDeadline returns when such a reservation ends.
func (rc *recovery) strangerDeadline(r *ledger.Reservation) time.Time {
	return later(later(r.CreatedAt.Time(), rc.s.began).Add(strangerPatience), rc.deadline())
}
