// Package requests contains requests for capacity: what they ask for, which of them are valid, and
// within which bounds.
package requests

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
)

const (
	// LongestDuration is the longest duration of a reservation, ten years.
	LongestDuration = 87600 * time.Hour
	// ShortestIdle is the shortest time after which a reservation may count as idle.
	ShortestIdle = time.Minute
	// MaxResources is how many resources one reservation may name. The schema of Reservation has
	// the same limit.
	MaxResources = 10
)

// Request is a request for capacity, from an agent or from an object. It adds to ledger.Request
// what is only needed when the request arrives.
type Request struct {
	ledger.Request
	// Holds is the name of the reservation to which the key of this request belongs according to
	// the requester; "" if the requester names none.
	Holds string
	// Quote is the quote that the request takes over, "" for none.
	Quote string
	// By is who made the request.
	By ledger.Actor
	// held is the reservation of the request, nil for a new request.
	held *ledger.Reservation
}

// Of returns the request of a reservation, including later changes.
func Of(r *ledger.Reservation) *Request { return &Request{Request: r.Request, held: r} }

// TimeLeft returns how long the reservation will be held from now on, or from its grant if it waits; 0 for
// no bound.
func (r *Request) TimeLeft(now time.Time) time.Duration {
	switch {
	case r.held == nil || r.Duration == 0:
		return r.Duration
	case r.held.Waiting != nil:
		return r.held.Waiting.Left
	}
	return max(r.held.Until.Sub(now), 1)
}

// Digest returns a digest of the request. Two requests with the same key but different
// digests are different requests, not repetitions.
func (r *Request) Digest() string {
	asked := r.Request
	asked.Requester, asked.Key, asked.Object = "", "", nil
	text, err := json.Marshal(asked)
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// QuoteDigest returns a digest of the request that must be equal in a quote and in the request that
// takes the quote over. The two may differ in tenant, priority, queueing, healing and idle.
func (r *Request) QuoteDigest() string {
	q := *r
	q.Tenant, q.Priority, q.Queue, q.Wait, q.Patient, q.Idle = "", 0, false, 0, false, nil
	return q.Digest()
}

// Complete adds the sum of the pod shapes to the amounts, and returns an error for an invalid
// request.
func (r *Request) Complete() error {
	demands := r.Demands()
	if err := requirements.CheckPods(r.Amounts, demands.PodShapes); err != nil {
		return fault.New(fault.Invalid, "%v", err)
	}
	r.Amounts = withPods(r.Amounts, demands.PodShapes)
	if k := demands.Constraints; k != nil && k.MaxPrice != nil {
		if _, err := money.ParsePrice(string(k.MaxPrice.Amount)); err != nil {
			return fault.New(fault.Invalid, "constraints.maxPrice.amount: %v", err)
		}
		if !money.IsCurrency(k.MaxPrice.Currency) {
			return fault.New(fault.Invalid, "constraints.maxPrice.currency: %q is not an ISO 4217 code such as EUR", k.MaxPrice.Currency)
		}
	}
	return r.checkFields()
}

// withPods returns amounts that are at least the sum of the pods, for every resource.
func withPods(named quantity.Amounts, shapes []brokerv1alpha1.PodShape) quantity.Amounts {
	amounts := named.Clone()
	for name, sum := range requirements.SumPods(shapes) {
		if amounts == nil {
			amounts = quantity.Amounts{}
		}
		amounts[name] = max(amounts[name], sum)
	}
	return amounts
}

// CheckRequirements returns an error for requirements that the broker refuses whatever clusters
// there are.
func CheckRequirements(amounts quantity.Amounts, asked brokerv1alpha1.Requirements) error {
	r := Request{Request: ledger.Request{Amounts: amounts, Requirements: &asked}}
	return r.Complete()
}

// NeedsShapes reports whether the request must be checked against individual nodes, because it has
// pod shapes or a node selector.
func (r *Request) NeedsShapes() bool {
	demands := r.Demands()
	return len(demands.PodShapes) > 0 || demands.Constraints != nil && len(demands.Constraints.NodeSelector) > 0
}

// checkFields returns an error for a request that is invalid under any configuration. The schema of
// Reservation contains the same rules.
func (r *Request) checkFields() error {
	if err := CheckAmounts(r.Amounts); err != nil {
		return fault.New(fault.Invalid, "resources: %v", err)
	}
	if r.Duration > LongestDuration {
		return fault.New(fault.Invalid, "duration: %s is too long, the most is %s", r.Duration, LongestDuration)
	}
	return nil
}

// CheckAmounts returns an error for amounts that can never be reserved.
func CheckAmounts(amounts quantity.Amounts) error {
	if amounts.IsZero() {
		return errors.New("ask for at least one resource in an amount above zero")
	}
	if len(amounts) > MaxResources {
		return fmt.Errorf("%d kinds of resource are asked for, the most is %d", len(amounts), MaxResources)
	}
	for _, name := range amounts.Names() {
		if err := quantity.CheckName(name); err != nil {
			return err
		}
	}
	return requirements.CheckNode(amounts)
}

// Groups returns the groups that affinity and anti-affinity name.
func Groups(k *brokerv1alpha1.Constraints) (affinity, anti []string) {
	if k == nil {
		return nil, nil
	}
	return k.Affinity, k.AntiAffinity
}
