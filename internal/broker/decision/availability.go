package decision

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// AvailabilityScore rates a cluster by its free capacity before any new request. The free
// shares of its cpu and of its memory count for 50 points each.
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

// halfScore returns at most half of fullScore, which is 50 points: a provider that lends more
// than it has allocatable is no better than an empty one.
func halfScore(free, of int64) int64 {
	switch {
	case free <= 0 || of <= 0:
		return 0
	case free >= of:
		return fullScore / 2
	}
	return int64(float64(free) / float64(of) * float64(fullScore/2))
}
