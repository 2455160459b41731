package requests

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Bounds are the limits of one reservation.
type Bounds struct {
	// Amounts has the limit of each limited resource. Other resources are not limited.
	Amounts quantity.Amounts
	// Duration is the longest duration; 0 for no limit.
	Duration time.Duration
	// QuoteHold is the longest time for which a quote may be held; 0 for five minutes.
	QuoteHold time.Duration
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
	if spec.MaxQuoteHold != nil {
		b.QuoteHold = spec.MaxQuoteHold.Duration
	}
	return b, nil
}

// Excess is one resource, or the duration, in which a request exceeds the bounds.
type Excess struct {
	// Resource is the name of the resource; empty if the duration exceeds its bound.
	Resource corev1.ResourceName
	// Asked is the requested value and Most the largest allowed one, both formatted for display.
	Asked, Most string
}

// Advice says that the value is too large and what to do. It is the end of a sentence that begins
// with the requested value.
func (e Excess) Advice() string {
	if e.Resource == "" {
		return fmt.Sprintf("is longer than one reservation may be held: the longest is %s, set by BrokerConfig.spec.maxDuration; ask for less", e.Most)
	}
	return fmt.Sprintf("is more than one reservation may ask for: the most is %s, set by BrokerConfig.spec.maxPerReservation; ask for less, or in several reservations", e.Most)
}

// Excesses returns everything in which a request exceeds the bounds, the duration last. A duration
// of 0 is not limited, because such a reservation ends unless its requester renews it.
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

// Check returns fault.Invalid with a text that names all values with which the request exceeds the bounds,
// nil if there are none.
func (b Bounds) Check(r *Request) error {
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
	return fault.New(fault.Invalid, "%s", strings.Join(all, "; "))
}
