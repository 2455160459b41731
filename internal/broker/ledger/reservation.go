package ledger

import (
	"slices"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Reservation is what the book stores about a reservation: the request, its placements, and how it
// ended.
type Reservation struct {
	Reserve
	// By is who asked for the reservation, nil if that is unknown; see ActorOf. Equal actors share
	// one value.
	By        *Actor `json:",omitempty"`
	CreatedAt Instant
	// EndReason is "" until the reservation ends.
	EndReason EndReason
	// Placements are sorted by number, without gaps.
	Placements []Placement
	// Skipped is how many placement numbers come before the first placement in Placements. It is 0
	// unless the book has lost these placements and no provider announced them.
	Skipped int32 `json:",omitempty"`
	// MeteredPlacement is the number of the placement that is charged for, 0 for none; see Metered.
	MeteredPlacement int32 `json:",omitempty"`
	// Bill is what the reservation has cost. It is nil as long as nothing was charged, or the cost can
	// be computed from the only placement that was metered.
	Bill *Bill `json:",omitempty"`
	// Waiting is the reservation's state in the queue; nil if it does not wait.
	Waiting *Waiting `json:",omitempty"`
	// Notice says that a placement must make room for a reservation with a higher priority, and
	// until when; nil if no placement has to.
	Notice *Notice `json:",omitempty"`
	// History holds rarely used fields; nil as long as all of them are zero.
	*History
	// Unclaimed is true while only the provider has confirmed the reservation, see Adopt.
	Unclaimed bool `json:",omitempty"`
	// Generation is the generation of the last Edit, 0 if there was none.
	Generation int64 `json:",omitempty"`
	// Pending is a change of amounts that the provider has not answered, nil if there is none.
	Pending *Pending `json:",omitempty"`
	// Refusal says why the amounts of the last Edit were refused, nil if they were not.
	Refusal *Refusal `json:",omitempty"`
	// Changed is the position of the last event that changed the reservation.
	Changed uint64
}

// History holds fields that most reservations do not need; it is separate to save memory. It is
// never modified, only replaced, because views share it.
type History struct {
	// EndMessage explains the end to people; EndedAt is when the reservation ended.
	EndMessage string
	EndedAt    time.Time
	// EndedBy and ChangedBy are who caused the end and the last Edit, nil if that is unknown.
	EndedBy   *Actor `json:",omitempty"`
	ChangedBy *Actor `json:",omitempty"`
	// GrantedAt is when a reservation that had to wait in the queue got its first placement; zero
	// for other reservations.
	GrantedAt time.Time `json:",omitzero"`
	// Left is the number of the placement that was given up last; 0 means the newest placement.
	Left int32 `json:",omitempty"`
	// CallBack is the last recall of a placement, by its provider or by a drain. The placement may
	// have been given up since; CalledBack returns the recall only for a placement that stands.
	CallBack *CallBack `json:",omitempty"`
	// IdleTime is the last recorded idle time of a placement, which may have been given up since.
	// Read it with IdleNow, which returns it only for a placement that stands.
	IdleTime *IdleTime `json:",omitempty"`
	// Provisioning is the last time in which a provider created nodes for a placement. Read it with
	// ProvisioningOf, which returns it only while that is still so.
	Provisioning *ProvisioningTime `json:",omitempty"`
	// Closed is true once the broker no longer waits for the requester's agent, see Close.
	Closed bool `json:",omitempty"`
}

// Placement is one attempt to serve a reservation on one provider.
type Placement struct {
	Number int32
	// Ready is true while the consumer's virtual node is Ready.
	Ready bool
	// EverReady is true once the node has been Ready. It is also true if the placement was adopted
	// after its provider had accepted it, see Adopt.
	EverReady    bool
	ProviderGone bool
	ConsumerGone bool
	Provider     string
	// AssignedAt is when the placement was granted.
	AssignedAt Instant
	// AcknowledgedAt is when the provider accepted the placement; zero before.
	AcknowledgedAt Instant
	// NodeSince has two meanings. Before the node was Ready, it is when the requester reported that
	// only the network is missing. After that, it is when the requester reported that the node is
	// no longer Ready. It is zero if neither applies.
	NodeSince Instant `json:",omitzero"`
	// Outage is the last time in which the node was no longer Ready and that a report of Ready
	// ended; nil for none. It must not be modified, because copies share it.
	Outage *Outage `json:",omitempty"`
	// Withdrawn is why the placement was given up before the end of the reservation; "" if it was
	// not.
	Withdrawn string
	// WithdrawnAt is when the placement was given up; zero if it was not, or if that time is lost.
	WithdrawnAt Instant `json:",omitzero"`
	// Amounts are the placement's own amounts if they differ from the reservation's, else nil; see
	// AgreedWith.
	Amounts quantity.Amounts `json:",omitempty"`
	// Price is the locked price of the placement, nil if its provider has no prices. Placements
	// with equal prices share one value.
	Price *Price `json:",omitempty"`
	// Excess is by how much the requester exceeded the grant; nil if it did not.
	Excess *Excess `json:",omitempty"`
}

// Outage is a time in which a node was not Ready.
type Outage struct {
	Since, Ended Instant
	// Flaps is true if the node was Ready in between, but for less than nodeSettles.
	Flaps bool `json:",omitempty"`
}

// Current returns the newest placement that was not given up before the end of the reservation. If
// all were given up, it returns the one that was given up last. It returns nil before the first
// placement.
func (r *Reservation) Current() *Placement {
	for i := len(r.Placements) - 1; i >= 0; i-- {
		if p := &r.Placements[i]; p.Withdrawn == "" {
			return p
		}
	}
	if r.History != nil && r.Left != 0 {
		return r.Placement(r.Left)
	}
	return r.Placement(r.lastNumber())
}

// Placement returns the placement with the given number, nil if there is none.
func (r *Reservation) Placement(number int32) *Placement {
	if number <= r.Skipped || number > r.lastNumber() {
		return nil
	}
	return &r.Placements[number-r.Skipped-1]
}

// Stands reports whether the placement is in force: it was not given up, and the reservation has
// not ended. It returns false for nil.
func (r *Reservation) Stands(p *Placement) bool {
	return p != nil && r.EndReason == "" && p.Withdrawn == ""
}

func (r *Reservation) updateHistory(change func(*History)) {
	var h History
	if r.History != nil {
		h = *r.History
	}
	change(&h)
	if r.History = &h; r.EndReason == "" && h == (History{}) {
		r.History = nil
	}
}

// lastNumber returns the number of the newest placement, 0 if there is none.
func (r *Reservation) lastNumber() int32 { return r.Skipped + int32(len(r.Placements)) }

// Involves reports whether a cluster takes part in the reservation, as requester or provider.
func (r *Reservation) Involves(clusterID string) bool {
	return r.Requester == clusterID || slices.ContainsFunc(r.Placements, func(p Placement) bool { return p.Provider == clusterID })
}
