package liqo

import "fmt"

// Aspect is the state of one side of a placement, ready to become a condition.
type Aspect struct {
	// True, or false with what is awaited in Message.
	True bool
	// Reason is one of the API's, Message is for people.
	Reason, Message string
}

func waiting(reason, format string, args ...any) Aspect {
	return Aspect{Reason: reason, Message: fmt.Sprintf(format, args...)}
}
