package placeholder

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// partCPU and partMemory limit the size of a placeholder, unless more than mostParts placeholders
// would be needed. Small placeholders fit next to other pods on a node. If one is deleted for a
// smaller pod, little of the freed capacity is left unprotected.
const (
	partCPU    = 1000    // 1 core
	partMemory = 4 << 30 // 4 GiB
	mostParts  = 32
)

// Split divides reserved capacity into amounts of about the same size, one for each placeholder.
// They add up to the reserved capacity without the resource "pods", which placeholders cannot
// keep.
func Split(reserved quantity.Amounts) []quantity.Amounts {
	reserved = Keepable(reserved)
	if reserved.IsZero() {
		return nil
	}
	n := int64(1)
	for name, amount := range reserved {
		n = max(n, partsOf(name, amount))
	}
	n = min(n, mostParts)
	split := make([]quantity.Amounts, n)
	for i := range n {
		split[i] = quantity.Amounts{}
		for name, amount := range reserved {
			share := amount / n
			if i < amount%n {
				share++
			}
			if share > 0 {
				split[i][name] = share
			}
		}
	}
	return split
}

func partsOf(name corev1.ResourceName, amount int64) int64 {
	switch {
	case name == corev1.ResourceCPU:
		return (amount-1)/partCPU + 1
	case name == corev1.ResourceMemory:
		return (amount-1)/partMemory + 1
	case quantity.InBytes(name):
		return 1
	}
	return amount // one placeholder for each device
}

// Keepable returns the positive amounts without the resource "pods", which placeholders
// cannot keep.
func Keepable(reserved quantity.Amounts) quantity.Amounts {
	out := quantity.Amounts{}
	for name, amount := range reserved {
		if name != corev1.ResourcePods && amount > 0 {
			out[name] = amount
		}
	}
	return out
}
