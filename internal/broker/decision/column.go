package decision

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// column holds the values of one resource for every row. A column whose resource is no longer named
// by any candidate is vacant: its name is "", and the next new resource gets the column.
type column struct {
	name        corev1.ResourceName
	allocatable []int64
	// available is neverAdvertised if the candidate did not name the resource.
	available []int64
	// price is 0 for a candidate without a price, and freePrice for one that is free of charge.
	// priced counts the candidates with a price above 0, free those with a price of 0.
	price        []float64
	priced, free int
	// named counts the candidates that name the resource.
	named int
}

const neverAdvertised int64 = -1

const freePrice float64 = -1

// The columns of the builtin resources, which every market has, by index.
const (
	cpuColumn int32 = iota
	memoryColumn
	podsColumn
	builtinColumns
)

const (
	// MaxResources limits the number of different resource names in a market. Each name takes 24
	// bytes for every candidate.
	MaxResources = 1024
	// DefaultResourceNames limits the resources that one candidate may name besides cpu, memory and
	// pods.
	DefaultResourceNames = 32
	// maxLeftOut limits the resource names without a column that are remembered for a candidate.
	maxLeftOut = 64
)

// internColumn returns the column of a resource, which it creates if necessary. The pointer is
// valid until the next column is created.
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

// names holds the resources of a row besides the builtin ones: columns has the indexes of their
// columns, leftOut the names that got no column.
type names struct {
	columns []int32
	leftOut []corev1.ResourceName
}

// nameColumns assigns columns to a row's resources, in the given order. A resource gets none if the
// row's budget is exhausted, or if it is new and the market has MaxResources columns already.
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

// forgetColumns clears the amounts in a row's columns, except in those of builtin resources. A
// column that no other candidate uses becomes vacant.
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

// columnIn returns the column of a resource, nil if the row has none for it.
func (m *Market) columnIn(i int32, name corev1.ResourceName) *column {
	k, known := m.columnOf[name]
	if !known || k >= builtinColumns && !slices.Contains(m.named[i].columns, k) {
		return nil
	}
	return &m.columns[k]
}

// resourcesOf returns the resources that a candidate names, in the order in which they get columns.
// Resources with an amount above zero come before all others. Within both groups, Kubernetes' own
// resources come before extended ones.
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

// SetBudget limits how many resources each candidate may name besides cpu, memory and pods. It
// takes effect at the candidate's next Upsert.
func (m *Market) SetBudget(names int) { m.budget = names }

// LeftOut returns the resources of a candidate that decisions ignore, because the candidate names
// more than its budget allows or the market has no column left for them.
func (m *Market) LeftOut(id string) []corev1.ResourceName {
	i, ok := m.row[id]
	if !ok {
		return nil
	}
	return m.named[i].leftOut
}

// Resources returns the number of different resource names that have a column.
func (m *Market) Resources() int { return len(m.columnOf) }
