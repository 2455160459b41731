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

// once is a value that is computed once.
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

// findOrdered returns the index of the first of n objects, ordered by namespace and name, that does not come before the
// given one. It is n if all come before.
func findOrdered(n int, metaOf func(i int) *metav1.ObjectMeta, namespace, name string) int {
	return sort.Search(n, func(i int) bool {
		m := metaOf(i)
		return cmp.Or(cmp.Compare(m.Namespace, namespace), cmp.Compare(m.Name, name)) >= 0
	})
}

// indexOf returns the index of the object that r names among n objects, -1 if it is not there. ordered is true if the
// objects are ordered by namespace and name.
func indexOf(n int, ordered bool, metaOf func(i int) *metav1.ObjectMeta, r Ref) int {
	first, end := 0, n
	if ordered {
		first = findOrdered(n, metaOf, r.Namespace, r.Name)
		end = min(first+1, n)
	}
	for i := first; i < end; i++ {
		if m := metaOf(i); m.Name == r.Name && m.Namespace == r.Namespace {
			return i
		}
	}
	return -1
}
