// Package views shows reservations to agents, to controllers and to people.
package views

import (
	"fmt"
	"slices"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/visibility"
)

// Session is what the views need of the broker's session.
type Session interface {
	term.Term
	Timeouts() *term.Timeouts
	Visibility() visibility.Visibility
	DecodeCandidates(e ledger.Explanation) []brokerv1alpha1.Candidate
	// The queue. PlaceOf returns nil for a reservation that does not wait.
	PlaceOf(r *ledger.Reservation) *term.QueuePlace
	RefreshAfter(r *ledger.Reservation) time.Duration
	DescribeWait(r *ledger.Reservation) string
	NoticeMessage(r *ledger.Reservation) string
	// MayMoveAt returns when a reservation may leave the provider of a placement, SearchesAt when the broker
	// will look for another one.
	MayMoveAt(p *ledger.Placement) time.Time
	SearchesAt(r *ledger.Reservation, p *ledger.Placement) time.Time
	IdleTimeOf(r *ledger.Reservation, p *ledger.Placement) *v1.IdleTime
}

// Views shows reservations. It has no state.
type Views struct{ s Session }

// New returns the Views of a session.
func New(s Session) *Views { return &Views{s} }

// Reservation is a reservation, for display.
type Reservation struct {
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
	Place *term.QueuePlace
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
func (r *Reservation) Over() bool { return r.Phase == ledger.Released || r.Phase == ledger.Failed }

// Describe formats the amounts and the duration of the reservation.
func (r *Reservation) Describe() string {
	if r.Duration == 0 {
		return r.Amounts.Describe()
	}
	return fmt.Sprintf("%s for %s in all", r.Amounts.Describe(), r.Duration)
}

// ViewOf returns the view of a reservation.
func (v *Views) ViewOf(r *ledger.Reservation) *Reservation {
	out := &Reservation{
		Reservation: *r, Phase: r.Phase(), Message: v.DescribeState(r),
		RequesterHasAgent: v.s.Book().HasAgent(r.Requester), Place: v.s.PlaceOf(r), Cost: showCost(r),
	}
	// The book modifies Waiting in place, so a view must not share it.
	out.Waiting = nil
	if p := r.Serving(); p != nil {
		out.Lost, out.LostSince = silentProvider(v.s.Book(), r)
		out.ConnectBy = v.connectBy(r, p)
		if p.IsUnready() && r.Stands(p) {
			out.UnreadySince, out.MoveAt = p.NodeSince.Time(), v.s.MayMoveAt(p)
		}
		out.Endpoint, out.ProviderHasAgent = v.s.Book().Cluster(p.Provider).Endpoint, v.s.Book().HasAgent(p.Provider)
	}
	if r.Notice != nil {
		out.Warning = v.s.NoticeMessage(r)
	}
	if r.CalledBack() != nil {
		out.Recall = v.recallMessage(r)
	}
	out.Placements = slices.Clone(r.Placements)
	for i := range r.Placements {
		out.PlacementPhases = append(out.PlacementPhases, r.PlacementPhase(&r.Placements[i]))
	}
	return out
}
