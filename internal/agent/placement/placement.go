// Package placement defines how the packages of the agent tell each other the state of a placement.
package placement

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
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

// SetIn sets the condition that describes the aspect. generation is that of the conditions' object.
func (a Aspect) SetIn(conditions *[]metav1.Condition, kind string, generation int64, now time.Time) {
	status := metav1.ConditionFalse
	if a.True {
		status = metav1.ConditionTrue
	}
	message.SetCondition(conditions, kind, status, a.Reason, a.Message, generation, now)
}
