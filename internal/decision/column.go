package decision

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// column holds one resource of every row.
type column struct {
	name        corev1.ResourceName
	allocatable []int64
	// available is neverAdvertised where the candidate named no such resource.
	available []int64
	price     []float64
	priced    int
}

const neverAdvertised int64 = -1

// The columns every market has, and their places.
const (
	cpuColumn int32 = iota
	memoryColumn
	podsColumn
)

// MaxResources bounds how many different resource names candidates can bring in,
// each of which costs 24 bytes for every candidate.
const MaxResources = 1024

// intern returns the column of a resource, which is made when it is new. The
// pointer holds until the next column is made.
func (m *Market) intern(name corev1.ResourceName) *column {
	if k, ok := m.columnOf[name]; ok {
		return &m.columns[k]
	}
	col := column{
		name:        name,
		allocatable: make([]int64, len(m.ids), cap(m.ids)),
		available:   make([]int64, len(m.ids), cap(m.ids)),
		price:       make([]float64, len(m.ids), cap(m.ids)),
	}
	for i := range col.available {
		col.available[i] = neverAdvertised
	}
	m.columnOf[name] = int32(len(m.columns))
	m.columns = append(m.columns, col)
	return &m.columns[len(m.columns)-1]
}

func (m *Market) mayIntern(name corev1.ResourceName) bool {
	_, known := m.columnOf[name]
	return known || len(m.columns) < MaxResources
}

func (m *Market) hasRoomFor(c Candidate) error {
	fresh := map[corev1.ResourceName]bool{}
	note := func(name corev1.ResourceName) {
		if _, known := m.columnOf[name]; !known {
			fresh[name] = true
		}
	}
	for name := range c.Allocatable {
		note(name)
	}
	for name := range c.Available {
		note(name)
	}
	for name := range c.Prices {
		note(name)
	}
	for _, s := range c.Shapes {
		for name := range s.Free {
			note(name)
		}
	}
	if len(m.columns)+len(fresh) > MaxResources {
		return fmt.Errorf("%w: %q brings %d new resource names where %d of %d are in use",
			ErrCandidate, c.ID, len(fresh), len(m.columns), MaxResources)
	}
	return nil
}
