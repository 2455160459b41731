package quantity

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Reasons why FromResourceList rejects a quantity; the returned error wraps one and names the
// resource and its value.
var (
	ErrNegative   = errors.New("is negative")
	ErrTooLarge   = errors.New("is too large")
	ErrFractional = errors.New("must be a whole number, for example 1")
)

// unit is the base unit of a resource.
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

// InBytes reports whether a resource is measured in bytes (memory, storage, huge pages); such a
// resource is priced per GiB.
func InBytes(name corev1.ResourceName) bool { return unitOf(name) == bytes }

// FromResourceList converts Kubernetes quantities to base units. It rounds fractions of a
// millicore or byte up, as Kubernetes does. It rejects fractions of a counted resource,
// negative amounts, and amounts above Limit. Of several errors it returns that of the first
// resource by name.
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

// FromResource converts one quantity like FromResourceList. Its error says what is wrong and what
// is accepted, without the resource and its value.
func FromResource(name corev1.ResourceName, q resource.Quantity) (int64, error) {
	return baseUnits(name, q)
}

// Base returns a quantity that FromResourceList accepts in base units. It allocates nothing.
func Base(name corev1.ResourceName, q resource.Quantity) int64 {
	if unitOf(name) == millicores {
		return q.MilliValue()
	}
	return q.Value()
}

// ToResourceList is the reverse of FromResourceList, in the usual notation: 500m, 4Gi, 2.
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

// ToQuantity converts base units of one resource to a Kubernetes quantity.
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

// Format returns base units of one resource as a Kubernetes quantity, for messages.
func Format(name corev1.ResourceName, amount int64) string {
	q := ToQuantity(name, amount)
	return q.String()
}

var (
	limitCPU   = *resource.NewMilliQuantity(Limit, resource.DecimalSI)
	limitOther = *resource.NewQuantity(Limit, resource.DecimalSI)
)

// formatLimit returns Limit as users write it.
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
	// The bound is checked on the quantity, because Value and MilliValue overflow above int64.
	if q.Cmp(limit) > 0 {
		return 0, fmt.Errorf("%w: no cluster has more than %s", ErrTooLarge, formatLimit(u))
	}
	v := Base(name, q)
	if u == counted && q.Cmp(*resource.NewQuantity(v, resource.DecimalSI)) != 0 {
		return 0, ErrFractional
	}
	return v, nil
}
