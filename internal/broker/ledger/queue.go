package ledger

import (
	"fmt"
	"time"
)

// Enqueue puts a reservation into the queue, to wait for capacity: a new one that no cluster can
// serve, or one whose placement was given up.
type Enqueue struct {
	// Request is a new reservation, without a provider; nil if Name is set.
	Request *Reserve `json:"request,omitempty"`
	// Name is the name of a reservation that is in the book already.
	Name string `json:"name,omitempty"`
	// Until is when the wait ends without a grant.
	Until time.Time `json:"until"`
	// Explanation says why no cluster can serve the reservation now.
	Explanation Explanation `json:"explanation,omitempty"`
}

// Waiting is the state of a reservation in the queue.
type Waiting struct {
	// Position is the position of the Enqueue in the log. Among equal priorities, the lower
	// position is served first.
	Position uint64
	Since    time.Time
	// Until is when the wait ends without a grant.
	Until time.Time
	// Left is how long the reservation will be held after its grant. It is 0 if the reservation has
	// no duration and is held for as long as it is renewed.
	Left time.Duration
	// Preemption names the placements that make room for the reservation; nil if there are none.
	Preemption *Preemption `json:",omitempty"`
}

// ReservedAt returns when capacity was first locked for the reservation, zero if it never was.
func (r *Reservation) ReservedAt() time.Time {
	switch {
	case r.History != nil && !r.GrantedAt.IsZero():
		return r.GrantedAt
	case len(r.Placements) == 0:
		return time.Time{}
	default:
		return r.CreatedAt.Time()
	}
}

func (q *Enqueue) subject() string {
	if q.Request != nil {
		return q.Request.Name
	}
	return q.Name
}

func (q *Enqueue) checkAgainst(s *State) error {
	if (q.Request == nil) == (q.Name == "") || q.Until.IsZero() {
		return fmt.Errorf("%w: needs an end, and either a request or a name", ErrMalformed)
	}
	if q.Request != nil {
		if q.Request.Provider != "" || q.Request.Price != nil {
			return fmt.Errorf("reservation %q: %w: it waits and has provider %q or a price", q.Request.Name, ErrMalformed, q.Request.Provider)
		}
		return s.checkRequest(q.Request)
	}
	r, err := s.findLive(q.Name)
	if err != nil {
		return err
	}
	if r.Waiting != nil || r.Unclaimed || r.Stands(r.Current()) {
		return fmt.Errorf("reservation %q: %w: it waits already, has a placement that stands, or was not asked for", q.Name, ErrTaken)
	}
	return nil
}

func (q *Enqueue) applyTo(s *State, at time.Time) {
	w := &Waiting{Position: s.position, Since: at, Until: q.Until}
	r := s.reservations[q.Name]
	if q.Request != nil {
		r = &Reservation{Reserve: *q.Request, By: s.shared.internActor(s.by), CreatedAt: instantOf(at)}
		s.addReservation(r)
		w.Left = r.Duration
	} else if r.Duration != 0 {
		w.Left = max(r.Until.Sub(at), time.Second)
	}
	r.Provider, r.Explanation = "", q.Explanation
	r.Waiting, r.Changed = w, s.position
}

// Grant grants a waiting reservation a placement.
type Grant struct {
	Name     string `json:"name"`
	Provider string `json:"provider"`
	// Until is when the reservation ends unless it is renewed.
	Until time.Time `json:"until"`
	// Price is the price to lock for the placement, nil if the provider has no prices.
	Price       *Price      `json:"price,omitempty"`
	Explanation Explanation `json:"explanation,omitempty"`
}

func (g *Grant) subject() string { return g.Name }

func (g *Grant) checkAgainst(s *State) error {
	if g.Until.IsZero() {
		return fmt.Errorf("reservation %q: %w: granted without end", g.Name, ErrMalformed)
	}
	r, err := s.findLive(g.Name)
	if err != nil {
		return err
	}
	if r.Waiting == nil {
		return fmt.Errorf("reservation %q: %w: it does not wait", g.Name, ErrTaken)
	}
	return s.clusters.checkGrant(g.Provider, &r.Request, g.Price)
}

func (g *Grant) applyTo(s *State, at time.Time) {
	r := s.reservations[g.Name]
	s.leaveQueue(r)
	r.Provider, r.Until, r.Explanation = g.Provider, g.Until, g.Explanation
	if len(r.Placements) == 0 {
		r.updateHistory(func(h *History) { h.GrantedAt = at })
	}
	s.addPlacement(at, r, g.Provider, g.Price)
}

func (s *State) leaveQueue(r *Reservation) {
	if r.Waiting == nil {
		return
	}
	if p := r.Waiting.Preemption; p != nil {
		s.withdrawNotices(r.Name, p)
	}
	r.Waiting = nil
}
