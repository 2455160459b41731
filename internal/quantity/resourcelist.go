package quantity

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Reasons for which FromResourceList refuses a quantity. The error that it returns wraps one of
// them, and names the resource and its value.
var (
	ErrNegative   = errors.New("is negative")
	ErrTooLarge   = errors.New("is too large")
	ErrFractional = errors.New("must be a whole number, for example 1")
)

// unit is the unit in which Amounts count a resource.
type unit uint8

const (
	counted unit = iota
	millicores
	bytes
)

func unitOf(name corev1.ResourceName) unit {
	switch name {
	case corev1.ResourceCPU:
		return millicores
	case corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourceStorage:
		return bytes
	}
	if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
		return bytes
	}
	return counted
}

// InBytes reports whether a resource is measured in bytes (memory, storage, huge pages). Such a
// resource is priced per GiB.
func InBytes(name corev1.ResourceName) bool { return unitOf(name) == bytes }

// FromResourceList converts Kubernetes quantities to base units. It rounds fractions of a millicore
// or of a byte up, as Kubernetes does. Negative amounts, amounts above Limit, and fractions of a
// resource that is counted in pieces are errors. If there are several errors, it returns the error
// for the resource whose name sorts first.
func FromResourceList(list corev1.ResourceList) (Amounts, error) {
	out := make(Amounts, len(list))
	var firstErr error
	var firstName corev1.ResourceName
	for name, q := range list {
		v, err := baseUnits(name, q)
		if err != nil {
			if firstErr == nil || name < firstName {
				firstErr = fmt.Errorf("resource %q: %q %w", name, q.String(), err)
				firstName = name
			}
			continue
		}
		out[name] = v
	}
	if firstErr != nil {
		return nil, firstErr
	}
	return out, nil
}

// FromResource converts one quantity as FromResourceList does. Its error says only what is wrong
// and what is accepted; callers add the resource and the value.
func FromResource(name corev1.ResourceName, q resource.Quantity) (int64, error) {
	return baseUnits(name, q)
}

// Base converts a quantity that FromResourceList accepts to base units. It allocates no memory.
func Base(name corev1.ResourceName, q resource.Quantity) int64 {
	if unitOf(name) == millicores {
		return q.MilliValue()
	}
	return q.Value()
}

// ToResourceList converts amounts to Kubernetes quantities in the usual notation, such as 500m,
// 4Gi or 2.
func (a Amounts) ToResourceList() corev1.ResourceList {
	if a == nil {
		return nil
	}
	out := make(corev1.ResourceList, len(a))
	for name, v := range a {
		out[name] = ToQuantity(name, v)
	}
	return out
}

// ToQuantity converts an amount of one resource from base units to a Kubernetes quantity.
func ToQuantity(name corev1.ResourceName, amount int64) resource.Quantity {
	switch unitOf(name) {
	case millicores:
		return *resource.NewMilliQuantity(amount, resource.DecimalSI)
	case bytes:
		return *resource.NewQuantity(amount, resource.BinarySI)
	default:
		return *resource.NewQuantity(amount, resource.DecimalSI)
	}
}

// Format returns an amount of one resource, given in base units, in the notation of Kubernetes,
// but without decimal units such as k, which few people use for cores and devices.
func Format(name corev1.ResourceName, amount int64) string {
	switch u := unitOf(name); {
	case u == millicores && amount%1000 == 0:
		return strconv.FormatInt(amount/1000, 10)
	case u == counted:
		return strconv.FormatInt(amount, 10)
	}
	q := ToQuantity(name, amount)
	return q.String()
}

var (
	limitCPU   = *resource.NewMilliQuantity(Limit, resource.DecimalSI)
	limitOther = *resource.NewQuantity(Limit, resource.DecimalSI)
)

// formatLimit returns Limit in the notation that users write.
func formatLimit(u unit) string {
	switch u {
	case millicores:
		return strconv.FormatInt(Limit/1000, 10)
	case bytes:
		return "4Ei"
	default:
		return strconv.FormatInt(Limit, 10)
	}
}

func baseUnits(name corev1.ResourceName, q resource.Quantity) (int64, error) {
	if q.Sign() < 0 {
		return 0, ErrNegative
	}
	u := unitOf(name)
	limit := limitOther
	if u == millicores {
		limit = limitCPU
	}
	// The limit is compared with the quantity itself, because Value and MilliValue may overflow.
	if q.Cmp(limit) > 0 {
		return 0, fmt.Errorf("%w: no cluster has more than %s", ErrTooLarge, formatLimit(u))
	}
	v := Base(name, q)
	if u == counted && q.Cmp(*resource.NewQuantity(v, resource.DecimalSI)) != 0 {
		return 0, ErrFractional
	}
	return v, nil
}

// Exceeds reports whether any amount in a list is larger than in the other one, where missing amounts
// are 0.
func Exceeds(list, other corev1.ResourceList) bool {
	for name, amount := range list {
		if most := other[name]; amount.Cmp(most) > 0 {
			return true
		}
	}
	return false
}
