package broker

import (
	"fmt"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

const (
	// maxUnclaimed bounds the unclaimed reservations that one provider may add to the book. An
	// unclaimed reservation has no confirmation from its requester. The bound is the length of
	// the longest announcement.
	maxUnclaimed = 2048
	// strangerGrace is how long an unclaimed reservation stands if its requester has no
	// known agent. When a journal was begun anew, agents are back within minutes.
	strangerGrace = 10 * time.Minute
)

// adoptionRoom limits the placements that a provider may add to the book by its announcement
// alone.
type adoptionRoom struct {
	// awaited is false if the broker awaits no announcement of the cluster.
	awaited bool
	places  int
	// left is the capacity of the cluster that no placement in the book holds.
	left quantity.Amounts
}

func (rc *recovery) newAdoptionRoom(clusterID string, provided []announcedPlacement) *adoptionRoom {
	room := &adoptionRoom{awaited: rc.isBlocked(clusterID), places: maxUnclaimed}
	c := rc.s.book.Cluster(clusterID)
	if c == nil || !room.awaited {
		return room
	}
	for _, name := range c.Reservations() {
		if r := rc.s.book.Reservation(name); r != nil && r.Unclaimed {
			room.places--
		}
	}
	// Compare with the whole capacity: nodes may have left since the reservations were granted.
	// Placements in the book that the announcement omits have ended.
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

// refusePlacement returns why a placement is not adopted. If it is adopted, it returns "" and
// deducts the placement from the room.
func (a *adoptionRoom) refusePlacement(p *announcedPlacement) string {
	switch {
	case !a.awaited:
		return "no announcement of this cluster is expected"
	case a.places <= 0:
		return fmt.Sprintf("the cluster has announced %d reservations that no requester has claimed, which is the maximum", maxUnclaimed)
	}
	if short, ok := quantity.Fits(p.amounts, a.left); !ok {
		return fmt.Sprintf("the cluster has %s of %s left for announced placements, and this one needs %s",
			quantity.Format(short.Resource, short.Have), short.Resource, quantity.Format(short.Resource, short.Need))
	}
	a.left = a.left.Sub(p.amounts)
	a.places--
	return ""
}

// askRequester asks a requester to announce whether it claims the placements that a provider
// announced in its name. The requester is not blocked meanwhile.
func (rc *recovery) askRequester(clusterID string) {
	if rc.announced[clusterID] || rc.asked[clusterID] || !rc.s.book.HasAgent(clusterID) {
		return
	}
	rc.asked[clusterID] = true
	rc.s.b.wakeAll()
}

// isStranger reports whether only the provider has confirmed a reservation whose requester is
// unknown to the broker.
func (rc *recovery) isStranger(r *ledger.Reservation) bool {
	return r.Unclaimed && r.EndReason == "" && !rc.s.book.HasAgent(r.Requester)
}

// strangerDeadline returns when a stranger's reservation ends.
func (rc *recovery) strangerDeadline(r *ledger.Reservation) time.Time {
	return laterOf(laterOf(r.CreatedAt.Time(), rc.s.began).Add(strangerGrace), rc.recoveryDeadline())
}
