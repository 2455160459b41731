package ledger

import (
	"fmt"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Request is what an agent or a user asks for. It is part of events and of the book, and every
// later provider of the reservation has to meet it.
type Request struct {
	Requester string `json:"requester"`
	// Key identifies the request, so that a repeated request creates no second reservation. Each
	// requester has its own keys.
	Key      string `json:"key"`
	Tenant   string `json:"tenant,omitempty"`
	Priority int32  `json:"priority,omitempty"`
	// Queue is true if the request waits in the queue when no cluster can serve it.
	Queue bool `json:"queue,omitempty"`
	// Patient is true if the reservation stays with its provider even if the provider falls silent
	// or the node is no longer Ready (healing: Wait).
	Patient bool `json:"patient,omitempty"`
	// Idle says what happens when the reservation is idle, nil for nothing. It must not be
	// modified, because views share it.
	Idle *IdlePolicy `json:"idle,omitempty"`
	// Wait is how long the request may wait in the queue; 0 for the configured time.
	Wait    time.Duration    `json:"wait,omitempty"`
	Amounts quantity.Amounts `json:"amounts"`
	// Target is the only acceptable provider, "" for any.
	Target string `json:"target,omitempty"`
	// Duration is how long the reservation is held; 0 for as long as it is renewed.
	Duration time.Duration `json:"duration,omitempty"`
	// Object is the Reservation object that a user created in the broker cluster, nil for a request
	// of an agent.
	Object *ObjectRef `json:"object,omitempty"`
	// Requirements has the requirements for every provider, nil for none. It must not be modified,
	// because views share it.
	Requirements *brokerv1alpha1.Requirements `json:"requirements,omitempty"`
}

// Demands returns the requirements, or empty ones if there are none.
func (r *Request) Demands() brokerv1alpha1.Requirements {
	if r.Requirements == nil {
		return brokerv1alpha1.Requirements{}
	}
	return *r.Requirements
}

// Reserve creates a reservation for a request, with its first placement.
type Reserve struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
	Request
	// Until is when the reservation ends unless it is renewed.
	Until    time.Time `json:"until"`
	Provider string    `json:"provider"`
	// Price is the price to lock for the placement, nil if the provider has no prices. In the book
	// it is nil, because each placement has its own.
	Price *Price `json:"price,omitempty"`
	// Explanation says why the provider was chosen. The ledger only stores it.
	Explanation Explanation `json:"explanation,omitempty"`
}

func (r *Reserve) subject() string { return r.Name }

func (r *Reserve) checkAgainst(s *State) error {
	if err := s.checkRequest(r); err != nil {
		return err
	}
	return s.clusters.checkGrant(r.Provider, &r.Request, r.Price)
}

func (r *Reserve) applyTo(s *State, at time.Time) {
	reservation := &Reservation{Reserve: *r, By: s.shared.internActor(s.by), CreatedAt: instantOf(at)}
	s.addReservation(reservation)
	s.addPlacement(at, reservation, r.Provider, r.Price)
}

// checkRequest returns an error for a new reservation with invalid fields.
func (s *State) checkRequest(r *Reserve) error {
	if r.Name == "" || r.Requester == "" || r.Key == "" || r.Amounts.IsZero() {
		return fmt.Errorf("%w: reservation without name, requester, key or amounts", ErrMalformed)
	}
	if err := checkAmounts(r.Amounts); err != nil {
		return fmt.Errorf("reservation %q: %w", r.Name, err)
	}
	if s.reservations[r.Name] != nil {
		return fmt.Errorf("reservation %q: %w", r.Name, ErrTaken)
	}
	return s.checkKeyFree(r.Requester, r.Key)
}

func (s *State) checkKeyFree(requester, key string) error {
	known, closed := s.ByKey(requester, key)
	if known != nil || closed || s.quotes.keys[keyRef{requester, key}] != nil {
		return fmt.Errorf("key %q of %q: %w", key, requester, ErrTaken)
	}
	return nil
}

func (s *State) addReservation(r *Reservation) {
	r.Price = nil // each placement has its own price
	s.internRequest(&r.Reserve)
	s.shared.internActors(r)
	s.reservations[r.Name] = r
	s.keys[keyRef{r.Requester, r.Key}] = r
}

func (s *State) addPlacement(at time.Time, r *Reservation, provider string, price *Price) {
	number := r.lastNumber() + 1
	r.Placements = append(r.Placements, Placement{
		Number: number, Provider: s.Cluster(provider).ClusterID, AssignedAt: instantOf(at), Price: s.shared.internPrice(price),
	})
	r.Changed = s.position
	c := s.Cluster(provider)
	c.addHold(brokerv1alpha1.PlacementName(r.Name, number), r.Amounts)
	c.Record.Granted++
	c.Providing = c.Providing.Granted(at, r.Requester)
}
