package broker

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

const (
	// LongestDuration is the longest a reservation may be held, ten years. A
	// time.Duration can hold far more.
	LongestDuration = 87600 * time.Hour
	// maxResources is how many resources a Reservation can show.
	maxResources = 10
)

// checkFields refuses requests that no configuration allows. The schema of Reservation contains the
// same rules.
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
	extended := false
	for _, name := range amounts.Names() {
		if err := quantity.CheckName(name); err != nil {
			return err
		}
		extended = extended || quantity.IsExtended(name) && amounts[name] > 0
	}
	if cpu, named := amounts[corev1.ResourceCPU]; named && cpu == 0 && !extended {
		return errors.New("cpu must be above zero, for example 500m, or left out; only beside an extended resource may it be 0")
	}
	return nil
}
