package packing

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Columns are the names of resources. The index of a name is its column.
type Columns []corev1.ResourceName

// Name adds a column for each resource that has none yet.
func (c *Columns) Name(amounts quantity.Amounts) {
	for name := range amounts {
		if c.Find(name) < 0 {
			*c = append(*c, name)
		}
	}
}

// Find returns the column of a resource, or -1.
func (c Columns) Find(name corev1.ResourceName) int32 { return int32(slices.Index(c, name)) }

// Free converts amounts that are free on a node for Nodes.Add.
func (c Columns) Free(amounts quantity.Amounts) []int64 {
	free := make([]int64, len(c))
	for column, name := range c {
		free[column] = NotNamed
		if v, named := amounts[name]; named {
			free[column] = max(v, 0)
		}
	}
	return free
}

// Needs converts the amounts that one pod requests.
func (c Columns) Needs(amounts quantity.Amounts) (out []Need) {
	for _, name := range amounts.Names() {
		if amounts[name] > 0 {
			out = append(out, Need{Column: c.Find(name), Amount: amounts[name]})
		}
	}
	return out
}
