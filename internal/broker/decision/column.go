package decision

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// column holds one resource of every row. A column that no candidate names is vacant: its name
// is "", and the next new resource takes it.
type column struct {
	name        corev1.ResourceName
	allocatable []int64
	// available is neverAdvertised if the candidate did not name the resource.
	available []int64
	// price is 0 for a candidate without a price, and freePrice for a price of 0. priced and
	// free count the candidates with a price above 0 and of 0.
	price        []float64
	priced, free int
	// named counts the candidates that name the resource.
	named int
}

const neverAdvertised int64 = -1

const freePrice float64 = -1

// Columns that every market has, with their indexes.
const (
	cpuColumn int32 = iota
	memoryColumn
	podsColumn
	builtinColumns
)

const (
	// MaxResources bounds the different resource names of all candidates. Each name costs 24
	// bytes for every candidate.
	MaxResources = 1024
	// DefaultResourceNames bounds the names that one candidate may add to cpu, memory and pods.
	DefaultResourceNames = 32
	// maxLeftOut bounds the remembered names without a column.
	maxLeftOut = 64
)

// internColumn returns the column of a resource, and creates it for a new one. The pointer is
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

// names holds the resources of a row other than the builtin ones: columns for those that have
// one, leftOut for those without.
type names struct {
	columns []int32
	leftOut []corev1.ResourceName
}

// nameColumns assigns columns to a row's resources, in the given order. It leaves out resources
// beyond the row's budget, and those for which no column is free.
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

// forgetColumns empties the columns of a row. A column that no other candidate uses becomes
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

// columnIn returns the column of a resource, nil if the row has none for it.
func (m *Market) columnIn(i int32, name corev1.ResourceName) *column {
	k, known := m.columnOf[name]
	if !known || k >= builtinColumns && !slices.Contains(m.named[i].columns, k) {
		return nil
	}
	return &m.columns[k]
}

// resourcesOf returns the resources that a candidate names. Offered resources come before those
// that only have a price, and the names of Kubernetes itself before other names.
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

// SetBudget bounds the resources that each candidate may add, from its next Upsert on.
func (m *Market) SetBudget(names int) { m.budget = names }

// LeftOut returns the resources of a candidate that decisions ignore, because it names more
// than its budget allows or all columns are in use. Its other resources count.
func (m *Market) LeftOut(id string) []corev1.ResourceName {
	i, ok := m.row[id]
	if !ok {
		return nil
	}
	return m.named[i].leftOut
}

// Resources returns the number of resource names in use.
func (m *Market) Resources() int { return len(m.columnOf) }
