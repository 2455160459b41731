package broker

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Bounds limit what one reservation may ask for.
type Bounds struct {
	// Amounts holds the bounded resources; others are unbounded.
	Amounts quantity.Amounts
	// Duration is 0 for no bound.
	Duration time.Duration
}

// BoundsOf reads the bounds of a BrokerConfig.
func BoundsOf(spec *brokerv1alpha1.BrokerConfigSpec) (Bounds, error) {
	amounts, err := quantity.FromResourceList(corev1.ResourceList(spec.MaxPerReservation))
	if err != nil {
		return Bounds{}, fmt.Errorf("maxPerReservation: %w", err)
	}
	b := Bounds{Amounts: amounts}
	if spec.MaxDuration != nil {
		b.Duration = spec.MaxDuration.Duration
	}
	return b, nil
}

// Excess is one respect in which a request exceeds the bounds.
type Excess struct {
	// Resource is empty for the duration.
	Resource corev1.ResourceName
	// Asked and Most are formatted for people.
	Asked, Most string
}

// Advice completes a sentence that begins with the requested amount.
func (e Excess) Advice() string {
	if e.Resource == "" {
		return fmt.Sprintf("is longer than one reservation may be held: the longest is %s, set by BrokerConfig.spec.maxDuration; ask for less", e.Most)
	}
	return fmt.Sprintf("is more than one reservation may ask for: the most is %s, set by BrokerConfig.spec.maxPerReservation; ask for less, or in several reservations", e.Most)
}

// Excesses lists where a request exceeds the bounds, the duration last. A duration of 0 is
// renewed by its requester and not bounded.
func (b Bounds) Excesses(amounts quantity.Amounts, duration time.Duration) []Excess {
	var out []Excess
	for _, name := range amounts.Names() {
		if most, bounded := b.Amounts[name]; bounded && amounts[name] > most {
			out = append(out, Excess{name, quantity.Format(name, amounts[name]), quantity.Format(name, most)})
		}
	}
	if b.Duration != 0 && duration > b.Duration {
		out = append(out, Excess{"", duration.String(), b.Duration.String()})
	}
	return out
}

// checkRequest refuses a request that exceeds the bounds, and names every excess.
func (b Bounds) checkRequest(r *Request) error {
	var all []string
	for _, e := range b.Excesses(r.Amounts, r.Duration) {
		if e.Resource == "" {
			all = append(all, fmt.Sprintf("duration: %s %s", e.Asked, e.Advice()))
		} else {
			all = append(all, fmt.Sprintf("resources: %s of %s %s", e.Asked, e.Resource, e.Advice()))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "%s", strings.Join(all, "\n"))
}
