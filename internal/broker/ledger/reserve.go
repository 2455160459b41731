package ledger

import (
	"fmt"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Request is what an agent or a user asks for. Events store it, the book keeps it, and later
// providers have to meet it.
type Request struct {
	Requester string `json:"requester"`
	// Key makes repetitions harmless. Each requester has its own keys.
	Key      string `json:"key"`
	Tenant   string `json:"tenant,omitempty"`
	Priority int32  `json:"priority,omitempty"`
	// Queue is true if the request waits whenever no cluster can serve it.
	Queue bool `json:"queue,omitempty"`
	// Patient is true if the reservation stays with a silent provider (healing: Wait).
	Patient bool `json:"patient,omitempty"`
	// Wait is how long it may wait in the queue; 0 for the configured time.
	Wait    time.Duration    `json:"wait,omitempty"`
	Amounts quantity.Amounts `json:"amounts"`
	// Target is the only acceptable provider, "" for any.
	Target string `json:"target,omitempty"`
	// Duration is how long it is held; 0 for as long as it is renewed.
	Duration time.Duration `json:"duration,omitempty"`
	// Object is the Reservation object that a user created in the broker cluster, nil for an
	// agent's request.
	Object *ObjectRef `json:"object,omitempty"`
	// Requirements for every provider, nil for none. They must not be changed: views share them.
	Requirements *brokerv1alpha1.Requirements `json:"requirements,omitempty"`
}

// Demands returns the requirements, empty ones for none.
func (r *Request) Demands() brokerv1alpha1.Requirements {
	if r.Requirements == nil {
		return brokerv1alpha1.Requirements{}
	}
	return *r.Requirements
}

// Reserve grants a request its first placement.
type Reserve struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
	Request
	// Until is when it ends unless it is renewed.
	Until    time.Time `json:"until"`
	Provider string    `json:"provider"`
	// Explanation of the decision. The ledger does not read it.
	Explanation Explanation `json:"explanation,omitempty"`
}

func (r *Reserve) subject() string { return r.Name }

func (r *Reserve) checkAgainst(s *State) error {
	if err := s.checkRequest(r); err != nil {
		return err
	}
	return s.clusters.checkFits(r.Provider, r.Amounts)
}

func (r *Reserve) applyTo(s *State, at time.Time) {
	reservation := &Reservation{Reserve: *r, CreatedAt: instantOf(at)}
	s.addReservation(reservation)
	s.addPlacement(at, reservation, r.Provider)
}

// checkRequest checks a new reservation, whether it is granted, queued or quoted.
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
	known, shut := s.ByKey(requester, key)
	if known != nil || shut || s.quotes.keys[keyRef{requester, key}] != nil {
		return fmt.Errorf("key %q of %q: %w", key, requester, ErrTaken)
	}
	return nil
}

// addReservation indexes a new reservation by its name and by its key.
func (s *State) addReservation(r *Reservation) {
	s.internRequest(&r.Reserve)
	s.reservations[r.Name] = r
	s.keys[keyRef{r.Requester, r.Key}] = r
}

func (s *State) addPlacement(at time.Time, r *Reservation, provider string) {
	number := r.lastNumber() + 1
	r.Placements = append(r.Placements, Placement{Number: number, Provider: s.Cluster(provider).ClusterID, AssignedAt: instantOf(at)})
	r.Changed = s.position
	name := brokerv1alpha1.PlacementName(r.Name, number)
	s.Cluster(provider).addHold(name, r.Amounts)
	s.Cluster(provider).Record.Granted++
	s.clusters.updateProviding(at, provider, false, func(c *Conduct) { c.beginTrial(at, r.Requester, name) })
}
