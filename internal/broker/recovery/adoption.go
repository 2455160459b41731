package recovery

import (
	"fmt"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

const (
	// maxUnclaimed is how many unclaimed reservations one provider may add to the book. A
	// reservation is unclaimed while its requester has not confirmed it. The limit is the length of
	// the longest announcement.
	maxUnclaimed = 2048
	// strangerGrace is how long an unclaimed reservation is kept if its requester has no known
	// agent. After a journal was lost and begun anew, agents are back within minutes.
	strangerGrace = 10 * time.Minute
)

// adoptionRoom is how many placements, and how much capacity, a provider may still add to the book
// by its announcement alone.
type adoptionRoom struct {
	// awaited is true if the broker waits for an announcement of the cluster. places is how many
	// more placements the cluster may add.
	awaited bool
	places  int
	// left is the part of the cluster's capacity that the announced placements which are in the book
	// do not hold.
	left quantity.Amounts
}

func (rc *Recovery) newAdoptionRoom(clusterID string, provided []announcedPlacement) *adoptionRoom {
	room := &adoptionRoom{awaited: rc.IsBlocked(clusterID), places: maxUnclaimed}
	c := rc.s.Book().Cluster(clusterID)
	if c == nil || !room.awaited {
		return room
	}
	for _, name := range c.Reservations() {
		if r := rc.s.Book().Reservation(name); r != nil && r.Unclaimed {
			room.places--
		}
	}
	// Compare with the cluster's whole capacity, not with what it lends now, because it may lend
	// less than when the reservations were granted. Placements in the book that the announcement
	// omits have ended, so they hold nothing.
	room.left = c.Lendable().Max(c.Capacity)
	if c.Elastic != nil {
		room.left = room.left.Add(c.Elastic.Amounts)
	}
	for i := range provided {
		p := &provided[i]
		r := rc.s.Book().Reservation(p.Name)
		if r == nil {
			continue
		}
		if known := r.Placement(p.Placement); known != nil && known.Provider == clusterID && !known.ProviderGone {
			room.left = room.left.Sub(r.HeldBy(known))
		}
	}
	return room
}

// refusePlacement returns why a placement must not be added to the book. If it may be added, it
// returns "" and deducts the placement from the room.
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

// askRequester asks a requester to announce its reservations, to see whether it claims a placement
// that a provider announced in its name. Until it has announced them, it can still get new
// reservations.
func (rc *Recovery) askRequester(clusterID string) {
	if rc.announced[clusterID] || rc.asked[clusterID] || !rc.s.Book().HasAgent(clusterID) {
		return
	}
	rc.asked[clusterID] = true
	rc.s.WakeCallers()
}

// IsStranger reports whether a reservation is confirmed only by its provider and the broker does
// not know an agent of its requester.
func (rc *Recovery) IsStranger(r *ledger.Reservation) bool {
	return r.Unclaimed && r.EndReason == "" && !rc.s.Book().HasAgent(r.Requester)
}

// StrangerDeadline returns when the broker ends a reservation, if IsStranger is true for it until then.
func (rc *Recovery) StrangerDeadline(r *ledger.Reservation) time.Time {
	return term.Later(term.Later(r.CreatedAt.Time(), rc.s.Began()).Add(strangerGrace), rc.SettledAt())
}
