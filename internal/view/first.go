package view

import "slices"

// first collects values. It keeps the first values in the order of compare. The field most says how
// many; 0 means all values.
type first[T any] struct {
	most    int
	compare func(a, b T) int
	// kept is sorted if most is not 0.
	kept []T
}

func (f *first[T]) add(v T) {
	if f.most == 0 {
		f.kept = append(f.kept, v)
		return
	}
	if len(f.kept) == f.most {
		if f.compare(v, f.kept[f.most-1]) >= 0 {
			return
		}
		f.kept = f.kept[:f.most-1]
	}
	at, _ := slices.BinarySearchFunc(f.kept, v, f.compare)
	f.kept = slices.Insert(f.kept, at, v)
}

func (f *first[T]) sorted() []T {
	if f.most == 0 {
		slices.SortFunc(f.kept, f.compare)
	}
	return f.kept
}
