package decision

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// column holds one resource of every row. One that no candidate names is vacant: its name
// is "", and the next new resource takes its place.
type column struct {
	name        corev1.ResourceName
	allocatable []int64
	// available is neverAdvertised where the candidate named no such resource.
	available []int64
	price     []float64
	priced    int
	// named counts the candidates that name the resource.
	named int
}

const neverAdvertised int64 = -1

// The columns every market has, and their places.
const (
	cpuColumn int32 = iota
	memoryColumn
	podsColumn
	builtinColumns
)

const (
	// MaxResources bounds how many different resource names candidates can bring in,
	// each of which costs 24 bytes for every candidate.
	MaxResources = 1024
	// DefaultResourceNames is how many names one candidate may bring in beside cpu, memory
	// and pods.
	DefaultResourceNames = 32
	// maxLeftOut is how many names are remembered that found no column.
	maxLeftOut = 64
)

// internColumn returns the column of a resource, which is made when it is new. The
// pointer holds until the next column is made.
func (m *Market) internColumn(name corev1.ResourceName) *column {
	if k, ok := m.columnOf[name]; ok {
		return &m.columns[k]
	}
	if n := len(m.vacant); n > 0 {
		k := m.vacant[n-1]
		m.vacant = m.vacant[:n-1]
		m.columns[k].name, m.columnOf[name] = name, k
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

// names are what a row names beside the builtin columns: its columns, and the resources that
// have none.
type names struct {
	columns []int32
	leftOut []corev1.ResourceName
}

// nameColumns gives a row columns for resources, in their order. Resources beyond the row's
// budget, or for which no column is free, are left out.
func (m *Market) nameColumns(i int32, resources []corev1.ResourceName) {
	row := &m.named[i]
	for _, name := range resources {
		k, known := m.columnOf[name]
		switch {
		case known && (k < builtinColumns || slices.Contains(row.columns, k)):
		case len(row.columns) >= m.budget, !known && len(m.vacant) == 0 && len(m.columns) >= MaxResources:
			if len(row.leftOut) < maxLeftOut {
				row.leftOut = append(row.leftOut, name)
			}
		default:
			m.internColumn(name).named++
			row.columns = append(row.columns, m.columnOf[name])
		}
	}
}

// forgetColumns empties the columns of a row. Those that no other candidate uses become
// vacant.
func (m *Market) forgetColumns(i int32) {
	for _, k := range m.named[i].columns {
		col := &m.columns[k]
		col.allocatable[i], col.available[i] = 0, neverAdvertised
		if col.named--; col.named == 0 {
			delete(m.columnOf, col.name)
			col.name = ""
			m.vacant = append(m.vacant, k)
		}
	}
	m.named[i] = names{}
}

// columnIn returns the column of a resource, nil where the row has none for it.
func (m *Market) columnIn(i int32, name corev1.ResourceName) *column {
	k, known := m.columnOf[name]
	if !known || k >= builtinColumns && !slices.Contains(m.named[i].columns, k) {
		return nil
	}
	return &m.columns[k]
}

// resourcesOf are what a candidate names: what it offers before what it only has a price for,
// and what Kubernetes itself knows before what others have added.
func resourcesOf(c *Candidate) []corev1.ResourceName {
	offered, rest := map[corev1.ResourceName]bool{}, map[corev1.ResourceName]bool{}
	for _, amounts := range []quantity.Amounts{c.Allocatable, c.Available} {
		for name, v := range amounts {
			offered[name] = offered[name] || v > 0
		}
	}
	for name := range c.Prices {
		rest[name] = !offered[name]
	}
	order := func(a, b corev1.ResourceName) int {
		return cmp.Or(cmp.Compare(rankOf(a), rankOf(b)), cmp.Compare(a, b))
	}
	var first, last []corev1.ResourceName
	for name, some := range offered {
		if some {
			first = append(first, name)
		} else {
			rest[name] = true
		}
	}
	for name, only := range rest {
		if only {
			last = append(last, name)
		}
	}
	slices.SortFunc(first, order)
	slices.SortFunc(last, order)
	return append(first, last...)
}

func rankOf(name corev1.ResourceName) int {
	if quantity.IsExtended(name) {
		return 1
	}
	return 0
}

// SetBudget bounds how many resources each candidate can bring in from its next Upsert on.
func (m *Market) SetBudget(names int) { m.budget = names }

// LeftOut are the resources of a candidate that decisions do not know of: it names more
// than its budget allows, or all columns are in use. All else of it counts.
func (m *Market) LeftOut(id string) []corev1.ResourceName {
	i, ok := m.row[id]
	if !ok {
		return nil
	}
	return m.named[i].leftOut
}

// Resources is how many resource names are in use.
func (m *Market) Resources() int { return len(m.columnOf) }
