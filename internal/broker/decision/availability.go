package decision

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// AvailabilityScore rates a cluster by its free capacity before the request is placed. The free
// share of its cpu and the free share of its memory count for up to 50 points each.
func AvailabilityScore(available, allocatable quantity.Amounts) Score {
	return scoreOf(availabilityScore(
		available[corev1.ResourceCPU], allocatable[corev1.ResourceCPU],
		available[corev1.ResourceMemory], allocatable[corev1.ResourceMemory]))
}

type availability struct{}

func (availability) name() string                  { return Availability }
func (availability) prepareScores(*contest) bool   { return true }
func (availability) score(c *contest, i int) int64 { return c.market.availability[i] }
func (availability) scoreColumn(m *Market) []int64 { return m.availability }

func availabilityScore(freeCPU, cpu, freeMemory, memory int64) int64 {
	return halfScore(freeCPU, cpu) + halfScore(freeMemory, memory)
}

// halfScore returns the free share of a resource as a score from 0 to half of fullScore. It is never
// higher, even if more than the whole resource is free because of over-subscription.
func halfScore(free, of int64) int64 {
	switch {
	case free <= 0 || of <= 0:
		return 0
	case free >= of:
		return fullScore / 2
	}
	return int64(float64(free) / float64(of) * float64(fullScore/2))
}
