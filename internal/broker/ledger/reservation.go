package ledger

import (
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Reservation is one entry of the book.
type Reservation struct {
	Reserve
	CreatedAt Instant
	// EndReason is "" until the reservation ends.
	EndReason EndReason
	// Placements have consecutive numbers.
	Placements []Placement
	// Skipped is the number before the first placement. It is 0 unless earlier placements were
	// lost and not announced.
	Skipped int32 `json:",omitempty"`
	// Waiting is set while the reservation waits in the queue.
	Waiting *Waiting `json:",omitempty"`
	// Notice is set while its placement has to make room.
	Notice *Notice `json:",omitempty"`
	// History is nil as long as all its fields are zero.
	*History
	// Unclaimed is true if only the provider has confirmed the reservation, see Adopt.
	Unclaimed bool `json:",omitempty"`
	// Generation is that of the last Edit, 0 before the first.
	Generation int64 `json:",omitempty"`
	// Pending is a change of amounts that the provider has not answered, nil if there is none.
	Pending *Pending `json:",omitempty"`
	// Refusal is that of the last Edit, nil if it was not refused.
	Refusal *Refusal `json:",omitempty"`
	// Changed is the position of the last event that changed it.
	Changed uint64
}

// History holds fields that most reservations do not need, to save memory. It is never changed
// in place: views share it.
type History struct {
	// EndMessage explains the end to users, EndedAt is its time.
	EndMessage string
	EndedAt    time.Time
	// GrantedAt is when a reservation that had to wait got its first placement; else zero.
	GrantedAt time.Time `json:",omitzero"`
	// Left is the number of the placement that was given up last, 0 for the newest one.
	Left int32 `json:",omitempty"`
	// CallBack is the recall by its provider; use CalledBack.
	CallBack *CallBack `json:",omitempty"`
	// Closed is true once the broker no longer waits for the requester's agent, see Close.
	Closed bool `json:",omitempty"`
}

// Placement is one attempt to serve a reservation on one provider.
type Placement struct {
	Number int32
	// Ready reports the state of the consumer's virtual node.
	Ready bool
	// EverReady is true once the node has been Ready.
	EverReady    bool
	ProviderGone bool
	ConsumerGone bool
	Provider     string
	// AssignedAt is when it was granted.
	AssignedAt Instant
	// AcknowledgedAt is when the provider accepted it; zero before.
	AcknowledgedAt Instant
	// NodeSince is when its requester reported that the network of its node is being set up, or,
	// once the node was Ready, that it no longer is; zero for neither.
	NodeSince Instant `json:",omitzero"`
	// Withdrawn is why the placement was given up before the reservation's end; "" if it was
	// not.
	Withdrawn string
	// WithdrawnAt is when that happened; zero before.
	WithdrawnAt Instant `json:",omitzero"`
	// Amounts are the amounts that it holds if they differ from the reservation's, else nil.
	Amounts quantity.Amounts `json:",omitempty"`
	// Excess is how far its requester exceeded the grant; nil for not at all.
	Excess *Excess `json:",omitempty"`
}

// Current returns the newest placement that was not given up before the reservation's end. If
// all were given up, it returns the last of them. It returns nil before the first placement.
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

// Placement returns the placement with that number, nil if there is none.
func (r *Reservation) Placement(number int32) *Placement {
	if number <= r.Skipped || number > r.lastNumber() {
		return nil
	}
	return &r.Placements[number-r.Skipped-1]
}

// Stands reports whether the placement is neither given up nor ended; false for nil.
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

// lastNumber returns the number of the newest placement, 0 before the first.
func (r *Reservation) lastNumber() int32 { return r.Skipped + int32(len(r.Placements)) }
