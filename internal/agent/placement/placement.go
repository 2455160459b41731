// Package placement defines what all parts of the agent share about a placement: the state of one
// of its sides.
package placement

import (
	"fmt"
)

// Aspect is the state of one side of a placement, ready to become a condition.
type Aspect struct {
	// True reports whether the side is ready.
	True bool
	// Reason is a constant of the API. Message describes for users what exists or is awaited.
	Reason, Message string
}

// Waiting returns an Aspect that is not ready yet, with what it waits for.
func Waiting(reason, format string, args ...any) Aspect {
	return Aspect{Reason: reason, Message: fmt.Sprintf(format, args...)}
}
