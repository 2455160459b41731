// Package placement defines how the packages of the agent tell each other the state of a placement.
package placement

import (
	"fmt"
)

// Aspect describes one part of a placement, for example its node. It has the form of a condition.
type Aspect struct {
	// True is the status of the condition.
	True bool
	// Reason is a reason that the API defines. Message tells users what exists or what is being waited
	// for.
	Reason, Message string
}

// Waiting returns an Aspect that is not true. The message should say what is being waited for.
func Waiting(reason, format string, args ...any) Aspect {
	return Aspect{Reason: reason, Message: fmt.Sprintf(format, args...)}
}
