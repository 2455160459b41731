package view

import (
	"cmp"
	"sort"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// memo keeps what views derive from the objects of a snapshot and not from its time At. Each field is computed when a
// view first needs it.
type memo struct {
	problems   once[[]*problem]
	market     once[market]
	counts     once[[]Count]
	requesters once[[]Use]
	idle       once[map[string]quantity.Amounts]
	queue      once[[]place]
}

type once[T any] struct {
	sync.Once
	value T
}

// Remember makes the views of this snapshot, and of its copies, share what they derive from the objects alone. The
// objects must not change after that. Many requests can then read one snapshot of a large fleet, at different times.
func (s *Snapshot) Remember() { s.memo = &memo{} }

// remembered returns the value that field keeps. It computes the value if the snapshot remembers nothing.
func remembered[T any](s *Snapshot, field func(*memo) *once[T], compute func() T) T {
	if s.memo == nil {
		return compute()
	}
	kept := field(s.memo)
	kept.Do(func() { kept.value = compute() })
	return kept.value
}

// findOrdered returns the index of the first of the items, which are ordered by namespace and name, that does not come
// before the given one.
func findOrdered[T metav1.Object](items []T, namespace, name string) int {
	return sort.Search(len(items), func(i int) bool {
		return cmp.Or(cmp.Compare(items[i].GetNamespace(), namespace), cmp.Compare(items[i].GetName(), name)) >= 0
	})
}

// find returns the item that r names, nil if there is none. ordered is true if the items are ordered by namespace and
// name.
func find[T metav1.Object](items []T, ordered bool, r Ref) (found T) {
	if ordered {
		first := findOrdered(items, r.Namespace, r.Name)
		items = items[first:min(first+1, len(items))]
	}
	for _, o := range items {
		if o.GetName() == r.Name && o.GetNamespace() == r.Namespace {
			return o
		}
	}
	return found
}
