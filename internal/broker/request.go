package broker

import (
	"errors"
	"fmt"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
)

const (
	// LongestDuration is the longest duration of a reservation, ten years.
	LongestDuration = 87600 * time.Hour
	// maxResources is how many resources one reservation may name. The schema of Reservation has
	// the same limit.
	maxResources = 10
)

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
	if len(amounts) > maxResources {
		return fmt.Errorf("%d kinds of resource are asked for, the most is %d", len(amounts), maxResources)
	}
	for _, name := range amounts.Names() {
		if err := quantity.CheckName(name); err != nil {
			return err
		}
	}
	return requirements.CheckNode(amounts)
}
