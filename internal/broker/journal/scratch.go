package journal

import "math"

// Scratch returns a journal that stores nothing: it gives records places after the given position
// and keeps them in memory. Run must not be called.
func Scratch(id string, position uint64) *Journal {
	return &Journal{
		writer: writer{opts: Options{QueueRecords: math.MaxInt}}, id: id,
		wake: make(chan struct{}, 1), next: link{Position: position},
	}
}
