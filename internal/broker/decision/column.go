package decision

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
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

// nameColumn returns the column of a resource that a row names.
func (m *Market) nameColumn(i int32, name corev1.ResourceName) *column {
	if col := m.columnIn(i, name); col != nil {
		return col
	}
	col := m.internColumn(name)
	col.named++
	m.named[i] = append(m.named[i], m.columnOf[name])
	return col
}

// forgetColumns clears the amounts in a row's columns, except in those of builtin resources. A
// column that no other candidate uses becomes vacant.
func (m *Market) forgetColumns(i int32) {
	for _, k := range m.named[i] {
		col := &m.columns[k]
		col.allocatable[i], col.available[i] = 0, neverAdvertised
		if col.named--; col.named == 0 {
			delete(m.columnOf, col.name)
			col.name = ""
			m.vacant = append(m.vacant, k)
		}
	}
	m.named[i] = nil
}

// columnIn returns the column of a resource, nil if the row has none for it.
func (m *Market) columnIn(i int32, name corev1.ResourceName) *column {
	k, known := m.columnOf[name]
	if !known || k >= builtinColumns && !slices.Contains(m.named[i], k) {
		return nil
	}
	return &m.columns[k]
}
